/* SPDX-License-Identifier: Apache-2.0 */
#include "torch/te_state.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/io.h"
#include "torch/archive.h"

#define HISTORY "amax_history_fwd"
#define SCALE	"scale_fwd"

struct te_reader {
	struct te_state *state;
	const struct pickle_text *text;
	struct err *err;
};

static int bad(const struct te_reader *reader, const char *name, const char *what)
{
	return err_set(reader->err, ERR_INPUT, "'%s' of state '%s' %s", name, reader->text->name,
		       what);
}

/* Elements of F32 in memory, with the strides of a tensor in bytes. */
struct te_tensor {
	const unsigned char *data;
	int n_dims;
	uint64_t shape[2], strides[2];
};

/* Copies a tensor of one or two dimensions; NULL with an error where a value is no magnitude. */
static float *copy_values(const struct te_reader *reader, const char *name,
			  const struct te_tensor *tensor)
{
	uint64_t rows = tensor->n_dims > 1 ? tensor->shape[0] : 1;
	uint64_t columns = tensor->shape[tensor->n_dims - 1];
	uint64_t row = tensor->n_dims > 1 ? tensor->strides[0] : 0;
	uint64_t column = tensor->strides[tensor->n_dims - 1];
	float *values = arena_alloc(&reader->state->arena, rows * columns * sizeof *values);

	for (uint64_t i = 0; i < rows; i++) {
		for (uint64_t j = 0; j < columns; j++) {
			float *value = &values[i * columns + j];

			memcpy(value, tensor->data + i * row + j * column, sizeof *value);
			if (!(*value >= 0)) {
				bad(reader, name, "has a value that is NaN or negative");
				return NULL;
			}
		}
	}
	return values;
}

/* Sets the state's table from its two tensors, which may be absent together. */
static int set_tables(struct te_reader *reader, const struct te_tensor *history,
		      const struct te_tensor *scale)
{
	struct te_state *state = reader->state;

	if (!history->data && !scale->data)
		return 0;
	if (!history->data || history->n_dims != 2)
		return bad(reader, HISTORY, "is not a table of F32");
	if (history->shape[1] &&
	    history->shape[0] > reader->text->n / sizeof(float) / history->shape[1])
		return bad(reader, HISTORY, "has more elements than bytes"); /* by strides of 0 */
	if (!scale->data || scale->n_dims != 1 || scale->shape[0] != history->shape[1])
		return bad(reader, SCALE, "has not a scale for each column of " HISTORY);
	state->history = copy_values(reader, HISTORY, history);
	state->scale = state->history ? copy_values(reader, SCALE, scale) : NULL;
	if (!state->scale)
		return -1;
	state->n_rows = (size_t)history->shape[0];
	state->n_columns = (size_t)history->shape[1];
	return 0;
}

/* --- a pickle whose storages are bytes --- */

static int read_next(const struct te_reader *reader, struct pickle *pickle,
		     struct pickle_text *rest)
{
	if (pickle_read(pickle, rest, archive_knows, reader->err))
		return -1;
	rest->data += pickle->n;
	rest->n -= pickle->n;
	return 0;
}

/* Is it the id of a storage of n floats? */
static bool is_storage(const struct pickle_value *value, uint64_t *n)
{
	const struct pickle_value *id = value->kind == PICKLE_PERSISTENT ? value->items[0] : NULL;
	const struct pickle_value *type = id ? pickle_argument(id, 1) : NULL;
	const struct pickle_value *size = id ? pickle_argument(id, 4) : NULL;

	if (!type || type->kind != PICKLE_GLOBAL || strcmp(type->text, "torch FloatStorage") != 0 ||
	    !size || size->kind != PICKLE_INT || size->number < 0)
		return false;
	*n = (uint64_t)size->number;
	return true;
}

/* Finds the floats of a storage: five pickles (magic, version, system, id, keys), the number of
 * elements, and the elements. */
static int find_floats(struct te_reader *reader, const char *name, struct pickle_text rest,
		       const unsigned char **data, uint64_t *n)
{
	bool found = false;
	uint64_t stated = 0;

	for (int i = 0; i < 5; i++) {
		struct pickle pickle = { 0 };
		int rc = read_next(reader, &pickle, &rest);

		if (!rc && i == 3)
			found = is_storage(pickle.top, n);
		pickle_release(&pickle);
		if (rc)
			return -1;
	}
	if (rest.n >= sizeof stated)
		memcpy(&stated, rest.data, sizeof stated);
	if (!found || rest.n < sizeof stated || le64toh(stated) != *n ||
	    (rest.n - sizeof stated) / sizeof(float) < *n)
		return bad(reader, name, "has no storage of F32 as torch writes it");
	*data = rest.data + sizeof stated;
	return 0;
}

/* Reads a tensor; zeroed where value is NULL. */
static int read_tensor(struct te_reader *reader, const char *name, const struct pickle_value *value,
		       struct te_tensor *tensor)
{
	static const char load[] = "torch.storage _load_from_bytes";
	struct pickle_text bytes = *reader->text;
	const struct pickle_value *argument = NULL;
	struct tensor_call call = { 0 };
	uint64_t n = 0, last;

