/* SPDX-License-Identifier: Apache-2.0
 *
 * Recognition: every variant that our formats or other tools write, with and without a
 * configuration.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/detect.h"
#include "source/fp8_source.h"

static int by_name(const void *a, const void *b)
{
	const struct tensor_ref *x = a, *y = b;

	return strcmp(x->tensor->name, y->tensor->name);
}

/* "model.w F8_E4M3 256 384" */
static void tensor_parse(struct st_tensor *tensor, const char *line, size_t n)
{
	char *text = xstrndup(line, n), *rest = text;
	const char *name = strsep(&rest, " "), *type = strsep(&rest, " ");

	assert_true(dtype_from_name(&tensor->dtype, type, strlen(type)));
	tensor->name = xstrdup(name);
	for (const char *size; (size = strsep(&rest, " "));) {
		ARRAY_GROW(tensor->shape, tensor->n_dims);
		tensor->shape[tensor->n_dims++] = strtoull(size, NULL, 10);
	}
	free(text);
}

/* A checkpoint of tensors, separated by commas; config NULL: none.  Single quotes stand for double
 * ones. */
static void checkpoint_fake(struct checkpoint *checkpoint, const char *tensors, const char *config)
{
	*checkpoint = (struct checkpoint){ 0 };
	for (const char *at = tensors; *at; at += *at == ',') {
		struct st_tensor *tensor = xcalloc(1, sizeof *tensor);
		size_t n = strcspn(at, ",");

		tensor_parse(tensor, at, n);
		ARRAY_GROW(checkpoint->by_name, checkpoint->n_tensors);
		checkpoint->by_name[checkpoint->n_tensors++] =
			(struct tensor_ref){ .tensor = tensor };
		at += n;
	}
	if (checkpoint->n_tensors)
		qsort(checkpoint->by_name, checkpoint->n_tensors, sizeof *checkpoint->by_name,
		      by_name);
	if (config)
		buf_puts(&checkpoint->config, config);
	for (char *at = checkpoint->config.data; at && (at = strchr(at, '\''));)
		*at = '"';
}

static void fake_release(struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		struct st_tensor *tensor = (struct st_tensor *)checkpoint->by_name[i].tensor;

		free(tensor->name);
		free(tensor->shape);
		free(tensor);
	}
	free(checkpoint->by_name);
	buf_release(&checkpoint->config);
}

#define W256 "a.weight F8_E4M3 256 384,"
#define HF(more) \
	"{'quantization_config': {'quant_method': 'fp8', 'activation_scheme': 'dynamic'" more "}}"
#define CT(weights, dynamic)                                                               \
	"{'quantization_config': {'quant_method': 'compressed-tensors', 'config_groups': " \
	"{'group_0': "                                                                     \
	"{'weights': {'num_bits': 8, 'type': 'float', " weights                            \
	"}, 'input_activations': {'dynamic': " dynamic "}}}}}"
#define MO(algo) "{'quantization_config': {'quant_method': 'modelopt', 'quant_algo': '" algo "'}}"

