/* SPDX-License-Identifier: Apache-2.0
 *
 * The library on tensors in the memory of a device: the bytes that it writes for the same tensors
 * of the CPU, which the golden sums hold.  The executor of the backend moves the tensors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fp8conv.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "num/scale_grid.h"
#include "support/library_use.h"
#include "support/folders.h"
#include "support/kernel_parity.h"
#include "tests/simt/counts.h"

#define N_TENSORS 256

/* On the emulated GPU alone. */
extern struct simt_counts simt_counts __attribute__((weak));

/* Bytes that were copied from the device, where it counts them. */
static size_t copied_out(void)
{
	return &simt_counts ? simt_counts.n_bytes_out : 0;
}

/* Memory of the device. */
struct device {
	struct executor *executor;
	struct executor_stream *stream;
	const struct executor_ops *ops;
	void *taken[N_TENSORS];
	size_t n;
};

static struct device device;

static struct fp8conv_tensor moved(const struct fp8conv_tensor *tensor, bool filled)
{
	struct fp8conv_tensor there = *tensor;
	struct err err = { 0 };

	assert_true(device.n < N_TENSORS);
	if (device.ops->memory_new(device.executor, &there.data, tensor->bytes, "a tensor", &err))
		fail_msg("%s", err.message);
	device.taken[device.n++] = there.data;
	if (filled)
		device.ops->put(device.stream, there.data, tensor->data, tensor->bytes);
	assert_int_equal(device.ops->wait(device.stream, &err), 0);
	there.device = FP8CONV_CUDA(0);
	return there;
}

static void fetch(void *to, const struct fp8conv_tensor *from)
{
	struct err err = { 0 };

	device.ops->fetch(device.stream, to, from->data, from->bytes);
	assert_int_equal(device.ops->wait(device.stream, &err), 0);
}

static void drop(void)
{
	while (device.n)
		device.ops->memory_free(device.executor, device.taken[--device.n]);
}

static void same(const struct fp8conv_tensor *there, const struct fp8conv_tensor *here,
		 const char *what)
{
	unsigned char *bytes = malloc(here->bytes + 1);

	fetch(bytes, there);
	for (size_t i = 0; i < here->bytes; i++)
		if (bytes[i] != ((unsigned char *)here->data)[i])
			fail_msg("%s: byte %zu is %u, not %u", what, i, bytes[i],
				 ((unsigned char *)here->data)[i]);
	free(bytes);
}

/* What a case quantizes. */
struct shape {
	const char *recipe;
	int dtype, role, layout, copies; /* 1 rowwise, 2 columnwise */
	size_t batch, rows, columns;
};

/* A stack of tensors of the shapes that the library says, of all matrices one after the other. */
static void stack_init(struct both *b, const struct fp8conv_recipe *recipe, const struct shape *s)
{
	both_init(b, recipe, s->role, s->rows, s->columns, s->layout);
	for (int i = 0; i < 4; i++) {
		struct fp8conv_tensor *t = i < 2 ? &b->codes[i] : &b->scales[i - 2];

		free(t->data);
		t->batch = s->batch;
		t->bytes *= s->batch;
		t->data = malloc(t->bytes + 1);
		memset(t->data, 0x5A, t->bytes + 1);
	}
	if (!(s->copies & 1))
		b->q.rowwise = b->q.rowwise_scale_inv = NULL;
	if (!(s->copies & 2))
		b->q.columnwise = b->q.columnwise_scale_inv = NULL;
}

static void fill(struct fp8conv_tensor *x)
{
	size_t size = x->dtype == FP8CONV_F32 ? 4 : 2, n = x->batch * x->rows * x->columns;

	x->bytes = n * size;
	x->data = malloc(x->bytes);
	for (size_t i = 0; i < n; i++) {
		float v = ldexpf((float)((i * 2654435761u >> 7) % 4001) - 2000, (int)(i % 29) - 20);
		uint32_t bits = f32_bits(v) >> (x->dtype == FP8CONV_F32 ? 0 : 16);

		memcpy((char *)x->data + i * size, &bits, size);
	}
}

