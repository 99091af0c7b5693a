/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/kept.h"

static double percent_of_bytes(const struct keep_list *keep)
{
	return 100 * (double)keep->kept_bytes / (double)keep->all_bytes;
}

void kept_print_text(FILE *stream, int width, const struct plan *plan)
{
	const struct keep_list *keep = &plan->keep;

	if (*keep->file_sha256)
		fprintf(stream, "%-*s%zu %s, %.1f %% of bytes; predicted KLD %.5f, else %.5f\n",
			width, "keep", keep->n, keep->n == 1 ? "group" : "groups",
			percent_of_bytes(keep), keep->kld, keep->kld_before);
}

void kept_print_json(struct json_out *out, const struct plan *plan)
{
	const struct keep_list *keep = &plan->keep;

	if (!*keep->file_sha256)
		return;
	json_out_open(out, "keep", '{');
	json_out_text(out, "sha256", keep->file_sha256);
	json_out_float(out, "kld_without", (float)keep->kld_before);
	json_out_float(out, "predicted_kld", (float)keep->kld);
	json_out_count(out, "kept_bytes", keep->kept_bytes);
	json_out_count(out, "all_bytes", keep->all_bytes);
	json_out_open(out, "groups", '[');
	for (size_t i = 0; i < keep->n; i++) {
		json_out_open(out, NULL, '{');
		json_out_text(out, "group", keep->kept[i].name);
		json_out_text(out, "reason", KEEP_REASON);
		json_out_float(out, "kld", (float)keep->kept[i].kld);
		json_out_count(out, "bytes", keep->kept[i].n_bytes);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_close(out, '}');
}