/* Last: format, recipe, scale_fmt; tile and type of a.weight's scale; how many scales there are. */
static const struct {
	const char *tensors;
	const char *config;
	const char *found;
} rows[] = {
	/* ours, with their configuration */
	{ W256 "a.weight_scale_inv F32 2 3", HF(", 'weight_block_size': [128, 128]"),
	  "hf blockwise float 128 x 128 F32, 1" },
	{ W256 "a.weight_scale_inv F32 2 3",
	  HF(", 'weight_block_size': [128, 128], 'scale_fmt': 'ue8m0'"),
	  "hf blockwise ue8m0 128 x 128 F32, 1" },
	{ W256 "a.weight_scale F32 1", HF(""), "hf current float whole x whole F32, 1" },
	{ W256 "a.weight_scale F32 1,a.input_scale F32 1",
	  "{'quantization_config': {'quant_method': 'fp8', 'activation_scheme': 'static'}}",
	  "hf delayed float whole x whole F32, 2" },
	{ W256 "a.weight_scale_inv F32,a.activation_scale F32",
	  "{'quantization_config': {'quant_method': 'fp8', 'activation_scheme': 'static', "
	  "'weight_block_size': null}}",
	  "hf delayed float whole x whole F32, 2" },
	{ W256 "a.weight_scale_inv U8 256 12", "{'quantization_config': {'quant_method': 'mxfp8'}}",
	  "hf mxfp8 ue8m0 1 x 32 E8M0, 1" },
	{ W256 "a.weight_scale F32 1,a.input_scale F32 1", CT("'strategy': 'tensor'", "false"),
	  "compressed-tensors delayed float whole x whole F32, 2" },
	{ W256 "a.weight_scale F32 1", CT("'strategy': 'tensor'", "true"),
	  "compressed-tensors current float whole x whole F32, 1" },
	{ W256 "a.weight_scale F32 256 1", CT("'strategy': 'channel'", "true"),
	  "compressed-tensors channelwise float 1 x whole F32, 1" },
	{ W256 "a.weight_scale F32 4 6",
	  CT("'strategy': 'block', 'block_structure': [64, 64]", "true"),
	  "compressed-tensors blockwise float 64 x 64 F32, 1" },
	{ W256 "a.weight_scale U8 256 12", CT("'strategy': 'group', 'group_size': 32", "true"),
	  "compressed-tensors mxfp8 ue8m0 1 x 32 E8M0, 1" },
	{ W256 "a.weight_scale F32,a.input_scale F32,m.k_proj.k_scale F32,m.v_proj.v_scale F32",
	  MO("FP8"), "modelopt delayed float whole x whole F32, 4" },
	{ W256 "a.weight_scale F32 256", MO("FP8_PER_CHANNEL_PER_TOKEN"),
	  "modelopt channelwise float 1 x whole F32, 1" },
	{ "a.weight F8_E4M3 1 384,a.weight_scale F32 1", MO("FP8_PER_CHANNEL_PER_TOKEN"),
	  "modelopt channelwise float 1 x whole F32, 1" },
	{ W256 "a.weight_scale F32 2 1 3 1", MO("fp8_pb_wo"),
	  "modelopt blockwise float 128 x 128 F32, 1" },
	{ W256 "a.weight_scale U8 256 12", MO("MXFP8"), "modelopt mxfp8 ue8m0 1 x 32 E8M0, 1" },
	/* nested, and in a file that jansson alone would refuse */
	{ W256 "a.weight_scale_inv F32 2 3",
	  "{'x': NaN, 'quantization_config': null, 'text_config': {'quantization_config': "
	  "{'quant_method': "
	  "'fp8', 'weight_block_size': [128, 128], 'activation_scheme': 'dynamic'}}}",
	  "hf blockwise float 128 x 128 F32, 1" },
	/* by tensors alone */
	{ W256 "a.weight_scale_inv F32 2 3", NULL, "hf blockwise float 128 x 128 F32, 1" },
	{ W256 "a.weight_scale_inv U8 256 12", "{}", "hf mxfp8 ue8m0 1 x 32 E8M0, 1" },
	{ W256 "a.weight_scale F32 256 1", NULL,
	  "compressed-tensors channelwise float 1 x whole F32, 1" },
	{ W256 "a.weight_scale F32 2 3", NULL,
	  "compressed-tensors blockwise float 128 x 128 F32, 1" },
	{ W256 "a.weight_scale F32 1,a.input_scale F32 1", NULL,
	  "compressed-tensors delayed float whole x whole F32, 2" },
	{ W256 "a.weight_scale F32,a.input_scale F32", NULL,
	  "modelopt delayed float whole x whole F32, 2" },
	{ W256 "a.weight_scale F32 256", NULL, "modelopt channelwise float 1 x whole F32, 1" },
	{ W256 "a.weight_scale F32 2 1 3 1", NULL, "modelopt blockwise float 128 x 128 F32, 1" },
	{ W256 "a.weight_scale_inv F32", NULL, "hf current float whole x whole F32, 1" },
	/* other tools */
	{ W256 "a.scale F8_E8M0 2 3", HF(", 'weight_block_size': [128, 128], 'scale_fmt': 'ue8m0'"),
	  "deepseek-v4 blockwise ue8m0 128 x 128 E8M0, 1" },
	{ W256 "a.scale_weight F32,scaled_fp8 F8_E4M3 0,a.scale_input F32", NULL,
	  "comfyui delayed float whole x whole F32, 3" },
	{ W256 "a.weight_scale F32,a.comfy_quant U8 27", NULL,
	  "comfyui current float whole x whole F32, 2" },
	{ W256 "a.weight_scale_inv F32 256",
	  HF(", 'weight_scale_method': 'row', 'weight_scale_semantics': 'inverse'"),
	  "gptqmodel channelwise float 1 x whole F32 inverted, 1" },
	{ W256 "a.weight_scale_inv F32 2 3",
	  HF(", 'weight_block_size': [128, 128], 'meta': {'quantizer': ['gptqmodel:5.0.0']}"),
	  "gptqmodel blockwise float 128 x 128 F32 inverted, 1" },
	{ W256 "a.weight_scale F32 256 1",
	  "{'quantization_config': {'quant_method': 'fbgemm_fp8'}}",
	  "fbgemm channelwise float 1 x whole F32, 1" },
	{ W256 "a.qscale_weight BF16,a.qscale_act BF16", NULL,
	  "mistral delayed float whole x whole F32, 2" },
	/* llm-compressor's scales in BF16; an unusual block; one block for all; experts in one
	   tensor */
	{ W256 "a.weight_scale BF16 256 1", CT("'strategy': 'channel'", "true"),
	  "compressed-tensors channelwise float 1 x whole F32, 1" },
	{ W256 "a.weight_scale_inv F32 256 3", NULL, "hf blockwise float 1 x 128 F32, 1" },
	{ W256 "a.weight_scale_inv F32 16 2", NULL, "hf blockwise float 16 x 192 F32, 1" },
	{ "a.weight F8_E4M3 100 100,a.weight_scale_inv F32 1 1",
	  HF(", 'weight_block_size': [128, 128]"), "hf blockwise float 128 x 128 F32, 1" },
	{ "a.weight F8_E5M2 8 256 384,a.weight_scale_inv F32 8 2 3",
	  HF(", 'weight_block_size': [128, 128]"), "hf blockwise float 128 x 128 F32, 1" },
	{ "a.weight F8_E4M3 8 256 384,a.weight_scale F32 8 1 384", NULL,
	  "unknown channelwise float whole x 1 F32, 1" },
	/* a stray scale is one; "scale" without FP8 weight, and a norm, are none; the majority
	   decides */
	{ W256 "a.weight_scale F32 256 1,b.weight BF16 4 4,b.weight_scale F32 1,c.scale F32 "
	       "4,c.weight BF16 4",
	  NULL, "compressed-tensors channelwise float 1 x whole F32, 2" },
	{ W256 "a.weight_scale F32 1,b.weight F8_E4M3 256 128,b.weight_scale F32 256 1,c.weight "
	       "F8_E4M3 256 "
	       "128,c.weight_scale F32 256 1",
	  NULL, "compressed-tensors channelwise float whole x whole F32, 3" },
};

