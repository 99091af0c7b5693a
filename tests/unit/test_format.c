/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats against fp8conv-formats(7): which variant loads where (section 1), and the tensors it has
 * (2 to 4).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "format/format.h"
#include "support/format_schemes.h"

static void a_scheme_follows_from_a_qspec(void **state)
{
	static const struct qspec specs[N_SCHEMES] = {
		[STATIC] = { .tile = { WHOLE, WHOLE } },
		[DYNAMIC] = { .tile = { WHOLE, WHOLE } },
		[CHANNEL] = { .tile = { 1, WHOLE } },
		[BLOCK] = { .tile = { 128, 128 }, .pow2 = true },
		[MX] = { .tile = { 1, 32 }, .scale_type = SCALE_E8M0 },
	};

	(void)state;
	for (int i = 0; i < N_SCHEMES; i++) {
		struct scheme scheme = scheme_from_qspec(&specs[i], i == STATIC);

		assert_int_equal(scheme.granularity, schemes[i].granularity);
		assert_int_equal(scheme.tile.rows, schemes[i].tile.rows);
		assert_int_equal(scheme.tile.cols, schemes[i].tile.cols);
		assert_int_equal(scheme.fp8_format, schemes[i].fp8_format);
		assert_int_equal(scheme.pow2, schemes[i].pow2);
		assert_int_equal(scheme.static_input, schemes[i].static_input);
	}
}

/* fp8conv-formats(7): whether it loads without a target, in vllm, sglang, trtllm, transformers.  hf
 * has names of its own for vllm (mxfp8) and transformers (per tensor), so with that target it
 * loads. */
static const struct {
	const char *format;
	int scheme;
	const char *loads;
} loads[] = {
	{ "hf", BLOCK, "yyyyy" },
	{ "hf", STATIC, "yyyny" },
	{ "hf", DYNAMIC, "yyyny" },
	{ "hf", MX, "yyyyy" },
	{ "hf", CHANNEL, "nnnnn" },
	{ "compressed-tensors", STATIC, "yyyny" },
	{ "compressed-tensors", DYNAMIC, "yyyny" },
	{ "compressed-tensors", CHANNEL, "yyyyy" },
	{ "compressed-tensors", BLOCK, "yyyyy" },
	{ "compressed-tensors", MX, "yynny" },
	{ "modelopt", STATIC, "yyyyn" },
	{ "modelopt", DYNAMIC, "nnnnn" },
	{ "modelopt", CHANNEL, "yynyn" },
	{ "modelopt", BLOCK, "yynyn" },
	{ "modelopt", MX, "yyyyn" },
};

static void engines_load_what_is_published(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof loads / sizeof *loads; i++) {
		for (int engine = ENGINE_ANY; engine < N_ENGINES; engine++) {
			struct err err = { 0 };
			int rc = engine_check((enum engine)engine, format_named(loads[i].format),
					      &schemes[loads[i].scheme], "a-recipe", &err);

			assert_int_equal(rc, loads[i].loads[engine] == 'y' ? 0 : -1);
			if (!rc)
				continue;
			assert_int_equal(err.kind, ERR_USAGE);
			assert_non_null(strstr(err.message, "'a-recipe'"));
			assert_non_null(strstr(err.message, loads[i].format));
			if (engine != ENGINE_ANY && loads[i].loads[ENGINE_ANY] == 'y')
				assert_non_null(
					strstr(err.message, engine_name((enum engine)engine)));
		}
	}
}

/* What is chosen for a target (none first); "-": nothing loads. */
static void each_target_has_its_default_format(void **state)
{
	static const char *const chosen[N_SCHEMES][N_ENGINES] = {
		[STATIC] = { "compressed-tensors", "compressed-tensors", "compressed-tensors",
			     "modelopt", "compressed-tensors" },
		[DYNAMIC] = { "compressed-tensors", "compressed-tensors", "compressed-tensors", "-",
			      "compressed-tensors" },
		[CHANNEL] = { "compressed-tensors", "compressed-tensors", "compressed-tensors",
			      "compressed-tensors", "compressed-tensors" },
		[BLOCK] = { "hf", "hf", "hf", "hf", "hf" },
		[MX] = { "hf", "hf", "hf", "hf", "hf" },
	};

	(void)state;
	for (int i = 0; i < N_SCHEMES; i++) {
		for (int engine = ENGINE_ANY; engine < N_ENGINES; engine++) {
			struct err err = { 0 };
			const struct format *format =
				format_select(NULL, (enum engine)engine, &schemes[i], "r", &err);

			assert_string_equal(format ? format->name : "-", chosen[i][engine]);
			assert_int_equal(err.kind, format ? ERR_NONE : ERR_USAGE);
		}
	}
}