static void dequantizing_equals(struct fp8conv_context *context, const struct both *here,
				const struct fp8conv_quantized *there, const struct shape *s)
{
	size_t n = s->batch * s->rows * s->columns;
	struct fp8conv_tensor y = tensor(calloc(n, 4), FP8CONV_F32, s->rows, s->columns), z;
	struct fp8conv_error error = { 0 };

	y.batch = s->batch;
	y.bytes = 4 * n;
	z = moved(&y, true);
	assert_int_equal(fp8conv_dequantize(context, &here->q, &y, NULL), 0);
	if (fp8conv_dequantize(context, there, &z, &error))
		fail_msg("%s: %s", s->recipe, error.message);
	same(&z, &y, s->recipe);
	free(y.data);
}

/* The same with scales in BF16, as other tools write them. */
static void dequantizing_halves_equals(struct fp8conv_context *context, const struct both *here,
				       const struct fp8conv_quantized *there, const struct shape *s)
{
	struct fp8conv_tensor halves = here->scales[0], moved_halves;
	struct fp8conv_quantized q = *there;
	struct both b = *here;

	halves.bytes /= 2;
	halves.dtype = FP8CONV_BF16;
	halves.data = malloc(halves.bytes);
	for (size_t i = 0; i < halves.bytes / 2; i++)
		memcpy((char *)halves.data + 2 * i, (char *)here->scales[0].data + 4 * i + 2, 2);
	moved_halves = moved(&halves, true);
	b.q.rowwise_scale_inv = &halves;
	q.rowwise_scale_inv = &moved_halves;
	dequantizing_equals(context, &b, &q, s);
	free(halves.data);
}

static void check(struct fp8conv_context *context, const struct shape *s)
{
	const struct fp8conv_recipe *recipe = recipe_of(context, s->recipe, NULL);
	struct fp8conv_tensor x = tensor(NULL, s->dtype, s->rows, s->columns), on_device;
	struct fp8conv_tensor codes[2], scales[2];
	struct fp8conv_error error = { 0 };
	struct fp8conv_quantized q;
	struct both here;

	x.batch = s->batch;
	fill(&x);
	on_device = moved(&x, true);
	stack_init(&here, recipe, s);
	q = here.q;
	for (int i = 0; i < 2; i++) {
		codes[i] = moved(&here.codes[i], true);
		scales[i] = moved(&here.scales[i], true);
	}
	q.rowwise = q.rowwise ? &codes[0] : NULL;
	q.rowwise_scale_inv = q.rowwise ? &scales[0] : NULL;
	q.columnwise = q.columnwise ? &codes[1] : NULL;
	q.columnwise_scale_inv = q.columnwise ? &scales[1] : NULL;
	assert_int_equal(fp8conv_quantize(context, recipe, s->role, &x, &here.q, NULL), 0);
	if (fp8conv_quantize(context, recipe, s->role, &on_device, &q, &error))
		fail_msg("%s: %s", s->recipe, error.message);
	for (int i = 0; i < 2; i++) {
		same(&codes[i], &here.codes[i], s->recipe);
		same(&scales[i], &here.scales[i], s->recipe);
	}
	if (s->copies != 3)
		dequantizing_equals(context, &here, &q, s);
	if (s->copies == 1 && scales[0].dtype == FP8CONV_F32)
		dequantizing_halves_equals(context, &here, &q, s);
	drop();
	both_release(&here);
	free(x.data);
}

static void quantizing_writes_the_bytes_of_the_cpu(void **state)
{
	static const char *const names[] = { "blockwise", "mxfp8", "channelwise", "current" };
	struct fp8conv_context *context = *state;

	for (size_t r = 0; r < 4; r++)
		for (int layout = FP8CONV_COMPACT; layout <= FP8CONV_SWIZZLED; layout++)
			for (int copies = 1; copies <= 3; copies++)
				for (int role = FP8CONV_X; role <= FP8CONV_W; role++) {
					check(context,
					      &(struct shape){ names[r], FP8CONV_BF16, role, layout,
							       copies, 1, 200, 144 });
					check(context,
					      &(struct shape){ names[r], FP8CONV_F32, role, layout,
							       copies, 3, 128, 131 });
					check(context,
					      &(struct shape){ names[r], FP8CONV_BF16, role, layout,
							       copies, 2, 33, 256 });
				}
}

