/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan of the library.  The input: options as JSON, config.json, a line "NAME TYPE DIM DIM..."
 * for each tensor, and the pattern of their data, with NUL bytes between.
 *
 * What must hold: a refusal is one line; what was planned is converted, tensor by tensor and in any
 * order, or refused for its values; the same again gives the same bytes; and nothing is written
 * behind an output.
 */
#include <stdlib.h>
#include <string.h>

#include <fp8conv.h>

#include "base/mem.h"
#include "num/dtype.h"
#include "tests/fuzz/fuzz.h"

#define MAX_TENSORS 64
#define MAX_DIMS    4
#define MAX_BYTES   ((size_t)1 << 20)
#define GUARD	    0xA5

struct tensors {
	size_t n;
	struct fp8conv_item items[MAX_TENSORS];
	uint64_t shapes[MAX_TENSORS][MAX_DIMS];
	char *texts;
	void *data[MAX_TENSORS];
};

/* Returns the bytes of a tensor, or MAX_BYTES where it has more. */
static size_t item_size(const struct fp8conv_item *item)
{
	enum dtype dtype;
	size_t n;

	if (!dtype_from_name(&dtype, item->dtype, strlen(item->dtype)))
		return 0;
	n = dtype_bits(dtype);
	for (size_t d = 0; d < item->n_dims; d++)
		if (__builtin_mul_overflow(n, item->shape[d], &n))
			return MAX_BYTES;
	return n / 8 < MAX_BYTES ? n / 8 : MAX_BYTES;
}

static void read_line(struct tensors *tensors, char *line, struct json_text pattern)
{
	struct fp8conv_item *item = &tensors->items[tensors->n];
	uint64_t *shape = tensors->shapes[tensors->n];
	char *rest, *word;
	size_t size;

	*item = (struct fp8conv_item){ .size = sizeof *item,
				       .name = strtok_r(line, " ", &rest),
				       .dtype = strtok_r(NULL, " ", &rest),
				       .shape = shape };
	if (!item->dtype)
		return;
	while (item->n_dims < MAX_DIMS && (word = strtok_r(NULL, " ", &rest)))
		shape[item->n_dims++] = strtoull(word, NULL, 10);
	size = item_size(item);
	if (size == MAX_BYTES) {
		tensors->n++;
		return;
	}
	tensors->data[tensors->n++] = xmalloc(size + 1);
	for (size_t i = 0; i < size; i++)
		((char *)tensors->data[tensors->n - 1])[i] =
			pattern.len ? pattern.data[i % pattern.len] : 0;
}

/* Applies the plan to a tensor with what it needs.  Returns 0, or the code of the refusal. */
static int convert(struct fp8conv_plan *plan, const struct tensors *tensors, size_t i,
		   const struct fp8conv_entry *entry, void **outputs)
{
	struct fp8conv_conversion list[MAX_TENSORS];
	struct fp8conv_error error;
	int code;

	for (size_t k = 0; k < entry->n_needed; k++)
		list[k] = (struct fp8conv_conversion){ .size = sizeof list[k],
						       .tensor = entry->needed[k],
						       .data = tensors->data[entry->needed[k]],
						       .outputs = entry->needed[k] == i ? outputs
											: NULL };
	code = fp8conv_plan_apply(plan, list, entry->n_needed, &error);
	FUZZ_CHECK(code == FP8CONV_OK || code == FP8CONV_INPUT || code == FP8CONV_USAGE);
	FUZZ_CHECK(!strchr(error.message, '\n'));
	return code;
}

static void check_tensor(struct fp8conv_plan *plan, const struct tensors *tensors, size_t i)
{
	struct fp8conv_entry entry = { .size = sizeof entry };
	uint8_t **first, **again;
	int code;

	FUZZ_CHECK(!fp8conv_plan_entry(plan, i, &entry, NULL));
	FUZZ_CHECK(entry.n_needed <= tensors->n);
	first = xcalloc(entry.n_outputs, sizeof *first);
	again = xcalloc(entry.n_outputs, sizeof *again);
	for (size_t k = 0; k < entry.n_outputs; k++) {
		size_t n = item_size(&entry.outputs[k]);

		if (n == MAX_BYTES)
			goto out;
		first[k] = xcalloc(n + 1, 1);
		again[k] = xcalloc(n + 1, 1);
		first[k][n] = again[k][n] = GUARD;
	}
	code = convert(plan, tensors, i, &entry, (void **)first);
	FUZZ_CHECK(convert(plan, tensors, i, &entry, (void **)again) == code);
	for (size_t k = 0; k < entry.n_outputs; k++) {
		size_t n = item_size(&entry.outputs[k]);

		FUZZ_CHECK(first[k][n] == GUARD);
		FUZZ_CHECK(code || !memcmp(first[k], again[k], n));
	}
out:
	for (size_t k = 0; k < entry.n_outputs; k++) {
		free(first[k]);
		free(again[k]);
	}
	free(first);
	free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct json_text options = fuzz_part(&data, &size), config = fuzz_part(&data, &size),
			 lines = fuzz_part(&data, &size);
	struct tensors tensors = { .texts = xstrndup(lines.data, lines.len) };
	char *option_text = xstrndup(options.data, options.len);
	char *config_text = xstrndup(config.data, config.len);
	struct fp8conv_options threads = { .size = sizeof threads, .threads = 1 };
	struct fp8conv_model model = { sizeof model, config.len ? config_text : NULL, 0,
				       tensors.items };
	struct fp8conv_context *context;
	struct fp8conv_plan *plan;
	struct fp8conv_error error;
	char *rest = tensors.texts, *line;

	while (tensors.n < MAX_TENSORS && (line = strsep(&rest, "\n")))
		read_line(&tensors, line, (struct json_text){ (const char *)data, size });
	model.n_tensors = tensors.n;
	FUZZ_CHECK(!fp8conv_context_create(&threads, &context, NULL));
	if (fp8conv_plan_create(context, &model, options.len ? option_text : NULL, &plan, &error)) {
		FUZZ_CHECK(!strchr(error.message, '\n'));
	} else {
		for (size_t i = tensors.n; i-- > 0;)
			check_tensor(plan, &tensors, i);
		fp8conv_plan_destroy(plan);
	}
	fp8conv_context_destroy(context);
	for (size_t i = 0; i < tensors.n; i++)
		free(tensors.data[i]);
	free(tensors.texts);
	free(option_text);
	free(config_text);
	return 0;
}
