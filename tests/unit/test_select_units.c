/* SPDX-License-Identifier: Apache-2.0
 *
 * What a selection holds: units of fused experts, groups, counts, tensor-parallel sizes; and what
 * keeping one unit does to the others.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

static void make(struct checkpoint *checkpoint, struct selection *selection, const char *config,
		 const char *tensors, const char *recipe, bool ragged)
{
	struct select_options options = { .recipe = recipe_named(recipe), .ragged = ragged };
	struct err err = { 0 };

	memory_checkpoint_init(checkpoint, config, tensors);
	if (selection_make(selection, checkpoint, &options, &err))
		fail_msg("%s", err.message);
}

#define MOE                                         \
	"a.0.q_proj.weight BF16 128 128\n"          \
	"a.0.experts.gate_up_proj BF16 2 256 384\n" \
	"/\n"                                       \
	"a.0.experts.down_proj BF16 2 384 128\n"    \
	"a.0.k_proj.weight BF16 128 128\n"

static void fused_experts_become_units(void **state)
{
	static const struct {
		const char *name;
		uint64_t rows, cols, first, row_stride, col_stride;
		size_t group;
	} rows[] = {
		{ "a.0.q_proj.weight", 128, 128, 0, 128, 1, 0 },
		{ "a.0.experts.0.gate_proj.weight", 128, 384, 0, 384, 1, 1 },
		{ "a.0.experts.0.up_proj.weight", 128, 384, 128 * 384, 384, 1, 1 },
		{ "a.0.experts.1.gate_proj.weight", 128, 384, 256 * 384, 384, 1, 2 },
		{ "a.0.experts.1.up_proj.weight", 128, 384, 384 * 384, 384, 1, 2 },
		{ "a.0.experts.0.down_proj.weight", 384, 128, 0, 128, 1, 3 },
		{ "a.0.experts.1.down_proj.weight", 384, 128, 384 * 128, 128, 1, 4 },
		{ "a.0.k_proj.weight", 128, 128, 0, 128, 1, 0 },
		{ "a.0.o_proj.weight", 128, 256, 0, 256, 1, 5 },
		{ "a.1.k_proj.weight", 128, 128, 0, 128, 1, 6 },
	};
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, NULL,
	     MOE "a.0.o_proj.weight BF16 128 256\na.1.k_proj.weight BF16 128 128\n", "blockwise",
	     false);
	assert_int_equal(selection.n_units, sizeof rows / sizeof *rows);
	for (size_t i = 0; i < selection.n_units; i++) {
		const struct unit *unit = &selection.units[i];

		assert_string_equal(unit->name, rows[i].name);
		assert_int_equal(unit->rows, rows[i].rows);
		assert_int_equal(unit->cols, rows[i].cols);
		assert_int_equal(unit->slice.first, rows[i].first);
		assert_int_equal(unit->slice.row_stride, rows[i].row_stride);
		assert_int_equal(unit->slice.col_stride, rows[i].col_stride);
		assert_int_equal(unit->scale_group, rows[i].group);
		assert_true(unit->linear);
	}
	assert_int_equal(selection.n_scale_groups, 7);
	assert_int_equal(selection.n_quantized, 10);
	assert_int_equal(selection.n_linear, 10);
	assert_int_equal(selection.n_linear_kept, 0);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

static void transposed_experts_become_units(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, "{\"text_config\": {\"hidden_size\": 128}}",
	     "a.experts.gate_up_proj BF16 2 128 256\na.experts.down_proj BF16 2 128 128\n", "mxfp8",
	     false);
	assert_int_equal(selection.n_units, 6);
	assert_string_equal(selection.units[1].name, "a.experts.0.up_proj.weight");
	assert_int_equal(selection.units[1].slice.first, 128);
	assert_int_equal(selection.units[1].slice.row_stride, 1);
	assert_int_equal(selection.units[1].slice.col_stride, 256);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

static void experts_that_cannot_be_split_are_kept_or_refused(void **state)
{
	const char *odd =
		"a.experts.gate_up_proj BF16 2 384 128\na.experts.down_proj BF16 2 128 192\n"
		"a.o_proj.weight BF16 128 128\n";
	const char *square =
		"a.experts.gate_up_proj BF16 2 256 256\na.o_proj.weight BF16 128 128\n";
	const struct select_options exclude = { .exclude = { LIST("experts"), 1 } };

	(void)state;
	selection_gives(odd, "blockwise", NO_OPTIONS,
			"a.experts.gate_up_proj: 192 rows are not a multiple of 128\n"
			"a.experts.down_proj: 192 columns are not a multiple of 128\n"
			"a.o_proj.weight blockwise\n");
	selection_refuses_config(
		"{\"hidden_size\": 256}", square, "blockwise", NO_OPTIONS, ERR_INPUT,
		"the layout of experts 'a.experts.gate_up_proj' [2, 256, 256] is ambiguous: "
		"use --exclude to keep the experts unchanged");
	selection_refuses_config(
		"{\"hidden_size\": 256}",
		"a.experts.down_proj BF16 2 128 256\n"
		"a.experts.down_proj.weight BF16 2 128 256\n",
		"blockwise", NO_OPTIONS, ERR_INPUT,
		"tensors 'a.experts.down_proj' and 'a.experts.down_proj.weight' hold the same "
		"experts");
	selection_refuses_config(
		"{\"hidden_size\": 4}",
		"a.experts.gate_up_proj BF16 65536 2 4\na.experts.down_proj BF16 65536 4 1\n"
		"b.experts.gate_up_proj BF16 65536 2 4\nc.experts.gate_up_proj BF16 65536 2 4\n"
		"d.experts.gate_up_proj BF16 65536 2 4\ne.experts.gate_up_proj BF16 65536 2 4\n"
		"f.experts.gate_up_proj BF16 65536 2 4\ng.experts.gate_up_proj BF16 65536 2 4\n"
		"h.experts.gate_up_proj BF16 65536 2 4\n",
		"channelwise", NO_OPTIONS, ERR_INPUT,
		"experts 'h.experts.gate_up_proj' and the experts before them are 1114112 "
		"matrices, more than 1048576: use --exclude to keep them");
	selection_gives(square, "blockwise", exclude,
			"a.experts.gate_up_proj: excluded\na.o_proj.weight blockwise\n");
	/* one of the two is enough to keep both, and a layout of others is none of ours */
	selection_gives("a.experts.gate_up_proj F64 2 256 128\na.experts.down_proj BF16 2 128 128\n"
			"b.experts.mlp.w1 BF16 256 128\na.o_proj.weight BF16 128 128\n",
			"blockwise", NO_OPTIONS,
			"a.experts.gate_up_proj: dtype F64\n"
			"a.experts.down_proj: fused with 'a.experts.gate_up_proj', which is kept\n"
			"b.experts.mlp.w1: fused experts of an unknown layout\n"
			"a.o_proj.weight blockwise\n");
}