static void amaxes_are_written_on_the_device(void **state)
{
	struct fp8conv_tensor x = tensor(NULL, FP8CONV_BF16, 65, 130), there, amax;
	float here[3], got[3];

	x.batch = 3;
	fill(&x);
	there = moved(&x, true);
	amax = tensor(here, FP8CONV_F32, 1, 3);
	amax.bytes = sizeof here;
	amax = moved(&amax, false);
	assert_int_equal(fp8conv_amax(*state, &x, here, NULL), 0);
	assert_int_equal(fp8conv_amax(*state, &there, amax.data, NULL), 0);
	fetch(got, &amax);
	assert_memory_equal(got, here, sizeof here);
	drop();
	free(x.data);
}

/* The scale of a slot and its amax, by both. */
static void states_take_tensors_of_the_device(void **state)
{
	const struct fp8conv_recipe *recipe = recipe_of(*state, "delayed", NULL);
	struct fp8conv_tensor x = tensor(NULL, FP8CONV_BF16, 96, 80), at[2], codes[2], scales[2];
	struct fp8conv_history h = { .size = sizeof h };
	float amax[2][1024 * 3], scale[3] = { 2, 4, 8 };
	struct shape s = { "delayed", FP8CONV_BF16, FP8CONV_X, FP8CONV_COMPACT, 1, 1, 96, 80 };
	struct both b;

	x.batch = 1;
	fill(&x);
	at[0] = x;
	at[1] = moved(&x, true);
	stack_init(&b, recipe, &s);
	for (int i = 0; i < 2; i++) {
		struct fp8conv_quantized q = b.q;
		struct fp8conv_state *slots;

		codes[i] = i ? moved(&b.codes[0], true) : b.codes[0];
		scales[i] = i ? moved(&b.scales[0], true) : b.scales[0];
		q.rowwise = &codes[i];
		q.rowwise_scale_inv = &scales[i];
		assert_int_equal(
			fp8conv_state_create(*state, recipe, FP8CONV_FORWARD, 1, &slots, NULL), 0);
		assert_int_equal(fp8conv_history_get(slots, &h, NULL), 0);
		assert_true(h.length * h.n_slots <= 1024 * 3);
		h.amax = NULL;
		h.scale = scale;
		assert_int_equal(fp8conv_history_set(slots, &h, NULL), 0);
		assert_int_equal(fp8conv_state_quantize(slots, 0, &at[i], &q, NULL), 0);
		assert_int_equal(fp8conv_state_quantize(slots, 1, &at[i], NULL, NULL), 0);
		h.amax = amax[i];
		h.scale = NULL;
		assert_int_equal(fp8conv_history_get(slots, &h, NULL), 0);
		h.amax = NULL;
		fp8conv_state_destroy(slots);
	}
	same(&codes[1], &codes[0], "delayed");
	same(&scales[1], &scales[0], "delayed");
	assert_true(amax[0][0] > 0 && amax[0][1] > 0);
	assert_memory_equal(amax[0], amax[1], 3 * sizeof(float));
	drop();
	both_release(&b);
	free(x.data);
}

/* Memory for the outputs of a tensor, on the CPU and on the device. */
struct outputs {
	struct fp8conv_tensor here[64], there[64];
	void *at_here[64], *at_there[64];
};

static void outputs_init(struct outputs *o, const struct fp8conv_entry *entry, bool by_columns)
{
	for (size_t k = 0; k < entry->n_outputs; k++) {
		const struct fp8conv_item *item = &entry->outputs[k];
		size_t n = item_size(item);

		if (by_columns && !strcmp(item->dtype, "F32") && item->n_dims > 1) {
			size_t rows = item->shape[item->n_dims - 2];

			n = n / rows * ((rows + 3) / 4 * 4);
		}
		o->here[k] = tensor(memset(malloc(n + 1), 0xA5, n + 1), FP8CONV_E8M0, 1, n);
		o->here[k].bytes = n;
		o->there[k] = moved(&o->here[k], true);
		o->at_here[k] = o->here[k].data;
		o->at_there[k] = o->there[k].data;
	}
}

/* Converts tensor i and those that it needs on the CPU and on the device, where `before` bytes come
 * before each. */
