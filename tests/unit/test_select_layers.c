/* SPDX-License-Identifier: Apache-2.0
 *
 * What is outside of the layers of the language model.  Names are released models'; what
 * engines build without quantization: vLLM 0.32, models/{colqwen3,roberta,medusa,cohere_asr}.py,
 * SGLang 0.5.23, models/llama_eagle3.py.
 * Tensor-parallel sizes that load (fp8conv-formats(7)), and the refusal of others.
 * Experts in one tensor that a family's row keeps in one tensor: sizes, groups of scales, what goes
 * together, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "select/profile.h"
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

#define STEP	"{\"model_type\": \"step3p5\", \"hidden_size\": 256}"
#define GRANITE "{\"model_type\": \"granitemoehybrid\", \"hidden_size\": 256}"

#define MOE                                         \
	"a.3.moe.gate_proj.weight BF16 4 128 256\n" \
	"a.3.moe.gate_proj.bias BF16 4 128\n"       \
	"/\n"                                       \
	"a.3.moe.up_proj.weight BF16 4 128 256\n"   \
	"a.3.moe.down_proj.weight BF16 4 256 128\n"

static int make_stacks(struct checkpoint *checkpoint, struct selection *selection,
		       const char *config, const char *tensors, const char *recipe, struct err *err)
{
	struct select_options options = { .recipe = recipe_named(recipe), .target = ENGINE_ANY };
	struct model_config model;
	struct profile profile;
	struct err format_err;
	struct scheme scheme = scheme_from_qspec(&options.recipe->weight, false);
	int rc;

	memory_checkpoint_init(checkpoint, config, tensors);
	options.format =
		format_select("compressed-tensors", ENGINE_ANY, &scheme, recipe, &format_err);
	assert_non_null(options.format);
	assert_int_equal(model_config_read(&model, &checkpoint->config, err), 0);
	profile_make(&profile, &model, PROFILE_ENGINE);
	options.profile = &profile;
	rc = selection_make(selection, checkpoint, &options, err);
	profile_release(&profile);
	model_config_release(&model);
	return rc;
}

/* Gate and up of an expert share the scale of a tensor, and expert e has group scale_group + e. */
static void stacks_are_one_unit(void **state)
{
	static const struct {
		const char *name;
		uint64_t rows, cols, stack;
		size_t group;
	} rows[] = {
		{ "a.3.moe.gate_proj.weight", 512, 256, 128, 0 },
		{ "a.3.moe.gate_proj.bias", 0, 0, 0, 0 },
		{ "a.3.moe.up_proj.weight", 512, 256, 128, 0 },
		{ "a.3.moe.down_proj.weight", 1024, 128, 256, 4 },
	};
	static const char *const names[] = { "blockwise", "channelwise", "mxfp8", "current" };
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	for (size_t r = 0; r < sizeof names / sizeof *names; r++) {
		assert_int_equal(make_stacks(&checkpoint, &selection, STEP, MOE, names[r], &err),
				 0);
		assert_int_equal(selection.n_units, 4);
		assert_int_equal(selection.n_quantized, 3);
		assert_int_equal(selection.n_scale_groups, 8);
		for (size_t i = 0; i < selection.n_units; i++) {
			const struct unit *unit = &selection.units[i];

			assert_string_equal(unit->name, rows[i].name);
			assert_int_equal(unit->rows, rows[i].rows);
			assert_int_equal(unit->cols, rows[i].cols);
			assert_int_equal(unit->stack, rows[i].stack);
			assert_int_equal(unit->scale_group, rows[i].group);
			assert_false(unit->part);
		}
		selection_release(&selection);
		memory_checkpoint_release(&checkpoint);
	}
}

static void a_layer_is_kept_as_a_whole(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make_stacks(&checkpoint, &selection, STEP,
				     MOE "a.4.moe.up_proj.weight BF16 4 128 256\n", "blockwise",
				     &err),
			 0);
	selection_keeps(&selection, 3, "ugly",
			"a.3.moe.gate_proj.weight: fused with 'a.3.moe.down_proj.weight', which "
			"is kept\n"
			"a.3.moe.gate_proj.bias: not a linear weight\n"
			"a.3.moe.up_proj.weight: fused with 'a.3.moe.down_proj.weight', which is "
			"kept\n"
			"a.3.moe.down_proj.weight: ugly\n"
			"a.4.moe.up_proj.weight blockwise\n");
	assert_int_equal(selection.units[0].stack, 0);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* In blocks the border of gate and up is one of blocks. */
static void halves_are_whole_blocks(void **state)
{
	static const char tensors[] = "a.0.block_sparse_moe.input_linear.weight BF16 2 384 256\n"
				      "a.0.block_sparse_moe.output_linear.weight BF16 2 256 192\n"
				      "a.0.o_proj.weight BF16 128 128\n";
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make_stacks(&checkpoint, &selection, GRANITE, tensors, "blockwise", &err),
			 0);
	selection_assert(&selection, "a.0.block_sparse_moe.input_linear.weight: "
				     "192 rows are not a multiple of 128\n"
				     "a.0.block_sparse_moe.output_linear.weight: "
				     "192 columns are not a multiple of 128\n"
				     "a.0.o_proj.weight blockwise\n");
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
	assert_int_equal(
		make_stacks(&checkpoint, &selection, GRANITE, tensors, "channelwise", &err), 0);
	selection_assert(&selection, "a.0.block_sparse_moe.input_linear.weight channelwise\n"
				     "a.0.block_sparse_moe.output_linear.weight channelwise\n"
				     "a.0.o_proj.weight channelwise\n");
	assert_int_equal(selection.units[0].stack, 384);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

static void refuses(const char *tensors, const char *message)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	assert_int_equal(make_stacks(&checkpoint, &selection, STEP, tensors, "blockwise", &err),
			 -1);
	assert_int_equal(err.kind, ERR_INPUT);
	assert_string_equal(err.message, message);
	memory_checkpoint_release(&checkpoint);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
	(void)state;
	refuses("a.moe.gate_proj.weight BF16 4 128 256\na.moe.down_proj.weight BF16 4 128 256\n",
		"experts 'a.moe.gate_proj.weight' [4, 128, 256] and 'a.moe.down_proj.weight' [4, "
		"128, 256] do not fit each other: use --exclude to keep the experts unchanged");
	refuses("a.moe.gate_proj.weight BF16 4 128 256\na.moe.up_proj.weight BF16 8 128 256\n",
		"experts 'a.moe.gate_proj.weight' [4, 128, 256] and 'a.moe.up_proj.weight' [8, "
		"128, 256] do not fit each other: use --exclude to keep the experts unchanged");
	refuses("a.moe.gate_proj.weight BF16 4 256 128\n",
		"experts 'a.moe.gate_proj.weight' of width 128 do not fit hidden_size 256 of "
		"config.json: use --exclude to keep the experts unchanged");
}

/* Latent experts have another width than the model. */
static void a_pair_may_have_its_own_width(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	assert_int_equal(make_stacks(&checkpoint, &selection, STEP,
				     "a.moe.gate_proj.weight BF16 4 128 512\n"
				     "a.moe.down_proj.weight BF16 4 512 128\n",
				     "blockwise", &err),
			 0);
	assert_int_equal(selection.n_quantized, 2);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
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
		cmocka_unit_test(stacks_are_one_unit),
		cmocka_unit_test(a_layer_is_kept_as_a_whole),
		cmocka_unit_test(halves_are_whole_blocks),
		cmocka_unit_test(sizes_that_do_not_fit_are_refused),
		cmocka_unit_test(a_pair_may_have_its_own_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
