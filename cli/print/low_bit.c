/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/low_bit.h"

static void count(struct json_out *out, const struct low_bit_shown *shown, const char *key,
		  uint64_t n)
{
	if (shown->known == LOW_BIT_COUNTED)
		json_out_count(out, key, n);
	else
		json_out_null(out, key);
}

void low_bit_print_json(struct json_out *out, const struct low_bit_shown *shown)
{
	if (!json_out_object(out, "low_bit", shown->kind))
		return;
	json_out_text(out, "kind", shown->kind);
	json_out_count(out, "tensors", shown->tensors);
	if (shown->known != LOW_BIT_HEADERS) {
		count(out, shown, "exact", shown->exact);
		json_out_count(out, "values", shown->values);
		count(out, shown, "changed", shown->changed);
		json_out_text(out, "first", shown->first);
	}
	json_out_close(out, '}');
}