static void plan_tensor_equals(struct fp8conv_plan *plan, const struct held *held, size_t i,
			       int by_columns, size_t before, bool by_kernels)
{
	struct fp8conv_conversion here[64], there[64];
	struct fp8conv_entry entry = { .size = sizeof entry };
	struct fp8conv_error error = { 0 };
	struct outputs o;
	size_t copied;

	assert_int_equal(fp8conv_plan_entry(plan, i, &entry, NULL), 0);
	outputs_init(&o, &entry, by_columns);
	for (size_t k = 0; k < entry.n_needed; k++) {
		size_t n = entry.needed[k], size = item_size(&held->items[n]);
		struct fp8conv_tensor x = tensor(malloc(before + size), FP8CONV_E8M0, 1, size);

		memcpy((char *)x.data + before, held->data[n], size);
		x.bytes = before + size;
		here[k] = (struct fp8conv_conversion){ .size = sizeof *here,
						       .tensor = n,
						       .data = held->data[n],
						       .bytes = size,
						       .scales_by_columns = by_columns };
		there[k] = here[k];
		there[k].data = (char *)moved(&x, true).data + before;
		there[k].device = FP8CONV_CUDA(0);
		free(x.data);
		if (n == i) {
			here[k].outputs = o.at_here;
			there[k].outputs = o.at_there;
		}
	}
	assert_int_equal(fp8conv_plan_apply(plan, here, entry.n_needed, NULL), 0);
	copied = copied_out();
	if (fp8conv_plan_apply(plan, there, entry.n_needed, &error))
		fail_msg("%s: %s", held->items[i].name, error.message);
	/* kernels read the weights where they are: only the count of NaN comes out */
	if (by_kernels && !before && copied_out() - copied > sizeof(uint64_t))
		fail_msg("%s: %zu bytes went through the host", held->items[i].name,
			 copied_out() - copied);
	for (size_t k = 0; k < entry.n_outputs; k++) {
		same(&o.there[k], &o.here[k], entry.outputs[k].name);
		free(o.here[k].data);
	}
	drop();
}

/* by_kernels: of an aligned tensor nothing goes through the host. */
static void plan_equals(struct fp8conv_context *context, const char *model, const char *options,
			bool by_kernels)
{
	struct fp8conv_error error;
	struct fp8conv_plan *plan;
	struct held held;

	held_open(&held, model);
	for (size_t i = 0; i < held.model.n_tensors; i++)
		held.items[i].data = held.data[i];
	if (fp8conv_plan_create(context, &held.model, options, &plan, &error))
		fail_msg("%s: %s", model, error.message);
	for (size_t i = 0; i < held.model.n_tensors; i++)
		plan_tensor_equals(plan, &held, i, i % 2, i % 5 == 4, by_kernels);
	fp8conv_plan_destroy(plan);
	held_close(&held);
}

static void plans_write_the_bytes_of_the_cpu(void **state)
{
	static const char *const models[] = { "tiny-llama", "tiny-moe/fused",
					      "tiny-moe/fused-transposed", "odd-shapes" };
	static const char *const options[] = { "{\"recipe\": \"blockwise\", \"ragged\": true}",
					       "{\"recipe\": \"mxfp8\", \"format\": \"modelopt\"}",
					       "{\"recipe\": \"current\", \"target\": \"vllm\"}",
					       "{\"recipe\": \"channelwise\"}" };
	char path[600], coded[600], *scratch = scratch_new();
	const char *argv[] = { "fp8conv", "quantize", path, "-o", coded, "-q" };
	struct fp8conv_run run = { .size = sizeof run };

	for (size_t m = 0; m < sizeof models / sizeof *models; m++)
		for (size_t k = 0; k < sizeof options / sizeof *options; k++) {
			snprintf(path, sizeof path, "sample_checkpoints/%s", models[m]);
			plan_equals(*state, path, options[k], !strstr(path, "transposed"));
		}
	snprintf(path, sizeof path, "sample_checkpoints/tiny-llama");
	snprintf(coded, sizeof coded, "%s/fp8", scratch);
	assert_int_equal(fp8conv_run(6, argv, &run, NULL), 0);
	fp8conv_free(run.output);
	plan_equals(*state, coded, "{\"recipe\": \"current\", \"requantize\": true}", false);
	snprintf(path, sizeof path, "rm -rf '%s'", scratch);
	assert_int_equal(system(path), 0);
	free(scratch);
}