static void refusals_name_the_reason_and_a_way(void **state)
{
	static const struct {
		const char *name;
		enum engine target;
		int scheme;
		const char *recipe;
		const char *message;
	} rows[] = {
		{ "hf", ENGINE_ANY, CHANNEL, "channelwise",
		  "no engine loads recipe 'channelwise' in format 'hf': the format has no "
		  "channelwise scheme; use --format compressed-tensors" },
		{ "compressed-tensors", ENGINE_SGLANG, MX, "mxfp8",
		  "recipe 'mxfp8' in format 'compressed-tensors' does not load in sglang: its "
		  "compressed-tensors reader does not support MXFP8; use --format hf" },
		{ "modelopt", ENGINE_ANY, DYNAMIC, "current",
		  "no engine loads recipe 'current' in format 'modelopt': it needs static input "
		  "scales, which --calibration gives; use --format compressed-tensors" },
		{ "modelopts", ENGINE_ANY, STATIC, "delayed",
		  "unknown format 'modelopts' (did you mean 'modelopt'?)" },
		{ "gguf-like", ENGINE_ANY, STATIC, "delayed",
		  "unknown format 'gguf-like' (see 'fp8conv formats')" },
		{ NULL, ENGINE_TRTLLM, DYNAMIC, "current",
		  "recipe 'current' in format 'compressed-tensors' does not load in trtllm: it "
		  "supports one scale per tensor only in modelopt, with --calibration" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct err err = { 0 };

		assert_null(format_select(rows[i].name, rows[i].target, &schemes[rows[i].scheme],
					  rows[i].recipe, &err));
		assert_string_equal(err.message, rows[i].message);
	}
}

static void no_engine_loads_e5m2_weights(void **state)
{
	struct scheme scheme = schemes[BLOCK];
	struct err err = { 0 };

	(void)state;
	scheme.fp8_format = FP8_E5M2;
	for (size_t i = 0; formats[i]; i++) {
		if (!formats[i]->configure)
			continue;
		assert_int_equal(engine_check(ENGINE_ANY, formats[i], &scheme, "r", &err), 0);
		for (int engine = ENGINE_VLLM; engine < N_ENGINES; engine++)
			assert_int_equal(
				engine_check((enum engine)engine, formats[i], &scheme, "r", &err),
				-1);
	}
	assert_non_null(strstr(err.message, "E5M2"));
	assert_non_null(strstr(err.message, "transformers"));
}

static void engines_are_found_by_name(void **state)
{
	enum engine engine;
	struct err err = { 0 };

	(void)state;
	for (int i = ENGINE_VLLM; i < N_ENGINES; i++) {
		assert_int_equal(engine_find(engine_name((enum engine)i), &engine, &err), 0);
		assert_int_equal(engine, i);
	}
	assert_int_equal(engine_find(NULL, &engine, &err), 0);
	assert_int_equal(engine, ENGINE_ANY);
	assert_int_equal(engine_find("any", &engine, &err), -1);
	assert_string_equal(err.message, "unknown target 'any' (see 'fp8conv formats')");
	assert_int_equal(engine_find("vlm", &engine, &err), -1);
	assert_string_equal(err.message, "unknown target 'vlm' (did you mean 'vllm'?)");
}

static void engine_words_are_the_names_in_order(void **state)
{
	struct buf words = { 0 };

	(void)state;
	for (int i = ENGINE_VLLM; i < N_ENGINES; i++)
		buf_printf(&words, "%s%s", words.len ? "|" : "", engine_name((enum engine)i));
	assert_string_equal(words.data, ENGINE_WORDS);
	buf_release(&words);
}

/* vLLM: abs() > 1e-5, of FP32 values; so the limit itself still loads. */
static void input_scales_of_experts_may_differ_by_the_limit(void **state)
{
	static const struct {
		float w1, w3;
		bool refused;
	} rows[] = {
		{ 0.5f, 0.5f, false },
		{ 0, 0x1.4f8b58p-17f, false }, /* FP32 nearest to 1e-5 */
		{ 0, 0x1.4f8b5ap-17f, true },  /* the next one */
		{ 0x1.4f8b5ap-17f, 0, true },
		{ 0.5f, 0.500009f, false },
		{ 0.5f, 0.500011f, true },
		{ 0.500011f, 0.5f, true },
		{ 1e-6f, 9e-6f, false }, /* absolute: nine times as large */
		{ 300.0f, 300.0001f, true },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		assert_int_equal(engine_refuses_input_scales(rows[i].w1, rows[i].w3),
				 rows[i].refused);
}

static void a_format_that_is_only_read_is_not_written(void **state)
{
	const struct format *fbgemm = format_named("fbgemm");
	struct err err = { 0 };

	(void)state;
	assert_null(fbgemm->configure);
	assert_null(format_select("fbgemm", ENGINE_ANY, &schemes[CHANNEL], "r", &err));
	assert_non_null(strstr(err.message, "unknown format 'fbgemm'"));
}

static void assert_decl(struct scale_decl *decl, const char *name, enum dtype dtype,
			const char *shape)
{
	struct buf text = { 0 };

	buf_puts(&text, "[");
	for (int i = 0; i < decl->n_dims; i++)
		buf_printf(&text, "%s%llu", i ? ", " : "", (unsigned long long)decl->shape[i]);
	buf_puts(&text, "]");
	assert_string_equal(decl->name, name);
	assert_string_equal(dtype_name(decl->dtype), dtype_name(dtype));
	assert_string_equal(text.data, shape);
	buf_release(&text);
	free(decl->name);
}

/* Of a weight of [300, 200]: no multiple of a block. */
static void scales_have_the_names_and_shapes_of_each_reader(void **state)
{
	static const struct {
		const char *format;
		enum engine target;
		int scheme;
		const char *name;
		enum dtype dtype;
		const char *shape;
		const char *input; /* its input's, and the shape; NULL: none */
		const char *input_shape;
	} rows[] = {
		{ "hf", ENGINE_ANY, BLOCK, "a.b.weight_scale_inv", DT_F32, "[3, 2]", NULL, NULL },
		{ "hf", ENGINE_TRTLLM, BLOCK, "a.b.weight_scale_inv", DT_F32, "[3, 2]", NULL,
		  NULL },
		{ "hf", ENGINE_ANY, DYNAMIC, "a.b.weight_scale", DT_F32, "[1]", NULL, NULL },
		{ "hf", ENGINE_VLLM, STATIC, "a.b.weight_scale", DT_F32, "[1]", "a.b.input_scale",
		  "[1]" },
		{ "hf", ENGINE_TRANSFORMERS, DYNAMIC, "a.b.weight_scale_inv", DT_F32, "[]", NULL,
		  NULL },
		{ "hf", ENGINE_TRANSFORMERS, STATIC, "a.b.weight_scale_inv", DT_F32, "[]",
		  "a.b.activation_scale", "[]" },
		{ "hf", ENGINE_ANY, MX, "a.b.weight_scale_inv", DT_U8, "[300, 7]", NULL, NULL },
		{ "hf", ENGINE_SGLANG, MX, "a.b.weight_scale_inv", DT_U8, "[300, 7]", NULL, NULL },
		{ "hf", ENGINE_VLLM, MX, "a.b.weight_scale", DT_U8, "[300, 7]", NULL, NULL },
		{ "compressed-tensors", ENGINE_ANY, STATIC, "a.b.weight_scale", DT_F32, "[1]",
		  "a.b.input_scale", "[1]" },
		{ "compressed-tensors", ENGINE_ANY, DYNAMIC, "a.b.weight_scale", DT_F32, "[1]",
		  NULL, NULL },
		{ "compressed-tensors", ENGINE_ANY, CHANNEL, "a.b.weight_scale", DT_F32, "[300, 1]",
		  NULL, NULL },
		{ "compressed-tensors", ENGINE_ANY, BLOCK, "a.b.weight_scale", DT_F32, "[3, 2]",
		  NULL, NULL },
		{ "compressed-tensors", ENGINE_VLLM, MX, "a.b.weight_scale", DT_U8, "[300, 7]",
		  NULL, NULL },
		{ "modelopt", ENGINE_ANY, STATIC, "a.b.weight_scale", DT_F32, "[]",
		  "a.b.input_scale", "[]" },
		{ "modelopt", ENGINE_ANY, CHANNEL, "a.b.weight_scale", DT_F32, "[300]", NULL,
		  NULL },
		{ "modelopt", ENGINE_ANY, MX, "a.b.weight_scale", DT_U8, "[300, 7]", NULL, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct format *format = format_named(rows[i].format);
		const struct scheme *scheme = &schemes[rows[i].scheme];
		struct scale_decl decl;

		format_scale(format, scheme, rows[i].target,
			     &(struct scaled_weight){ "a.b.weight", 300, 200, 0 }, &decl);
		assert_decl(&decl, rows[i].name, rows[i].dtype, rows[i].shape);
		assert_null(
			format_refuse_shape(format, scheme, rows[i].target,
					    &(struct scaled_weight){ "a.b.weight", 300, 200, 0 }));
		if (!rows[i].input)
			continue;
		format_input_scale(format, scheme, rows[i].target, "a.b.weight", &decl);
		assert_decl(&decl, rows[i].input, DT_F32, rows[i].input_shape);
	}
}

static const char *refusal(const struct format *format, uint64_t rows, uint64_t cols,
			   uint64_t experts)
{
	const struct scaled_weight weight = { "a.b.weight", rows, cols, experts };

	return format_refuse_shape(format, &schemes[BLOCK], ENGINE_ANY, &weight);
}

static void modelopt_takes_whole_blocks_only(void **state)
{
	const struct format *modelopt = format_named("modelopt");
	struct scale_decl decl;

	(void)state;
	format_scale(modelopt, &schemes[BLOCK], ENGINE_ANY,
		     &(struct scaled_weight){ "a.b.weight", 256, 384, 0 }, &decl);
	assert_decl(&decl, "a.b.weight_scale", DT_F32, "[2, 1, 3, 1]");
	assert_null(refusal(modelopt, 256, 384, 0));
	assert_non_null(refusal(modelopt, 257, 384, 0));
	assert_non_null(refusal(modelopt, 256, 64, 0));
	assert_non_null(refusal(modelopt, 256, 384, 4));
}

/* Stacks of 5 experts of 256 x 384, by families.md 2: each expert's scales after the other's. */
static void stacks_have_the_scales_of_each_expert(void **state)
{
	static const struct {
		const char *format;
		int scheme;
		const char *weight, *name;
		enum dtype dtype;
		const char *shape;
	} rows[] = {
		{ "hf", BLOCK, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale_inv", DT_F32,
		  "[5, 2, 3]" },
		{ "hf", BLOCK, "l.experts.gate_up_proj", "l.experts.gate_up_proj_scale_inv", DT_F32,
		  "[5, 2, 3]" },
		{ "hf", STATIC, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale", DT_F32,
		  "[5]" },
		{ "hf", MX, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale_inv", DT_U8,
		  "[5, 256, 12]" },
		{ "compressed-tensors", BLOCK, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale",
		  DT_F32, "[5, 2, 3]" },
		{ "compressed-tensors", CHANNEL, "l.experts.w13_weight",
		  "l.experts.w13_weight_scale", DT_F32, "[5, 256, 1]" },
		{ "compressed-tensors", STATIC, "l.moe.up_proj.weight",
		  "l.moe.up_proj.weight_scale", DT_F32, "[5]" },
		{ "compressed-tensors", MX, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale",
		  DT_U8, "[5, 256, 12]" },
		{ "modelopt", STATIC, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale", DT_F32,
		  "[5]" },
		{ "modelopt", CHANNEL, "l.moe.up_proj.weight", "l.moe.up_proj.weight_scale", DT_F32,
		  "[5, 256]" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		const struct format *format = format_named(rows[i].format);
		const struct scheme *scheme = &schemes[rows[i].scheme];
		const struct scaled_weight weight = { rows[i].weight, 256, 384, 5 };
		struct scale_decl decl;

		assert_null(format_refuse_shape(format, scheme, ENGINE_ANY, &weight));
		format_scale(format, scheme, ENGINE_ANY, &weight, &decl);
		assert_decl(&decl, rows[i].name, rows[i].dtype, rows[i].shape);
	}
}

static void kv_scales_have_the_names_of_each_format(void **state)
{
	static const struct {
		const char *format;
		struct cached cached;
		const char *name, *shape;
	} rows[] = {
		{ "compressed-tensors", { "l.0.attn", 'k', false }, "l.0.attn.k_scale", "[1]" },
		{ "modelopt", { "l.0.attn", 'v', false }, "l.0.attn.v_proj.v_scale", "[]" },
		/* latent attention has no k_proj, but engines know this name alone */
		{ "compressed-tensors",
		  { "l.0.attn", 'k', true },
		  "l.0.attn.k_proj.k_scale",
		  "[1]" },
		{ "modelopt", { "l.0.attn", 'v', true }, "l.0.attn.v_proj.v_scale", "[]" },
	};

	(void)state;
	assert_null(format_named("hf")->kv_scale);
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct scale_decl decl;

		format_kv_scale(format_named(rows[i].format), &rows[i].cached, &decl);
		assert_decl(&decl, rows[i].name, DT_F32, rows[i].shape);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_scheme_follows_from_a_qspec),
		cmocka_unit_test(engines_load_what_is_published),
		cmocka_unit_test(each_target_has_its_default_format),
		cmocka_unit_test(refusals_name_the_reason_and_a_way),
		cmocka_unit_test(no_engine_loads_e5m2_weights),
		cmocka_unit_test(engines_are_found_by_name),
		cmocka_unit_test(engine_words_are_the_names_in_order),
		cmocka_unit_test(input_scales_of_experts_may_differ_by_the_limit),
		cmocka_unit_test(a_format_that_is_only_read_is_not_written),
		cmocka_unit_test(scales_have_the_names_and_shapes_of_each_reader),
		cmocka_unit_test(modelopt_takes_whole_blocks_only),
		cmocka_unit_test(stacks_have_the_scales_of_each_expert),
		cmocka_unit_test(kv_scales_have_the_names_of_each_format),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
