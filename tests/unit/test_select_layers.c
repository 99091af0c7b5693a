/* SPDX-License-Identifier: Apache-2.0
 *
 * What is outside of the layers of the language model.  Names are released models'; what
 * engines build without quantization: vLLM 0.32, models/{colqwen3,roberta,medusa,cohere_asr}.py,
 * SGLang 0.5.23, models/llama_eagle3.py.
 * Tensor-parallel sizes that load (fp8conv-formats(7)), and the refusal of others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

static void single_modules_outside_are_kept(void **state)
{
	(void)state;
	selection_gives("model.layers.0.self_attn.o_proj.weight BF16 128 128\n"
			"custom_text_proj.weight BF16 128 128\n"
			"embedding_proj_layer.weight BF16 128 128\n"
			"classifier.dense.weight BF16 128 128\n"
			"0.1.linear.weight BF16 128 128\n",
			"blockwise", NO_OPTIONS,
			"model.layers.0.self_attn.o_proj.weight blockwise\n"
			"custom_text_proj.weight: outside of the layers\n"
			"embedding_proj_layer.weight: outside of the layers\n"
			"classifier.dense.weight: outside of the layers\n"
			"0.1.linear.weight: outside of the layers\n");
	/* EAGLE-3 has one layer, without a number */
	selection_gives("midlayer.self_attn.o_proj.weight BF16 128 128\n"
			"fc.weight BF16 128 384\n",
			"blockwise", NO_OPTIONS,
			"midlayer.self_attn.o_proj.weight blockwise\n"
			"fc.weight: outside of the layers\n");
}

/* A file of matrices alone has no layers to be outside of; a model has. */
static void a_model_may_have_no_layers(void **state)
{
	static const char tensors[] = "a.weight BF16 128 128\nb.c.weight BF16 128 128\n";

	(void)state;
	selection_gives(tensors, "blockwise", NO_OPTIONS,
			"a.weight blockwise\nb.c.weight blockwise\n");
	selection_refuses_config("{\"architectures\": [\"MedusaModel\"]}", tensors, "blockwise",
				 NO_OPTIONS, ERR_USAGE,
				 "nothing to quantize: all 2 tensors are kept, 2 of them linear "
				 "weights, for example 'a.weight': outside of the layers");
}

static void a_user_decides(void **state)
{
	struct select_rule rule = { "custom", recipe_named("current") };

	(void)state;
	selection_gives("model.layers.0.o_proj.weight BF16 128 128\n"
			"custom_text_proj.weight BF16 128 128\n",
			"blockwise", (struct select_options){ .rules = { &rule, 1 } },
			"model.layers.0.o_proj.weight blockwise\n"
			"custom_text_proj.weight current\n");
}

/* clang-format off */
/* Two layers of 128 columns, and what becomes of them. */
#define LAYERS(p)                                 \
	p "layers.0.o_proj.weight BF16 128 128\n" \
	p "layers.1.o_proj.weight BF16 128 128\n"
#define TAKEN(p)                               \
	p "layers.0.o_proj.weight blockwise\n" \
	p "layers.1.o_proj.weight blockwise\n"
#define KEPT(p)                                                       \
	p "layers.0.o_proj.weight: not of the language model\n" \
	p "layers.1.o_proj.weight: not of the language model\n"
#define SIZES "\"hidden_size\": 128, \"num_hidden_layers\": 2"

/* In a model of one part, layers of another width belong to another model, as the local
 * transformers of MiMo-Audio; layers of the hidden size are its own. */
static void layers_of_another_width_are_kept(void **state)
{
	static const char tensors[] = LAYERS("model.")
		"local.layers.0.o_proj.weight BF16 256 256\n"
		"model.mtp_layers.0.o_proj.weight BF16 128 128\n";

	(void)state;
	selection_gives_config("{" SIZES "}", tensors, "blockwise", NO_OPTIONS,
			       TAKEN("model.")
			       "local.layers.0.o_proj.weight: not of the language model\n"
			       "model.mtp_layers.0.o_proj.weight blockwise\n");
	/* nothing says which are the language model's */
	selection_gives_config("{\"hidden_size\": 128, \"num_hidden_layers\": 9}",
			       LAYERS("a.") LAYERS("b."), "blockwise", NO_OPTIONS,
			       TAKEN("a.") TAKEN("b."));
}

/* Where config.json describes another model, layers of any width apart from the main ones are its
 * own. */
static void layers_of_other_parts_are_kept(void **state)
{
	static const char config[] = "{\"text_config\": {" SIZES "}, "
				     "\"encoder_config\": {\"model_type\": \"conformer\"}}";
	static const char tensors[] = LAYERS("llm.model.")
		"llm.model.layers.1.q2.weight BF16 128 128\n"
		"llm.model.cross_layers.0.q.weight BF16 128 128\n"
		"mtp.layers.0.o_proj.weight BF16 128 256\n" LAYERS("model.encoder.");

	(void)state;
	selection_gives_config(config, tensors, "blockwise", NO_OPTIONS,
			       TAKEN("llm.model.")
			       "llm.model.layers.1.q2.weight blockwise\n"
			       "llm.model.cross_layers.0.q.weight blockwise\n"
			       "mtp.layers.0.o_proj.weight blockwise\n" KEPT("model.encoder."));
}

/* The encoder of a text model is quantized, that of a speech model is not. */
static void an_encoder_is_kept_where_it_is_another_model(void **state)
{
#define SEQ2SEQ(type)                                                                        \
	"{\"is_encoder_decoder\": true, \"decoder_config\": {\"model_type\": \"canary_x\", " \
	SIZES "}, \"encoder_config\": {\"model_type\": \"" type "\"}}"
	static const char tensors[] = LAYERS("encoder.") LAYERS("decoder.");

	(void)state;
	selection_gives_config(SEQ2SEQ("canary_y"), tensors, "blockwise", NO_OPTIONS,
			       TAKEN("encoder.") TAKEN("decoder."));
	selection_gives_config(SEQ2SEQ("parakeet_y"), tensors, "blockwise", NO_OPTIONS,
			       KEPT("encoder.") TAKEN("decoder."));
}

/* clang-format on */

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
		cmocka_unit_test(single_modules_outside_are_kept),
		cmocka_unit_test(a_model_may_have_no_layers),
		cmocka_unit_test(a_user_decides),
		cmocka_unit_test(layers_of_another_width_are_kept),
		cmocka_unit_test(layers_of_other_parts_are_kept),
		cmocka_unit_test(an_encoder_is_kept_where_it_is_another_model),
		cmocka_unit_test(sizes_that_cut_whole_blocks_are_listed),
		cmocka_unit_test(sizes_that_cut_blocks_are_refused),
		cmocka_unit_test(heads_must_divide),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
