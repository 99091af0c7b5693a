/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts in one tensor that a family's row keeps in one tensor: sizes, groups of scales, what goes
 * together, and what is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "select/profile.h"
#include "support/memory_checkpoint.h"
#include "support/selection_check.h"

#define STEP	"{\"model_type\": \"step3p5\", \"hidden_size\": 256}"
#define GRANITE "{\"model_type\": \"granitemoehybrid\", \"hidden_size\": 256}"

#define MOE                                         \
	"a.3.moe.gate_proj.weight BF16 4 128 256\n" \
	"a.3.moe.gate_proj.bias BF16 4 128\n"       \
	"/\n"                                       \
	"a.3.moe.up_proj.weight BF16 4 128 256\n"   \
	"a.3.moe.down_proj.weight BF16 4 256 128\n"

static int make(struct checkpoint *checkpoint, struct selection *selection, const char *config,
		const char *tensors, const char *recipe, struct err *err)
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
		assert_int_equal(make(&checkpoint, &selection, STEP, MOE, names[r], &err), 0);
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
	assert_int_equal(make(&checkpoint, &selection, STEP,
			      MOE "a.4.moe.up_proj.weight BF16 4 128 256\n", "blockwise", &err),
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
	assert_int_equal(make(&checkpoint, &selection, GRANITE, tensors, "blockwise", &err), 0);
	selection_assert(&selection, "a.0.block_sparse_moe.input_linear.weight: "
				     "192 rows are not a multiple of 128\n"
				     "a.0.block_sparse_moe.output_linear.weight: "
				     "192 columns are not a multiple of 128\n"
				     "a.0.o_proj.weight blockwise\n");
	selection_release(&selection);
	memory_checkpoint_release(&checkpoint);
	assert_int_equal(make(&checkpoint, &selection, GRANITE, tensors, "channelwise", &err), 0);
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

	assert_int_equal(make(&checkpoint, &selection, STEP, tensors, "blockwise", &err), -1);
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
	assert_int_equal(make(&checkpoint, &selection, STEP,
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
		cmocka_unit_test(stacks_are_one_unit),
		cmocka_unit_test(a_layer_is_kept_as_a_whole),
		cmocka_unit_test(halves_are_whole_blocks),
		cmocka_unit_test(sizes_that_do_not_fit_are_refused),
		cmocka_unit_test(a_pair_may_have_its_own_width),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