static void add_side(struct buf *buf, size_t side)
{
	if (side == WHOLE)
		buf_puts(buf, "whole");
	else
		buf_printf(buf, "%zu", side);
}

/* The same as text. */
static void found_format(struct buf *buf, const struct detection *detection,
			 const struct weight_scale *scale)
{
	buf_printf(buf, "%s %s %s ", detection->format, fp8_source_recipe(detection),
		   detection->scale_fmt);
	add_side(buf, scale->tile.rows);
	buf_puts(buf, " x ");
	add_side(buf, scale->tile.cols);
	buf_printf(buf, " %s%s, %zu", scale->scale_type == SCALE_E8M0 ? "E8M0" : "F32",
		   scale->inverted ? " inverted" : "", detection->n_scales);
}

static void every_variant_is_detected(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct detection detection;
		struct checkpoint checkpoint;
		struct weight_scale scale;
		struct buf found = { 0 };
		struct err err = { 0 };
		const struct tensor_ref *weight;

		checkpoint_fake(&checkpoint, rows[i].tensors, rows[i].config);
		weight = checkpoint_find(&checkpoint, "a.weight");
		if (detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err) ||
		    detection_scale(&detection, weight, &scale, &err))
			fail_msg("row %zu: %s", i, err.message);
		found_format(&found, &detection, &scale);
		assert_string_equal(found.data, rows[i].found);
		assert_int_equal(detection.inverted, scale.inverted);
		assert_true(detection_is_scale(&detection, scale.scale));
		assert_false(detection_is_scale(&detection, weight));
		buf_release(&found);
		detection_release(&detection);
		fake_release(&checkpoint);
	}
}

