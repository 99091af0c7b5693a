/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor-parallel sizes that load (fp8conv-formats(7)), and the refusal of others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

/* Sizes are a bit set: 1 | 2 | 4 are the first three. */
static void sizes_that_cut_whole_blocks_are_listed(void **state)
{
	static const struct {
		const char *tensors, *recipe;
		bool ragged;
		int sizes;
	} rows[] = {
		/* row-parallel: K / tp in whole blocks */
		{ "a.0.down_proj.weight BF16 128 1536\n", "blockwise", false, 1 | 2 | 4 },
		{ "a.0.down_proj.weight BF16 128 1536\n", "mxfp8", false, 1 | 2 | 4 | 8 | 16 },
		{ "a.0.down_proj.weight BF16 128 1536\n", "channelwise", false,
		  1 | 2 | 4 | 8 | 16 | 32 | 64 },
		{ "a.0.o_proj.weight BF16 128 576\n", "current", false,
		  1 | 2 | 4 | 8 | 16 | 32 | 64 },
		{ "a.0.o_proj.weight BF16 128 72\n", "current", false, 1 | 2 | 4 | 8 },
		/* column-parallel: N / tp */
		{ "a.0.up_proj.weight BF16 1536 128\n", "blockwise", false, 1 | 2 | 4 },
		{ "a.0.up_proj.weight BF16 200 128\n", "blockwise", true, 1 },
		{ "a.0.up_proj.weight BF16 200 128\n", "mxfp8", false, 1 | 2 | 4 | 8 },
		{ "a.0.w1.weight BF16 1024 128\na.0.w2.weight BF16 128 256\n", "blockwise", false,
		  1 | 2 },
		/* replicated, and kept */
		{ "a.0.kv_a_proj_with_mqa.weight BF16 576 128\n", "blockwise", false, 127 },
		{ "a.0.up_proj.weight BF16 8192 128\nlm_head.weight BF16 3 128\n", "blockwise",
		  false, 127 },
		/* experts need whole blocks even on one device */
		{ "a.experts.0.up_proj.weight BF16 256 128\n", "blockwise", false, 1 | 2 },
		{ "a.experts.0.up_proj.weight BF16 192 128\n", "blockwise", true, 0 },
		{ "a.experts.0.down_proj.weight BF16 128 192\n", "blockwise", true, 0 },
		{ "a.experts.0.up_proj.weight BF16 192 128\n", "mxfp8", false, 127 },
		{ "a.experts.gate_up_proj BF16 2 512 128\na.experts.down_proj BF16 2 128 256\n",
		  "blockwise", false, 1 | 2 },
		/* a seam in a ragged place does not load at all */
		{ "a.0.q_proj.weight BF16 200 128\na.0.k_proj.weight BF16 128 128\n", "blockwise",
		  true, 0 },
		{ "a.0.q_proj.weight BF16 128 128\na.0.k_proj.weight BF16 200 128\n", "blockwise",
		  true, 1 },
		{ "a.0.gate_up_proj.weight BF16 1024 128\n", "blockwise", false, 1 | 2 | 4 },
	};

	(void)state;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct select_options options = { .recipe = recipe_named(rows[r].recipe),
						  .ragged = rows[r].ragged };
		struct checkpoint checkpoint;
		struct selection selection;
		struct err err = { 0 };
		int sizes = 0;

		memory_checkpoint_init(&checkpoint, NULL, rows[r].tensors);
		if (selection_make(&selection, &checkpoint, &options, &err))
			fail_msg("row %zu: %s", r, err.message);
		for (size_t i = 0; i < selection.n_tp; i++)
			sizes |= selection.tp[i];
		if (sizes != rows[r].sizes)
			fail_msg("row %zu: %#x", r, sizes);
		selection_release(&selection);
		memory_checkpoint_release(&checkpoint);
	}
}

static void sizes_that_cut_blocks_are_refused(void **state)
{
	const char *down = "a.0.down_proj.weight BF16 128 1536\n";

	(void)state;
	selection_gives(down, "blockwise", (struct select_options){ .tp = 4 },
			"a.0.down_proj.weight blockwise\n");
	selection_gives(down, "blockwise", (struct select_options){ .tp = 3 },
			"a.0.down_proj.weight blockwise\n");
	selection_refuses(
		down, "blockwise", (struct select_options){ .tp = 8 }, ERR_USAGE,
		"tensor 'a.0.down_proj.weight': 1536 columns do not split over --tp 8 in multiples "
		"of 128; sizes that load: 1, 2, 4");
	selection_refuses(
		down, "channelwise", (struct select_options){ .tp = 5 }, ERR_USAGE,
		"tensor 'a.0.down_proj.weight': 1536 columns do not split over --tp 5; sizes that "
		"load: 1, 2, 4, 8, 16, 32, 64");
	selection_refuses(
		"a.experts.0.w1.weight BF16 192 128\n", "blockwise",
		(struct select_options){ .tp = 1, .ragged = true }, ERR_USAGE,
		"tensor 'a.experts.0.w1.weight': 192 rows do not split over --tp 1 in multiples "
		"of 128; no size loads");
}

/* The sizes up to 64 by the rules of vLLM, in Python: q % tp == 0 and (kv % tp == 0 if tp < kv else
 * tp % kv == 0). */
static void heads_must_divide(void **state)
{
	static const struct {
		const char *config;
		int sizes;
	} rows[] = {
		{ "{\"num_attention_heads\": 9, \"num_key_value_heads\": 3}", 1 },
		{ "{\"num_attention_heads\": 32, \"num_key_value_heads\": 8}",
		  1 | 2 | 4 | 8 | 16 | 32 },
		{ "{\"num_attention_heads\": 48, \"num_key_value_heads\": 6}", 1 | 2 },
		{ "{\"num_attention_heads\": 64, \"num_key_value_heads\": 1}", 127 },
		{ "{\"num_attention_heads\": 12}", 1 | 2 | 4 },
		{ "{\"text_config\": {\"n_head\": 20}}", 1 | 2 | 4 },
		{ "{\"vision_config\": {\"num_attention_heads\": 9}}", 127 },
		{ "{\"num_attention_heads\": [8, 9]}", 127 },
	};

	(void)state;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct select_options options = { .recipe = recipe_named("channelwise") };
		struct checkpoint checkpoint;
		struct selection selection;
		struct err err = { 0 };
		int sizes = 0;

		memory_checkpoint_init(&checkpoint, rows[r].config,
				       "a.0.up_proj.weight BF16 8192 128\n");
		if (selection_make(&selection, &checkpoint, &options, &err))
			fail_msg("row %zu: %s", r, err.message);
		for (size_t i = 0; i < selection.n_tp; i++)
			sizes |= selection.tp[i];
		if (sizes != rows[r].sizes)
			fail_msg("row %zu: %#x", r, sizes);
		selection_release(&selection);
		options.tp = 128;
		if (rows[r].sizes == 1 &&
		    (!selection_make(&selection, &checkpoint, &options, &err) ||
		     !strstr(err.message, "the 9 attention heads of config.json do not divide by "
					  "--tp 128; sizes that load: 1")))
			fail_msg("row %zu: %s", r, err.message);
		memory_checkpoint_release(&checkpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_that_cut_whole_blocks_are_listed),
		cmocka_unit_test(sizes_that_cut_blocks_are_refused),
		cmocka_unit_test(heads_must_divide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
