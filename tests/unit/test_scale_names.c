/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales that are not beside a weight under its own name: of all parts of a table, and the static
 * ones of a stack of experts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/scale_names.h"
#include "support/memory_checkpoint.h"

static const char tensors[] = "t.ngram.shard_0.weight F8_E4M3 256 32\n"
			      "t.ngram.shard_17.weight F8_E4M3 256 32\n"
			      "t.ngram.weight_scale BF16 1\n"
			      "p.experts.down_proj F8_E4M3 2 256 128\n"
			      "p.experts.down_proj_scale_inv BF16 2 1 1\n"
			      "p.experts.down_proj_activation_scale BF16 2\n"
			      "t.hard_0.weight F8_E4M3 256 32\n"
			      "shard_0.weight F8_E4M3 256 32\n";

static void weights_find_their_scales(void **state)
{
	static const struct {
		const char *weight, *scale;
		bool shared;
	} rows[] = {
		{ "t.ngram.shard_0.weight", "t.ngram.weight_scale", true },
		{ "t.ngram.shard_17.weight", "t.ngram.weight_scale", true },
		{ "p.experts.down_proj", "p.experts.down_proj_scale_inv", false },
		{ "t.hard_0.weight", NULL, false },
		{ "shard_0.weight", NULL, false },
	};
	struct checkpoint checkpoint;

	(void)state;
	memory_checkpoint_init(&checkpoint, NULL, tensors);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct tensor_ref *scale = scale_beside(&checkpoint, rows[i].weight);

		assert_int_equal(scale != NULL, rows[i].scale != NULL);
		if (!scale)
			continue;
		assert_string_equal(scale->tensor->name, rows[i].scale);
		assert_int_equal(scale_is_shared(rows[i].weight, scale->tensor->name),
				 rows[i].shared);
	}
	memory_checkpoint_release(&checkpoint);
}

static void scales_find_their_weights(void **state)
{
	static const struct {
		const char *scale, *weight;
		enum scale_role role;
	} rows[] = {
		{ "t.ngram.weight_scale", "t.ngram.shard_0.weight", SCALE_OF_WEIGHT },
		{ "p.experts.down_proj_scale_inv", "p.experts.down_proj", SCALE_OF_WEIGHT },
		{ "p.experts.down_proj_activation_scale", "p.experts.down_proj", SCALE_OF_INPUT },
	};
	struct checkpoint checkpoint;

	(void)state;
	memory_checkpoint_init(&checkpoint, NULL, tensors);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct scale_name *word = scale_name_find(rows[i].scale);

		assert_non_null(word);
		assert_int_equal(word->role, rows[i].role);
		assert_string_equal(scaled_weight(&checkpoint, rows[i].scale, word)->tensor->name,
				    rows[i].weight);
	}
	memory_checkpoint_release(&checkpoint);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_find_their_scales),
		cmocka_unit_test(scales_find_their_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
