/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/kept.h"

#include "recipe/recipe.h"

static double percent_of_bytes(const struct keep_list *keep)
{
	return 100 * (double)keep->n_added / (double)keep->n_saved;
}

/* Adds ", 5 as channelwise" for each recipe that groups take. */
static void put_recipes(struct buf *text, const struct keep_list *keep)
{
	for (size_t r = 0; recipes[r]; r++) {
		size_t n = 0;

		for (size_t i = 0; i < keep->n; i++)
			n += keep->kept[i].recipe == recipes[r];
		if (n)
			buf_printf(text, ", %zu as %s", n, recipes[r]->name);
	}
}

void kept_print_text(FILE *stream, int width, const struct plan *plan)
{
	const struct keep_list *keep = &plan->keep;
	struct buf text = { 0 };

	if (!*keep->file_sha256)
		return;
	put_recipes(&text, keep);
	fprintf(stream, "%-*s%zu %s in BF16%s: %.1f %% of what FP8 saves\n", width, "keep",
		keep->n_bf16, keep->n_bf16 == 1 ? "group" : "groups", text.len ? text.data : "",
		percent_of_bytes(keep));
	fprintf(stream, "%-*spredicted KLD %.5f, else %.5f\n", width, "", keep->kld,
		keep->kld_before);
	buf_release(&text);
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
	json_out_float(out, "added_share", (float)(percent_of_bytes(keep) / 100));
	json_out_open(out, "groups", '[');
	for (size_t i = 0; i < keep->n; i++) {
		const struct keep_choice *choice = &keep->kept[i];

		json_out_open(out, NULL, '{');
		json_out_text(out, "group", choice->name);
		json_out_text(out, "reason", KEEP_REASON);
		json_out_text(out, "recipe", choice->recipe ? choice->recipe->name : NULL);
		json_out_float(out, "kld", (float)choice->kld);
		json_out_float(out, "kld_left", (float)choice->kld_left);
		json_out_count(out, "bytes", choice->n_bytes);
		json_out_close(out, '}');
	}
	json_out_close(out, ']');
	json_out_close(out, '}');
}