#define GPT_OSS(gate_up, gate_up_bias, down, down_bias)       \
	"a.experts.gate_up_proj BF16 " gate_up "\n"           \
	"a.experts.gate_up_proj_bias BF16 " gate_up_bias "\n" \
	"a.experts.down_proj BF16 " down "\n"                 \
	"a.experts." down_bias "\n"                           \
	"a.o_proj.weight BF16 128 128\n"

static const char gpt_oss[] =
	GPT_OSS("2 128 512", "2 512", "2 256 128", "down_proj_bias BF16 2 128");

/* Biases say that gate and up take turns, and are split with their experts. */
static void experts_with_biases_interleave(void **state)
{
	static const struct {
		const char *name;
		uint64_t first, row_stride, col_stride, rows, cols;
	} rows[] = {
		{ "a.experts.0.gate_proj.weight", 0, 2, 512, 256, 128 },
		{ "a.experts.0.up_proj.weight", 1, 2, 512, 256, 128 },
		{ "a.experts.1.gate_proj.weight", 128 * 512, 2, 512, 256, 128 },
		{ "a.experts.1.up_proj.weight", 128 * 512 + 1, 2, 512, 256, 128 },
		{ "a.experts.0.gate_proj.bias", 0, 2, 0, 256, 1 },
		{ "a.experts.0.up_proj.bias", 1, 2, 0, 256, 1 },
		{ "a.experts.1.gate_proj.bias", 512, 2, 0, 256, 1 },
		{ "a.experts.1.up_proj.bias", 513, 2, 0, 256, 1 },
		{ "a.experts.0.down_proj.weight", 0, 1, 128, 128, 256 },
		{ "a.experts.1.down_proj.weight", 256 * 128, 1, 128, 128, 256 },
		{ "a.experts.0.down_proj.bias", 0, 1, 0, 128, 1 },
		{ "a.experts.1.down_proj.bias", 128, 1, 0, 128, 1 },
	};
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, NULL, gpt_oss, "blockwise", false);
	assert_int_equal(selection.n_units, 13);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct unit *unit = &selection.units[i];
		bool bias = strstr(rows[i].name, "bias") != NULL;

		assert_string_equal(unit->name, rows[i].name);
		assert_int_equal(unit->slice.first, rows[i].first);
		assert_int_equal(unit->slice.row_stride, rows[i].row_stride);
		assert_int_equal(unit->slice.col_stride, rows[i].col_stride);
		assert_int_equal(unit->rows, rows[i].rows);
		assert_int_equal(unit->cols, rows[i].cols);
		assert_int_equal(unit->part, bias);
		assert_int_equal(unit->recipe == NULL, bias);
	}
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