/* Everything that a format writes is detected as what it was. */
static void round_trip(const struct format *format, enum engine target, const struct scheme *scheme,
		       const char *recipe)
{
	static const char *const module = "a";
	const struct module_set set = { *scheme, &module, 1 };
	const struct quantization quantization = {
		.sets = &set, .n_sets = 1, .target = target, .tool_version = "0"
	};
	struct buf config = { 0 }, file = { 0 }, tensors = { 0 };
	struct detection detection;
	struct checkpoint checkpoint;
	struct weight_scale scale;
	struct scale_decl decl;
	struct err err = { 0 };

	buf_puts(&config, "{\"quantization_config\": ");
	assert_int_equal(format_configure(format, &quantization, &config, &file, &err), 0);
	buf_puts(&config, "}");
	format_scale(format, scheme, target, &(struct scaled_weight){ "a.weight", 256, 384, 0 },
		     &decl);
	buf_printf(&tensors, W256 "%s %s", decl.name, dtype_name(decl.dtype));
	for (int i = 0; i < decl.n_dims; i++)
		buf_printf(&tensors, " %llu", (unsigned long long)decl.shape[i]);
	checkpoint_fake(&checkpoint, tensors.data, config.data);
	assert_int_equal(detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err), 0);
	assert_string_equal(detection.format, format->name);
	assert_string_equal(fp8_source_recipe(&detection), recipe);
	assert_int_equal(detection.scheme.static_input, scheme->static_input);
	assert_int_equal(
		detection_scale(&detection, checkpoint_find(&checkpoint, "a.weight"), &scale, &err),
		0);
	assert_int_equal(scale.tile.rows, scheme->tile.rows);
	assert_int_equal(scale.tile.cols, scheme->tile.cols);
	free(decl.name);
	buf_release(&tensors);
	buf_release(&file);
	buf_release(&config);
	detection_release(&detection);
	fake_release(&checkpoint);
}

static void what_is_written_is_detected(void **state)
{
	static const struct {
		const char *recipe;
		struct scheme scheme;
	} written[] = {
		{ "delayed", { .granularity = GRANULARITY_TENSOR, .static_input = true } },
		{ "current", { .granularity = GRANULARITY_TENSOR } },
		{ "channelwise", { .granularity = GRANULARITY_CHANNEL, .tile = { 1, WHOLE } } },
		{ "blockwise", { GRANULARITY_BLOCK, { 128, 128 }, .pow2 = true } },
		{ "mxfp8", { GRANULARITY_MX, { 1, 32 }, .pow2 = true } },
	};
	struct err err;
	size_t n = 0;

	(void)state;
	for (size_t f = 0; formats[f]; f++)
		for (int e = ENGINE_ANY; e < N_ENGINES; e++)
			for (size_t w = 0; w < sizeof written / sizeof *written; w++)
				if (!engine_check((enum engine)e, formats[f], &written[w].scheme,
						  "", &err)) {
					round_trip(formats[f], (enum engine)e, &written[w].scheme,
						   written[w].recipe);
					n++;
				}
	assert_int_equal(n, 53); /* the "y" of test_format.c */
}

/* Nothing to do with FP8: no word about it, and no tensor taken for a scale. */
static void other_checkpoints_are_not_taken_for_fp8(void **state)
{
	static const struct {
		const char *tensors, *config;
	} plain[] = {
		{ "a.weight BF16 256 384,a.k_scale F32 1,a.weight_scale F32 1", NULL },
		{ "a.weight BF16 256 384", "{'quantization_config': null}" },
		{ "a.weight U8 256 192,a.weight_scale F8_E4M3 256 24,a.weight_scale_2 F32",
		  "{'quantization_config': {'quant_method': 'modelopt', 'quant_algo': 'NVFP4'}}" },
		{ "a.weight_packed I32 256 48,a.weight_scale BF16 256 3",
		  "{'quantization_config': {'quant_method': 'compressed-tensors', 'config_groups': "
		  "{'group_0': "
		  "{'weights': {'num_bits': 4, 'type': 'int'}}}}}" },
		{ "a.qweight I32 48 256",
		  "{'quantization_config': {'quant_method': 'gptq', 'bits': 4}}" },
		{ "", "{}" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
		struct detection detection;
		struct checkpoint checkpoint;
		struct err err = { 0 };

		checkpoint_fake(&checkpoint, plain[i].tensors, plain[i].config);
		assert_int_equal(
			detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err), 0);
		assert_null(detection.format);
		assert_null(fp8_source_recipe(&detection));
		assert_null(detection.scale_fmt);
		assert_int_equal(detection.n_weights, 0);
		assert_int_equal(detection.n_scales, 0);
		assert_false(detection.declared);
		detection_release(&detection);
		fake_release(&checkpoint);
	}
}

/* The configuration says FP8 and the tensors do not: what it says stands, for `verify` to hold
 * against them. */