/* The message of the CPU, which names the value. */
static void plans_refuse_nan(void **state)
{
	static const uint64_t shape[] = { 128, 256 };
	struct fp8conv_item item = { sizeof item, "a.b_proj.weight", "BF16", 2, shape, NULL };
	struct fp8conv_model model = { sizeof model, NULL, 1, &item };
	struct fp8conv_tensor x = tensor(NULL, FP8CONV_BF16, 128, 256);
	struct fp8conv_conversion conversion = { .size = sizeof conversion };
	struct fp8conv_entry entry = { .size = sizeof entry };
	struct fp8conv_error error;
	struct fp8conv_plan *plan;
	struct outputs o;

	x.batch = 1;
	fill(&x);
	((uint16_t *)x.data)[256 * 3 + 7] = 0x7FC0;
	assert_int_equal(fp8conv_plan_create(*state, &model, NULL, &plan, NULL), 0);
	assert_int_equal(fp8conv_plan_entry(plan, 0, &entry, NULL), 0);
	outputs_init(&o, &entry, false);
	conversion.data = moved(&x, true).data;
	conversion.device = FP8CONV_CUDA(0);
	conversion.outputs = o.at_there;
	assert_int_equal(fp8conv_plan_apply(plan, &conversion, 1, &error), FP8CONV_INPUT);
	assert_non_null(strstr(error.message, "is nan at [3, 7]"));
	conversion.device = -1;
	assert_int_equal(fp8conv_plan_apply(plan, &conversion, 1, &error), FP8CONV_USAGE);
	fp8conv_plan_destroy(plan);
	for (size_t k = 0; k < entry.n_outputs; k++)
		free(o.here[k].data);
	drop();
	free(x.data);
}

static void refusals_say_what_is_where(void **state)
{
	const struct fp8conv_recipe *recipe = recipe_of(*state, "blockwise", NULL);
	struct shape s = { "blockwise", FP8CONV_BF16, FP8CONV_X, FP8CONV_COMPACT, 3, 1, 64, 64 };
	struct fp8conv_tensor host = tensor(NULL, FP8CONV_BF16, 64, 64), x;
	struct fp8conv_error error;
	struct both b;

	host.batch = 1;
	fill(&host);
	x = moved(&host, true);
	stack_init(&b, recipe, &s);
	assert_int_equal(fp8conv_quantize(*state, recipe, FP8CONV_X, &x, &b.q, &error),
			 FP8CONV_USAGE);
	assert_string_equal(error.message, "rowwise is on the CPU, expected CUDA device 0");
	x.device = FP8CONV_CUDA(60);
	assert_int_equal(fp8conv_quantize(*state, recipe, FP8CONV_X, &x, &b.q, &error),
			 FP8CONV_USAGE);
	assert_non_null(strstr(error.message, "GPU 60 is none of the "));
	drop();
	both_release(&b);
	free(host.data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quantizing_writes_the_bytes_of_the_cpu),
		cmocka_unit_test(amaxes_are_written_on_the_device),
		cmocka_unit_test(states_take_tensors_of_the_device),
		cmocka_unit_test(plans_write_the_bytes_of_the_cpu),
		cmocka_unit_test(plans_refuse_nan),
		cmocka_unit_test(refusals_say_what_is_where),
	};
	struct err err = { 0 };
	const struct backend *backend = backend_select("cuda", &err);
	struct fp8conv_context *context = open_context(NULL, 2);
	int failed;

	if (!backend) {
		skipped_print();
		fp8conv_context_destroy(context);
		return 0;
	}
	device.ops = backend->executor;
	if (device.ops->open(&device.executor, 0, &err) ||
	    device.ops->stream_new(&device.stream, device.executor, &err))
		fail_msg("%s", err.message);
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		((struct CMUnitTest *)tests)[i].initial_state = context;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	fp8conv_context_destroy(context);
	device.ops->stream_free(device.stream);
	device.ops->close(device.executor);
	return failed;
}
