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
out:
	buf_release(&single);
	return rc ? err_wrap(err, "config.json") : 0;
}
