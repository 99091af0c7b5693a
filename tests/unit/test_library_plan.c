/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans of the shared library: each tensor by itself, from the last to the first, has the bytes
 * that the command writes to files; what is asked in a wrong way is refused.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fp8conv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "ckpt/checkpoint.h"
#include "support/library_use.h"
#include "support/folders.h"

#define SAMPLES "sample_checkpoints/"

/* Converts tensor i alone.  outputs has room for each, behind which a byte must stay. */
static void convert(struct fp8conv_plan *plan, const struct held *held, size_t i,
		    struct fp8conv_entry *entry, void **outputs)
{
	struct fp8conv_conversion list[64];
	struct fp8conv_error error;

	entry->size = sizeof *entry;
	if (fp8conv_plan_entry(plan, i, entry, &error))
		fail_msg("%s", error.message);
	assert_in_range(entry->n_needed, 1, 64);
	for (size_t k = 0; k < entry->n_outputs; k++) {
		size_t n = item_size(&entry->outputs[k]);

		outputs[k] = memset(malloc(n + 1), 0xA5, n + 1);
	}
	for (size_t k = 0; k < entry->n_needed; k++) {
		size_t needed = entry->needed[k];

		list[k] = (struct fp8conv_conversion){ .size = sizeof list[k],
						       .tensor = needed,
						       .data = held->data[needed],
						       .bytes = item_size(&held->items[needed]),
						       .outputs = needed == i ? outputs : NULL };
	}
	if (fp8conv_plan_apply(plan, list, entry->n_needed, &error))
		fail_msg("%s: %s", held->items[i].name, error.message);
	for (size_t k = 0; k < entry->n_outputs; k++)
		assert_int_equal(((uint8_t *)outputs[k])[item_size(&entry->outputs[k])], 0xA5);
}

/* Compares the outputs of all tensors with the files. */
static void check_outputs(struct fp8conv_plan *plan, const struct held *held, struct on_disk *files)
{
	size_t n_outputs = 0;

	for (size_t i = 0; i < held->model.n_tensors; i++) {
		struct fp8conv_entry entry;
		void *outputs[64];

		convert(plan, held, i, &entry, outputs);
		for (size_t k = 0; k < entry.n_outputs; k++) {
			const struct fp8conv_item *item = &entry.outputs[k];
			const struct tensor_ref *ref =
				checkpoint_find(&files->checkpoint, item->name);
			void *want;

			if (!ref)
				fail_msg("'%s' is not in the files", item->name);
			want = disk_read(files, ref);
			assert_string_equal(item->dtype, dtype_name(ref->tensor->dtype));
			assert_int_equal(item_size(item), st_tensor_size(ref->tensor));
			if (memcmp(outputs[k], want, item_size(item)) != 0)
				fail_msg("'%s' has other bytes in the files", item->name);
			free(want);
			free(outputs[k]);
			n_outputs++;
		}
	}
	assert_int_equal(n_outputs, files->checkpoint.n_tensors);
}

static void check_case(const char *model, const char *recipe, const char *format)
{
	struct fp8conv_context *context = open_context(NULL, 2);
	char path[600], options[100], *scratch = scratch_new();
	struct held held;
	struct on_disk files;
	struct fp8conv_plan *plan;
	struct fp8conv_error error;
	struct fp8conv_run run = { .size = sizeof run };
	const char *argv[] = { "fp8conv", "quantize", model,  "-o",	  path,
			       "-q",	  "--recipe", recipe, "--format", format };

	assert_non_null(scratch);
	snprintf(path, sizeof path, "%s/out", scratch);
	snprintf(options, sizeof options, "{\"recipe\": \"%s\", \"format\": \"%s\"}", recipe,
		 format);
	if (fp8conv_run(10, argv, &run, &error))
		fail_msg("%s", error.message);
	fp8conv_free(run.output);
	held_open(&held, model);
	disk_open(&files, path);
	if (fp8conv_plan_create(context, &held.model, options, &plan, &error))
		fail_msg("%s", error.message);
	assert_string_equal(fp8conv_plan_text(plan, "config.json"), files.checkpoint.config.data);
	check_outputs(plan, &held, &files);
	fp8conv_plan_destroy(plan);
	disk_close(&files);
	held_close(&held);
	fp8conv_context_destroy(context);
	snprintf(path, sizeof path, "rm -rf '%s'", scratch);
	assert_int_equal(system(path), 0);
	free(scratch);
}

