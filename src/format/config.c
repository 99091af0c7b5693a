/* SPDX-License-Identifier: Apache-2.0
 *
 * "quantization_config" in the text of a config.json.  Multimodal models keep the language model's
 * configuration in text_config, and some have theirs there: engines that find two believe the wrong
 * one, so there is one.
 */
#include <string.h>

#include "base/json.h"
#include "format/format.h"

static const char key[] = "quantization_config";

static int edit(struct json_text text, const char *value, struct buf *out, struct err *err)
{
	return json_edit(text, key, value, out, err);
}

/* The member in text_config, edited (value NULL: removed); the text around it as it is. */
static int edit_nested(struct json_text whole, struct json_text nested, const char *value,
		       struct buf *out, struct err *err)
{
	size_t before = (size_t)(nested.data - whole.data);
	size_t behind = before + nested.len;

	buf_add(out, whole.data, before);
	if (edit(nested, value, out, err))
		return -1;
	buf_add(out, whole.data + behind, whole.len - behind);
	return 0;
}

int config_set_quantization(const struct buf *config, const char *quantization, struct buf *out,
			    struct err *err)
{
	struct json_text whole = { config->data, config->len };
	struct json_text top, nested, inner = { 0 };
	struct buf single = { 0 };
	int rc = -1;

	if (json_find(whole, key, &top, err) || json_find(whole, "text_config", &nested, err))
		goto out;
	if (nested.len && *nested.data == '{' && json_find(nested, key, &inner, err))
		goto out;
	if (!inner.data) {
		rc = edit(whole, quantization, out, err);
	} else if (!top.data) {
		rc = edit_nested(whole, nested, quantization, out, err);
	} else if (!edit_nested(whole, nested, NULL, &single, err)) {
		rc = edit((struct json_text){ single.data, single.len }, quantization, out, err);
	}
out:
	buf_release(&single);
	return rc ? err_wrap(err, "config.json") : 0;
}
