/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales that are not beside a weight under its own name: of all parts of a table, the static ones
 * of a stack of experts, and of caches.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

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

/* What vLLM 0.32.0 renames: get_cache_scale_mapper() of quantization/base_config.py and
 * quark/quark.py; "A.attn.k_scale" is the name that it renames to. */
static void caches_find_their_attention(void **state)
{
	static const struct {
		const char *scale, *attention, *cached;
	} rows[] = {
		{ "l.0.self_attn.k_scale", "l.0.self_attn", "k" },
		{ "l.0.self_attn.kv_scale", "l.0.self_attn", "kv" },
		{ "l.0.self_attn.k_proj.k_scale", "l.0.self_attn", "k" },
		{ "l.0.self_attn.qkv_proj.v_scale", "l.0.self_attn", "v" },
		{ "l.0.self_attn.qkqkv_proj.k_scale", "l.0.self_attn", "k" },
		{ "l.0.mixer.v_proj.v_scale", "l.0.mixer", "v" },
		{ "l.0.self_attn.v_proj.output_scale", "l.0.self_attn", "v" },
		{ "l.0.self_attn.k_cache.scale", "l.0.self_attn", "k" },
		{ "l.0.self_attn.attn.k_scale", "l.0.self_attn", "k" },
		{ "l.0.mixer.attn.kv_scale", "l.0.mixer", "kv" },
		/* an attention of that name */
		{ "h.0.attn.v_scale", "h.0.attn", "v" },
		{ "h.0.attn.attn.v_scale", "h.0.attn", "v" },
		/* no cache of keys or values */
		{ "l.0.self_attn.q_scale", "", "" },
		{ "l.0.self_attn.q.scale", "", "" },
		{ "l.0.self_attn.q_proj.output_scale", "", "" },
		{ "l.0.self_attn.prob_output_scale", "", "" },
		{ "l.0.self_attn.k_proj.weight_scale", "", "" },
		{ "l.0.mlp.up_proj.output_scale", "", "" },
		{ "l.0.hc_attn_scale", "", "" },
		{ "l.0.self_attn.xkv_scale", "", "" },
		{ "k_scale", "", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const char *cached = "";

		assert_int_equal(scale_cache(rows[i].scale, &cached), strlen(rows[i].attention));
		assert_memory_equal(rows[i].scale, rows[i].attention, strlen(rows[i].attention));
		assert_string_equal(cached, rows[i].cached);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(weights_find_their_scales),
		cmocka_unit_test(scales_find_their_weights),
		cmocka_unit_test(caches_find_their_attention),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
