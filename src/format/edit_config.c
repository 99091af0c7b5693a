/* SPDX-License-Identifier: Apache-2.0
 *
 * "quantization_config" in the text of a config.json.  Multimodal models keep the language model's
 * configuration in text_config, and some have theirs there: engines that find two believe the wrong
 * one, so there is one.
 */
#include "format/edit_config.h"

#include <string.h>

#include "base/json.h"

static const char key[] = "quantization_config";
static const char older_key[] = "compression_config";

int config_set_quantization(const struct buf *config, const char *quantization, struct buf *out,
			    struct err *err)
{
	static const char *const nested_path[] = { "text_config", key };
	struct json_text whole = { config->data, config->len };
	struct json_text top, nested, inner = { 0 };
	struct buf single = { 0 };
	int rc = -1;

	if (json_find(whole, key, &top, err) || json_find(whole, "text_config", &nested, err))
		goto out;
	if (nested.len && *nested.data == '{' && json_find(nested, key, &inner, err))
		goto out;
	if (!inner.len)
		rc = json_edit(whole, key, quantization, out, err);
	else if (!top.len)
		rc = json_edit_path(whole, nested_path, 2, quantization, out, err);
	else if (!json_edit_path(whole, nested_path, 2, NULL, &single, err))
		rc = json_edit((struct json_text){ single.data, single.len }, key, quantization,
			       out, err);
	if (!rc)
		rc = config_remove(out, older_key, err);
out:
	buf_release(&single);
	return rc ? err_wrap(err, "config.json") : 0;
}

int config_set_member(struct buf *config, const char *name, const char *value, struct err *err)
{
	struct buf edited = { 0 };

	if (json_edit((struct json_text){ config->data, config->len }, name, value, &edited, err)) {
		buf_release(&edited);
		return err_wrap(err, "config.json");
	}
	buf_release(config);
	*config = edited;
	return 0;
}

/* Whether text is a string or null that differs from value. */
static bool differs(struct json_text text, const char *value)
{
	if (!text.len || (*text.data != '"' && !json_text_is_null(text)))
		return false;
	return text.len != strlen(value) || memcmp(text.data, value, text.len) != 0;
}

/* Sets an existing member, which a path of n keys (1 or 2) names, to value; value NULL removes
 * it. */
static int edit_member(struct buf *config, const char *const *path, size_t n, const char *value,
		       struct err *err)
{
	struct json_text whole = { config->data, config->len };
	struct json_text object = whole, member;
	struct buf edited = { 0 };

	if (n == 2 && json_find(whole, path[0], &object, err))
		return -1;
	if (n == 2 && (!object.len || *object.data != '{'))
		return 0;
	if (json_find(object, path[n - 1], &member, err))
		return -1;
	if (!member.len || (value && !differs(member, value)))
		return 0;
	if (json_edit_path(whole, path, n, value, &edited, err)) {
		buf_release(&edited);
		return -1;
	}
	buf_release(config);
	*config = edited;
	return 0;
}

int config_remove(struct buf *config, const char *name, struct err *err)
{
	for (size_t n = 1; n <= 2; n++) {
		const char *path[] = { "text_config", name };

		if (edit_member(config, path + 2 - n, n, NULL, err))
			return err_wrap(err, "config.json");
	}
	return 0;
}

int config_set_dequantized(const struct buf *config, const char *dtype, struct buf *out,
			   struct err *err)
{
	static const char *const types[] = { "torch_dtype", "dtype" };

	buf_add(out, config->data, config->len);
	if (config_remove(out, key, err) || config_remove(out, older_key, err) ||
	    config_remove(out, "expert_dtype", err))
		return -1;
	for (size_t n = 1; n <= 2; n++) {
		const char *path[] = { "text_config", NULL };

		for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
			path[1] = types[i];
			if (edit_member(out, path + 2 - n, n, dtype, err))
				return err_wrap(err, "config.json");
		}
	}
	return 0;
}