static void each_tensor_is_as_in_the_files(void **state)
{
	static const char *const models[] = { SAMPLES "tiny-llama", SAMPLES "tiny-moe/per-expert",
					      SAMPLES "tiny-moe/fused",
					      SAMPLES "tiny-moe/fused-transposed",
					      SAMPLES "odd-shapes" };
	static const char *const kinds[][2] = { { "blockwise", "hf" },
						{ "mxfp8", "modelopt" },
						{ "current", "compressed-tensors" },
						{ "channelwise", "compressed-tensors" } };

	(void)state;
	for (size_t m = 0; m < sizeof models / sizeof *models; m++)
		for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
			check_case(models[m], kinds[k][0], kinds[k][1]);
}

/* (5 x 3) blocks of 128 x 128: columns of 8 elements, and without the option rows of 3. */
static void scales_lie_by_columns(void **state)
{
	static const uint64_t shape[] = { 5 * 128, 3 * 128 };
	struct fp8conv_item item = { sizeof item, "a.b_proj.weight", "F32", 2, shape, NULL };
	struct fp8conv_model model = { sizeof model, NULL, 1, &item };
	struct fp8conv_context *context = open_context(NULL, 1);
	float *x = calloc(shape[0] * shape[1], sizeof *x), rows[15], columns[24];
	uint8_t *codes = malloc(shape[0] * shape[1]);
	void *outputs[] = { codes, rows };
	struct fp8conv_conversion conversion = { sizeof conversion, 0, x, 0, outputs, 0, 0, NULL };
	struct fp8conv_plan *plan;

	(void)state;
	for (size_t i = 0; i < shape[0] * shape[1]; i++)
		x[i] = (float)(1 + i % 977) * (float)(1 + i / (128 * shape[1]));
	assert_int_equal(fp8conv_plan_create(context, &model, NULL, &plan, NULL), 0);
	assert_null(fp8conv_plan_text(plan, "config.json"));
	assert_non_null(fp8conv_plan_text(plan, "quantization_config"));
	assert_int_equal(fp8conv_plan_apply(plan, &conversion, 1, NULL), 0);
	outputs[1] = columns;
	conversion.scales_by_columns = 1;
	assert_int_equal(fp8conv_plan_apply(plan, &conversion, 1, NULL), 0);
	for (size_t c = 0; c < 3; c++)
		for (size_t r = 0; r < 8; r++)
			assert_true(columns[c * 8 + r] == (r < 5 ? rows[r * 3 + c] : 0));
	assert_true(rows[0] != rows[3] && rows[0] > 0);
	fp8conv_plan_destroy(plan);
	free(codes);
	free(x);
	fp8conv_context_destroy(context);
}

static void expect_refusal(struct fp8conv_context *context, struct fp8conv_item item,
			   const char *config, const char *options, int code, const char *message)
{
	struct fp8conv_model model = { sizeof model, config, 1, &item };
	struct fp8conv_plan *plan;
	struct fp8conv_error error;

	assert_int_equal(fp8conv_plan_create(context, &model, options, &plan, &error), code);
	if (!strstr(error.message, message))
		fail_msg("'%s' lacks '%s'", error.message, message);
}