	*tensor = (struct te_tensor){ 0 };
	if (!value)
		return 0;
	if (archive_read_call(value, &call) && call.n_dims >= 1 && call.n_dims <= 2 &&
	    pickle_is_call(call.storage, load))
		argument = pickle_argument(call.storage, 0);
	bytes.data = argument ? pickle_bytes(argument, &reader->state->arena, &bytes.n) : NULL;
	if (!bytes.data)
		return bad(reader, name, "is not a tensor as TransformerEngine saves it");
	if (find_floats(reader, name, bytes, &tensor->data, &n))
		return -1;
	last = call.offset;
	tensor->n_dims = call.n_dims;
	for (int i = 0; i < call.n_dims; i++) {
		uint64_t step;

		if (!call.shape[i] ||
		    __builtin_mul_overflow(call.shape[i] - 1, call.strides[i], &step) ||
		    __builtin_add_overflow(last, step, &last))
			return bad(reader, name, "has an impossible shape");
		tensor->shape[i] = call.shape[i];
		tensor->strides[i] = call.strides[i] * sizeof(float);
	}
	if (last >= n)
		return bad(reader, name, "ends after its storage");
	tensor->data += call.offset * sizeof(float);
	return 0;
}

/* Takes what the recipe says of scales: its margin, and the largest code of Format(forward,
 * backward). */
static void read_recipe(struct te_state *state, const struct pickle_value *recipe)
{
	const struct pickle_value *margin = recipe ? pickle_get(recipe->state, "margin") : NULL;
	const struct pickle_value *format = recipe ? pickle_get(recipe->state, "fp8_format") : NULL;
	const struct pickle_value *maxima = format ? pickle_argument(format, 0) : NULL;
	const struct pickle_value *max = maxima ? pickle_argument(maxima, 0) : NULL;

	if (margin && margin->kind == PICKLE_INT && margin->number >= 0 && margin->number < 128)
		state->margin = (int)margin->number;
	if (max && max->kind == PICKLE_INT && (max->number == 448 || max->number == 57344))
		state->max = (float)max->number;
}

static int read_pickle(struct te_reader *reader)
{
	struct pickle pickle = { 0 };
	struct te_tensor history, scale;
	const struct pickle_value *dict, *inner;
	int rc = pickle_read(&pickle, reader->text, archive_knows, reader->err);

	if (!rc) {
		dict = pickle.top;
		inner = pickle_get(dict, "forward"); /* of a fusible operation */
		dict = inner ? inner : dict;
		read_recipe(reader->state, pickle_get(dict, "recipe"));
		rc = read_tensor(reader, HISTORY, pickle_get(dict, HISTORY), &history) ||
				     read_tensor(reader, SCALE, pickle_get(dict, SCALE), &scale)
			     ? -1
			     : set_tables(reader, &history, &scale);
	}
	pickle_release(&pickle);
	return rc;
}

/* --- a file of torch.save() --- */

struct te_memory {
	struct io io;
	const struct pickle_text *text;
};

static ssize_t memory_pread(const struct io *io, int fd, void *data, size_t n, off_t offset)
{
	const struct pickle_text *text = ((const struct te_memory *)io)->text;

	(void)fd;
	if (offset < 0 || (uint64_t)offset >= text->n)
		return 0;
	if (n > text->n - (size_t)offset)
		n = text->n - (size_t)offset;
	memcpy(data, text->data + offset, n);
	return (ssize_t)n;
}

/* Finds a tensor of F32 in the archive; zeroed: there is none. */
static void find_tensor(const struct te_reader *reader, const struct archive *archive,
			const char *name, struct te_tensor *found)
{
	*found = (struct te_tensor){ 0 };
	for (size_t i = 0; i < archive->n; i++) {
		const struct torch_tensor *tensor = &archive->tensors[i];

		if (strcmp(tensor->name, name) != 0 || tensor->dtype != DT_F32 ||
		    tensor->n_dims < 1 || tensor->n_dims > 2)
			continue;
		*found = (struct te_tensor){ .data = reader->text->data + tensor->at,
					     .n_dims = tensor->n_dims };
		memcpy(found->shape, tensor->shape, (size_t)tensor->n_dims * sizeof(uint64_t));
		memcpy(found->strides, tensor->strides, (size_t)tensor->n_dims * sizeof(uint64_t));
	}
}

static int read_archive(struct te_reader *reader)
{
	const struct te_memory memory = { .io.pread = memory_pread, .text = reader->text };
	const struct file file = { &memory.io, -1, reader->text->name };
	struct te_tensor history, scale;
	struct archive archive;
	int rc = archive_read(&archive, &(struct archive_place){ &file, 0, reader->text->n },
			      reader->err);

	if (!rc) {
		find_tensor(reader, &archive, HISTORY, &history);
		find_tensor(reader, &archive, SCALE, &scale);
		rc = set_tables(reader, &history, &scale);
	}
	archive_release(&archive);
	return rc;
}

int te_state_read(struct te_state *state, const struct pickle_text *text, struct err *err)
{
	struct te_reader reader = { state, text, err };

	*state = (struct te_state){ 0 };
	if (!text->n)
		return 0;
	if (text->n > 4 && !memcmp(text->data, "PK\3\4", 4))
		return read_archive(&reader);
	return read_pickle(&reader);
}

void te_state_release(struct te_state *state)
{
	arena_release(&state->arena);
	*state = (struct te_state){ 0 };
}