static void biases_stay_with_their_experts(void **state)
{
	const struct select_options exclude = { .exclude = { LIST("experts"), 1 } };
	const struct select_options keep_biases = { .recipe = recipe_named("blockwise"),
						    .exclude = { LIST("_bias"), 1 } };
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	make(&checkpoint, &selection, NULL, gpt_oss, "blockwise", false);
	/* all of it is one thing, whichever matrix has to be kept */
	selection_keeps(&selection, 9, "ugly",
			"a.experts.gate_up_proj: fused with 'a.experts.1.down_proj.weight', which "
			"is kept\n"
			"a.experts.gate_up_proj_bias: not a linear weight\n"
			"a.experts.down_proj: fused with 'a.experts.1.down_proj.weight', which is "
			"kept\n"
			"a.experts.down_proj_bias: not a linear weight\n"
			"a.o_proj.weight blockwise\n");
	assert_int_equal(selection.units[1].rows, 0);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
	selection_gives(gpt_oss, "blockwise", exclude,
			"a.experts.gate_up_proj: excluded\n"
			"a.experts.gate_up_proj_bias: excluded\n"
			"a.experts.down_proj: excluded\n"
			"a.experts.down_proj_bias: excluded\n"
			"a.o_proj.weight blockwise\n");
	/* a list that keeps biases says nothing of their layout */
	memory_checkpoint_init(&checkpoint, NULL, gpt_oss);
	selection_make(&selection, &checkpoint, &keep_biases, &err);
	assert_int_equal(selection.n_units, 13);
	assert_string_equal(selection.units[4].name, "a.experts.0.gate_proj.bias");
	assert_string_equal(selection.units[4].reason, "excluded");
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* Nothing is guessed of other experts with biases. */
static void other_biases_are_refused(void **state)
{
	(void)state;
	selection_refuses(GPT_OSS("2 128 512", "2 512", "2 256 128", "none BF16 2"), "blockwise",
			  NO_OPTIONS, ERR_INPUT,
			  "experts 'a.experts.gate_up_proj' have biases, but 'a.experts.down_proj' "
			  "have none: use --exclude to keep them");
	selection_refuses(GPT_OSS("2 512 128", "2 512", "2 128 256", "down_proj.bias BF16 2 128"),
			  "blockwise", NO_OPTIONS, ERR_INPUT,
			  "experts 'a.experts.down_proj' have biases, but are not transposed as "
			  "GPT-OSS's are, so that gate and up cannot be told apart: use --exclude "
			  "to keep them");
	selection_refuses(GPT_OSS("2 128 512", "2 256", "2 256 128", "down_proj_bias BF16 2 128"),
			  "blockwise", NO_OPTIONS, ERR_INPUT,
			  "bias 'a.experts.gate_up_proj_bias' does not fit experts "
			  "'a.experts.gate_up_proj': use --exclude to keep them");
	selection_refuses(GPT_OSS("2 128 512", "2 512", "2 256 128", "down_proj_bias BF16 2 256"),
			  "blockwise", NO_OPTIONS, ERR_INPUT,
			  "bias 'a.experts.down_proj_bias' does not fit experts "
			  "'a.experts.down_proj': use --exclude to keep them");
}

/* A layout that nobody told us of keeps the experts it belongs to; a scalar beside them does not.
 */
static void an_unknown_layout_keeps_its_experts(void **state)
{
	(void)state;
	selection_gives_config(
		"{\"hidden_size\": 384}",
		"a.experts.down_proj BF16 2 384 128\na.experts.up_proj BF16 2 128 384\n"
		"b.experts.down_proj BF16 2 384 128\nb.experts.smooth BF16 2\n"
		"c.experts.gate_up_proj.weight BF16 256 384\n",
		"blockwise", NO_OPTIONS,
		"a.experts.down_proj: fused with 'a.experts.up_proj', which is kept\n"
		"a.experts.up_proj: fused experts of an unknown layout\n"
		"b.experts.0.down_proj.weight blockwise\nb.experts.1.down_proj.weight blockwise\n"
		"b.experts.smooth: 1-D tensor\n"
		"c.experts.gate_up_proj.weight: fused experts of an unknown layout\n");
}

static void linear_weights_are_counted(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, NULL,
	     "a.0.q_proj.weight BF16 128 128\na.0.q_proj.bias BF16 128\nlm_head.weight BF16 64 "
	     "128\n"
	     "visual.0.qkv.weight BF16 64 64\nvisual.0.norm.weight BF16 64\n"
	     "model.embed_tokens.weight BF16 64 128\na.0.mlp.gate.weight F32 4 128\n"
	     "b.experts.w1 BF16 2 64 64\na.0.stack_proj.weight BF16 2 64 64\n",
	     "current", false);
	assert_int_equal(selection.n_linear, 6);
	assert_int_equal(selection.n_linear_kept, 5);
	assert_int_equal(selection.n_quantized, 1);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* Keeping one keeps its group, or all experts of its layer, which become their sources again. */
static void keeping_one_keeps_its_joint_set(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;
	struct err err = { 0 };

	(void)state;
	make(&checkpoint, &selection, NULL, MOE "a.1.o_proj.weight BF16 128 128\n", "blockwise",
	     false);
	selection_keep(&selection, 7, "non-finite values");
	selection_keeps(
		&selection, 4, "ugly",
		"a.0.q_proj.weight: fused with 'a.0.k_proj.weight', which is kept\n"
		"a.0.experts.gate_up_proj: fused with 'a.0.experts.1.up_proj.weight', which is "
		"kept\n"
		"a.0.experts.down_proj: fused with 'a.0.experts.1.up_proj.weight', which is "
		"kept\n"
		"a.0.k_proj.weight: non-finite values\n"
		"a.1.o_proj.weight blockwise\n");
	assert_int_equal(selection.n_quantized, 1);
	assert_int_equal(selection.n_linear, 5);
	assert_int_equal(selection.n_linear_kept, 4);
	assert_int_equal(selection.units[4].next_joint, 4);
	selection_keep(&selection, 4, "last");
	assert_int_equal(selection_settle(&selection, &err), -1);
	assert_int_equal(err.kind, ERR_USAGE);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* Rings survive the move. */
static void keeping_twice_leaves_joint_sets_intact(void **state)
{
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, "{\"hidden_size\": 384}",
	     "a.0.experts.down_proj BF16 4 384 128\na.0.k_proj.weight BF16 128 128\n"
	     "a.0.q_proj.weight BF16 128 128\na.1.experts.0.w2.weight BF16 128 128\n",
	     "blockwise", false);
	selection_keeps(&selection, 0, "first",
			"a.0.experts.down_proj: first\na.0.k_proj.weight blockwise\n"
			"a.0.q_proj.weight blockwise\na.1.experts.0.w2.weight blockwise\n");
	selection_keeps(&selection, 2, "second",
			"a.0.experts.down_proj: first\n"
			"a.0.k_proj.weight: fused with 'a.0.q_proj.weight', which is kept\n"
			"a.0.q_proj.weight: second\na.1.experts.0.w2.weight blockwise\n");
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* Makes a selection with notes, and compares the notes of one kind with the expected text; NULL:
 * there is none. */
static void notes_are(const char *tensors, const char *recipe, enum note_kind kind,
		      const char *expected)
{
	struct select_options options = { .recipe = recipe_named(recipe), .advise = true };
	struct checkpoint checkpoint;
	struct selection selection;
	const char *found = NULL;
	struct err err = { 0 };

	memory_checkpoint_init(&checkpoint, NULL, tensors);
	if (selection_make(&selection, &checkpoint, &options, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < selection.notes.n; i++)
		if (selection.notes.list[i].kind == kind)
			found = selection.notes.list[i].message;
	if (!expected)
		assert_null(found);
	else if (!found)
		fail_msg("no note '%s'", expected);
	else
		assert_string_equal(found, expected);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

/* Of 4 * 576 * 576 + 640 * 1536 elements, the first four matrices have 57.4 %. */
static void a_note_says_that_most_bytes_are_kept(void **state)
{
	(void)state;
	notes_are("a.0.o_proj.weight BF16 576 576\na.1.o_proj.weight BF16 576 576\n"
		  "a.2.o_proj.weight BF16 576 576\na.3.o_proj.weight BF16 576 576\n"
		  "a.0.down_proj.weight BF16 640 1536\n",
		  "blockwise", NOTE_MOSTLY_KEPT,
		  "blockwise keeps 57 % of the weight bytes in high precision, as "
		  "'a.0.o_proj.weight': 576 columns are not a multiple of 128; --recipe "
		  "channelwise "
		  "takes 100 %");
	/* with all that goes with them: 256 * (200 + 128) of 256 * (200 + 128 + 128) */
	notes_are("a.0.gate_proj.weight BF16 256 200\na.0.up_proj.weight BF16 256 128\n"
		  "a.0.down_proj.weight BF16 128 256\n",
		  "blockwise", NOTE_MOSTLY_KEPT,
		  "blockwise keeps 72 % of the weight bytes in high precision, as "
		  "'a.0.gate_proj.weight': 200 columns are not a multiple of 128; --recipe "
		  "channelwise "
		  "takes 100 %");
	/* half is not most, and heads do not count */
	notes_are("a.0.o_proj.weight BF16 256 192\na.1.o_proj.weight BF16 192 256\n"
		  "a.0.down_proj.weight BF16 384 256\nlm_head.weight BF16 1000 192\n",
		  "blockwise", NOTE_MOSTLY_KEPT, NULL);
	/* no other recipe takes routers */
	notes_are("a.0.o_proj.weight BF16 128 128\na.0.mlp.gate.weight BF16 256 128\n", "blockwise",
		  NOTE_MOSTLY_KEPT, NULL);
}

static void a_note_counts_weights_that_kernels_refuse(void **state)
{
	(void)state;
	notes_are("a.0.o_proj.weight BF16 96 128\na.0.down_proj.weight BF16 128 128\n", "mxfp8",
		  NOTE_SMALL_WEIGHTS,
		  "1 weight has fewer than 128 rows or columns, as 'a.0.o_proj.weight', which "
		  "engines' MXFP8 kernels do not support: use --exclude to keep it");
}

static void a_note_tells_of_unknown_experts(void **state)
{
	(void)state;
	notes_are("model.layers.0.moe_bank.w_in BF16 8 512 256\n"
		  "model.layers.0.moe_bank.w_out BF16 8 256 512\n"
		  "visual.blocks.0.bank BF16 8 512 256\nmodel.layers.0.small BF16 8 16 256\n"
		  "a.0.o_proj.weight BF16 128 128\n",
		  "blockwise", NOTE_EXPERTS_UNKNOWN,
		  "2 tensors hold experts of an unknown layout, as "
		  "'model.layers.0.moe_bank.w_in' [8, 512, 256]: kept in high precision, and "
		  "named in the skip list");
}

/* A vector is a unit that is kept; shard 1 has no tensor. */
static void units_of_a_shard_lie_together(void **state)
{
	static const size_t begin[] = { 0, 3, 3, 5, 5 };
	struct checkpoint checkpoint;
	struct selection selection;

	(void)state;
	make(&checkpoint, &selection, NULL,
	     "a.0.q_proj.weight BF16 128 128\na.0.k_proj.weight BF16 128 128\n"
	     "a.0.o_proj.weight BF16 128 128\n/\n/\na.1.norm.weight BF16 128\n"
	     "a.1.o_proj.weight BF16 128 128\n",
	     "blockwise", false);
	for (size_t shard = 0; shard < sizeof begin / sizeof *begin; shard++)
		assert_int_equal(selection_shard_begin(&selection, shard), begin[shard]);
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fused_experts_become_units),
		cmocka_unit_test(transposed_experts_become_units),
		cmocka_unit_test(experts_that_cannot_be_split_are_kept_or_refused),
		cmocka_unit_test(experts_with_biases_interleave),
		cmocka_unit_test(biases_stay_with_their_experts),
		cmocka_unit_test(other_biases_are_refused),
		cmocka_unit_test(an_unknown_layout_keeps_its_experts),
		cmocka_unit_test(linear_weights_are_counted),
		cmocka_unit_test(keeping_one_keeps_its_joint_set),
		cmocka_unit_test(keeping_twice_leaves_joint_sets_intact),
		cmocka_unit_test(a_note_says_that_most_bytes_are_kept),
		cmocka_unit_test(a_note_counts_weights_that_kernels_refuse),
		cmocka_unit_test(a_note_tells_of_unknown_experts),
		cmocka_unit_test(units_of_a_shard_lie_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