static void wrong_models_are_refused(void **state)
{
	static const uint64_t shape[] = { 256, 256 }, huge[] = { UINT64_MAX, 8 };
	const struct fp8conv_item good = { sizeof good, "a.b_proj.weight", "BF16", 2, shape, NULL };
	struct fp8conv_context *context = open_context(NULL, 1);
	struct fp8conv_item item;

	(void)state;
	expect_refusal(context, good, NULL, "{\"dry-run\": true}", FP8CONV_USAGE, "dry-run");
	expect_refusal(context, good, NULL, "[]", FP8CONV_USAGE, "not a JSON object");
	expect_refusal(context, good, NULL, "{", FP8CONV_INPUT, "options of a plan");
	expect_refusal(context, good, NULL, "{\"tp\": {}}", FP8CONV_USAGE, "'tp'");
	expect_refusal(context, good, NULL, "{\"exclude\": true, \"recipe\": \"mxfp8\"}",
		       FP8CONV_USAGE, "'exclude' is true");
	expect_refusal(context, good, NULL, "{\"exclude\": [\"a\", true]}", FP8CONV_USAGE,
		       "'exclude' is true");
	expect_refusal(context, good, NULL, "{\"recipe\": \"blok\"}", FP8CONV_USAGE, "blok");
	expect_refusal(context, good, "{", NULL, FP8CONV_INPUT, "memory:");
	expect_refusal(context, good, NULL, "{\"on-nonfinite\": \"skip\"}", FP8CONV_USAGE,
		       "tensor 'a.b_proj.weight': its data are needed, and NULL");
	item = good;
	item.dtype = "BF15";
	expect_refusal(context, item, NULL, NULL, FP8CONV_USAGE, "'BF15'");
	item = good;
	item.shape = huge;
	expect_refusal(context, item, NULL, NULL, FP8CONV_INPUT, "larger than a file");
	item = good;
	item.n_dims = 65;
	expect_refusal(context, item, NULL, NULL, FP8CONV_INPUT, "65 dimensions");
	item = good;
	item.name = "a\nb";
	expect_refusal(context, item, NULL, NULL, FP8CONV_INPUT, "control");
	item = good;
	item.name = NULL;
	expect_refusal(context, item, NULL, NULL, FP8CONV_USAGE, "no name");
	item.size = 8;
	expect_refusal(context, item, NULL, NULL, FP8CONV_USAGE, "size");
	fp8conv_context_destroy(context);
}

/* A scale for q, k and v: each needs the others.  What one call was given is forgotten, and what
 * the plan was made with. */
static void a_set_is_converted_together(void **state)
{
	struct fp8conv_context *context = open_context(NULL, 1);
	struct held held;
	struct fp8conv_plan *plan;
	struct fp8conv_entry entry = { .size = sizeof entry };
	struct fp8conv_conversion one, two[2];
	struct fp8conv_error error;
	void *outputs[8], *none[8] = { NULL }, *never_written[] = { &one, &one };
	size_t i = 0;

	(void)state;
	held_open(&held, SAMPLES "tiny-llama");
	for (size_t k = 0; k < held.model.n_tensors; k++)
		held.items[k].data = held.data[k];
	assert_int_equal(fp8conv_plan_create(context, &held.model, "{\"recipe\": \"current\"}",
					     &plan, &error),
			 0);
	while (!strstr(held.items[i].name, "layers.0.self_attn.q_proj.weight"))
		i++;
	one =
		(struct fp8conv_conversion){ sizeof one, i, held.data[i], 0, never_written,
					     0,		 0, NULL };
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	assert_non_null(strstr(error.message, "give both in one call"));
	two[0] = two[1] = one;
	assert_int_equal(fp8conv_plan_apply(plan, two, 2, &error), FP8CONV_USAGE);
	assert_non_null(strstr(error.message, "twice"));
	convert(plan, &held, i, &entry, outputs);
	assert_int_equal(entry.n_needed, 3);
	assert_string_equal(entry.action, "quantize");
	one.tensor = i;
	one.data = held.data[i];
	one.outputs = outputs;
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	assert_non_null(strstr(error.message, "give both in one call"));
	one.bytes = 7;
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	assert_non_null(strstr(error.message, "and 7 at data"));
	one.bytes = 0;
	one.outputs = none;
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	one.data = NULL;
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	one.tensor = held.model.n_tensors;
	assert_int_equal(fp8conv_plan_apply(plan, &one, 1, &error), FP8CONV_USAGE);
	assert_int_equal(fp8conv_plan_apply(plan, NULL, 1, &error), FP8CONV_USAGE);
	assert_int_equal(fp8conv_plan_apply(plan, NULL, 0, &error), FP8CONV_OK);
	assert_int_equal(fp8conv_plan_entry(plan, held.model.n_tensors, &entry, &error),
			 FP8CONV_USAGE);
	assert_int_equal(fp8conv_plan_entry(NULL, 0, &entry, &error), FP8CONV_USAGE);
	assert_null(fp8conv_plan_text(NULL, "config.json"));
	assert_null(fp8conv_plan_text(plan, "another"));
	for (size_t k = 0; k < 2; k++)
		free(outputs[k]);
	fp8conv_plan_destroy(plan);
	fp8conv_plan_destroy(NULL);
	held_close(&held);
	fp8conv_context_destroy(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_tensor_is_as_in_the_files),
		cmocka_unit_test(scales_lie_by_columns),
		cmocka_unit_test(wrong_models_are_refused),
		cmocka_unit_test(a_set_is_converted_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