static void a_declaration_without_fp8_tensors_stands(void **state)
{
	struct detection detection;
	struct checkpoint checkpoint;
	struct err err = { 0 };

	(void)state;
	checkpoint_fake(&checkpoint, "a.weight BF16 256 384,a.weight_scale_inv F32 2 3",
			HF(", 'weight_block_size': [128, 128], 'scale_fmt': 'ue8m0'"));
	assert_int_equal(detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err), 0);
	assert_true(detection.declared);
	assert_int_equal(detection.n_weights, 0);
	assert_string_equal(detection.format, "hf");
	assert_string_equal(fp8_source_recipe(&detection), "blockwise");
	assert_string_equal(detection.scale_fmt, "ue8m0");
	assert_int_equal(detection.n_scales, 1);
	assert_string_equal(json_string_value(json_object_get(detection.config, "quant_method")),
			    "fp8");
	detection_release(&detection);
	fake_release(&checkpoint);
}

static void hf_quant_config_alone_names_the_format(void **state)
{
	static const char text[] =
		"{\"producer\": {\"name\": \"modelopt\"}, \"quantization\": {\"quant_algo\": "
		"\"FP8\", \"exclude_modules\": [\"lm_head\"]}}";
	struct detection detection;
	struct checkpoint checkpoint;
	struct err err = { 0 };

	(void)state;
	checkpoint_fake(&checkpoint, W256 "a.weight_scale F32 1", "{}");
	assert_int_equal(detection_make(&detection, &checkpoint,
					(struct json_text){ text, strlen(text) }, &err),
			 0);
	assert_string_equal(detection.format, "modelopt");
	assert_string_equal(fp8_source_recipe(&detection), "delayed");
	detection_release(&detection);
	fake_release(&checkpoint);
}

/* Each names both tensors. */
static void a_missing_or_odd_scale_is_refused(void **state)
{
	static const struct {
		const char *tensors, *message;
	} bad[] = {
		{ W256 "b.weight_scale F32 1", "FP8 tensor 'a.weight' has no scale" },
		{ W256 "a.weight_scale F32 7", "scale 'a.weight_scale' is F32 [7], which does not "
					       "fit any tiling of [256, 384] of 'a.weight'" },
		{ W256 "a.weight_scale F32 5 7", "scale 'a.weight_scale' is F32 [5, 7], which does "
						 "not fit any tiling of [256, 384] of 'a.weight'" },
		{ W256 "a.weight_scale F32 0 3", "scale 'a.weight_scale' is F32 [0, 3], which does "
						 "not fit any tiling of [256, 384] of 'a.weight'" },
		{ W256 "a.weight_scale I32 1", "scale 'a.weight_scale' is I32 [1], which does not "
					       "fit any tiling of [256, 384] of 'a.weight'" },
		{ W256 "a.weight_scale F32 2 3 4",
		  "scale 'a.weight_scale' is F32 [2, 3, 4], which does "
		  "not fit any tiling of [256, 384] of 'a.weight'" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct detection detection;
		struct checkpoint checkpoint;
		struct weight_scale scale;
		struct err err = { 0 };

		checkpoint_fake(&checkpoint, bad[i].tensors, NULL);
		assert_int_equal(
			detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err), 0);
		assert_string_equal(detection.format, "unknown");
		assert_string_equal(fp8_source_recipe(&detection), "unknown");
		assert_int_equal(detection_scale(&detection,
						 checkpoint_find(&checkpoint, "a.weight"), &scale,
						 &err),
				 -1);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_string_equal(err.message, bad[i].message);
		detection_release(&detection);
		fake_release(&checkpoint);
	}
}

static void a_bad_config_is_refused(void **state)
{
	static const char *const bad[] = {
		"[1]",
		"{'quantization_config': {'a': 1, 'a': 2}}",
		"{'quantization_config': {}, 'quantization_config': {}}",
		"{'quantization_config'",
	};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		struct detection detection;
		struct checkpoint checkpoint;
		struct err err = { 0 };

		checkpoint_fake(&checkpoint, W256, bad[i]);
		checkpoint.path = (char *)"model";
		assert_int_equal(
			detection_make(&detection, &checkpoint, (struct json_text){ 0 }, &err), -1);
		assert_int_equal(err.kind, ERR_INPUT);
		assert_ptr_equal(strstr(err.message, "'model': config.json"), err.message);
		detection_release(&detection);
		fake_release(&checkpoint);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_variant_is_detected),
		cmocka_unit_test(what_is_written_is_detected),
		cmocka_unit_test(other_checkpoints_are_not_taken_for_fp8),
		cmocka_unit_test(a_declaration_without_fp8_tensors_stands),
		cmocka_unit_test(hf_quant_config_alone_names_the_format),
		cmocka_unit_test(a_missing_or_odd_scale_is_refused),
		cmocka_unit_test(a_bad_config_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
