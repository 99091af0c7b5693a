/* SPDX-License-Identifier: Apache-2.0 */
#include "torch/archive.h"

#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "base/sort.h"
#include "base/text.h"
#include "base/words.h"
#include "torch/zip.h"

#define REBUILD	   "torch._utils _rebuild_tensor_v2"
#define REBUILD_V3 "torch._utils _rebuild_tensor_v3"
#define PARAMETER  "torch._utils _rebuild_parameter"
#define ORDERED	   "collections OrderedDict"
#define BYTES_IO   "_io BytesIO"

/* Types as torch names them, of a storage and of a tensor. */
static const struct {
	const char *storage, *name;
	enum dtype dtype;
} types[] = {
	{ "torch FloatStorage", "torch float32", DT_F32 },
	{ "torch BFloat16Storage", "torch bfloat16", DT_BF16 },
	{ "torch HalfStorage", "torch float16", DT_F16 },
	{ "torch DoubleStorage", "torch float64", DT_F64 },
	{ "torch LongStorage", "torch int64", DT_I64 },
	{ "torch IntStorage", "torch int32", DT_I32 },
	{ "torch ShortStorage", "torch int16", DT_I16 },
	{ "torch CharStorage", "torch int8", DT_I8 },
	{ "torch ByteStorage", "torch uint8", DT_U8 },
	{ "torch BoolStorage", "torch bool", DT_BOOL },
	{ "torch ComplexFloatStorage", "torch complex64", DT_C64 },
	{ "", "torch uint16", DT_U16 },
	{ "", "torch uint32", DT_U32 },
	{ "", "torch uint64", DT_U64 },
	{ "", "torch float8_e4m3fn", DT_F8_E4M3 },
	{ "", "torch float8_e5m2", DT_F8_E5M2 },
	{ "", "torch float8_e4m3fnuz", DT_F8_E4M3FNUZ },
	{ "", "torch float8_e5m2fnuz", DT_F8_E5M2FNUZ },
	{ "", "torch float8_e8m0fnu", DT_F8_E8M0 },
};

bool archive_dtype(const char *global, enum dtype *dtype)
{
	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		if (!strcmp(global, types[i].storage) || !strcmp(global, types[i].name)) {
			*dtype = types[i].dtype;
			return true;
		}
	}
	return false;
}

/* What files of weights have, and values that trainers save beside them. */
bool archive_knows(const char *global)
{
	static const char *const known[] = {
		REBUILD,
		REBUILD_V3,
		PARAMETER,
		ORDERED,
		BYTES_IO,
		"torch Size",
		"torch device",
		"_codecs encode",
		"torch.storage UntypedStorage",
		"torch.storage _load_from_bytes",
	};
	static const char recipes[] = "transformer_engine.common.recipe ";
	enum dtype ignored;

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(global, known[i]))
			return true;
	return !strncmp(global, recipes, strlen(recipes)) || archive_dtype(global, &ignored);
}

bool archive_is_state(const char *name)
{
	return !strcmp(text_after(name, '.'), "_extra_state");
}

bool archive_is_model(const char *key)
{
	return words_find("model|state_dict|model_state_dict|module", key) >= 0;
}

bool archive_numbers(const struct pickle_value *tuple, uint64_t *numbers, int *n)
{
	if (tuple && pickle_is_call(tuple, "torch Size"))
		tuple = pickle_argument(tuple, 0);
	if (!tuple || tuple->kind != PICKLE_TUPLE || tuple->n > TORCH_MAX_DIMS)
		return false;
	for (size_t i = 0; i < tuple->n; i++) {
		if (tuple->items[i]->kind != PICKLE_INT || tuple->items[i]->number < 0)
			return false;
		numbers[i] = (uint64_t)tuple->items[i]->number;
	}
	*n = (int)tuple->n;
	return true;
}

/* --- a tensor --- */

struct archive_reader {
	struct archive *archive;
	const struct file *file;
	struct zip zip;
	char *prefix; /* "pytorch_model/", of all members */
	size_t left;  /* entries of dicts, and bytes of states, that may still be read: a pickle
			 can name one twice */
};

static int bad_tensor(const struct archive_reader *reader, const char *name, const char *what,
		      struct err *err)
{
	return err_set(err, ERR_INPUT, "tensor '%s' in '%s' %s", name, reader->file->name, what);
}

/* Finds the member of a storage.  *n becomes its bytes. */
static int find_member(const struct archive_reader *reader, const char *key,
		       struct torch_tensor *tensor, uint64_t *n, struct err *err)
{
	char *name = xasprintf("%sdata/%s", reader->prefix, key);
	const struct zip_member *member = zip_find(&reader->zip, name);
	int rc = -1;

	if (member) {
		*n = member->size;
		rc = zip_locate(&reader->zip, member, &tensor->at, err);
	} else {
		err_set(err, ERR_INPUT, "tensor '%s' in '%s': no member '%s'", tensor->name,
			reader->file->name, name);
	}
	free(name);
	return rc;
}

/* Finds the storage ('storage', type, key, location, n).  *n becomes its bytes. */
static int find_storage(const struct archive_reader *reader, const struct pickle_value *value,
			struct torch_tensor *tensor, uint64_t *n, struct err *err)
{
	const struct pickle_value *id = value->kind == PICKLE_PERSISTENT ? value->items[0] : NULL;
	uint64_t element = 1;
	bool untyped;

	if (!id || id->kind != PICKLE_TUPLE || id->n != 5 || id->items[0]->kind != PICKLE_TEXT ||
	    strcmp(id->items[0]->text, "storage") != 0 || id->items[1]->kind != PICKLE_GLOBAL ||
	    id->items[2]->kind != PICKLE_TEXT || id->items[4]->kind != PICKLE_INT)
		return bad_tensor(reader, tensor->name, "has no storage as torch.save() writes it",
				  err);
	untyped = !strcmp(id->items[1]->text, "torch.storage UntypedStorage");
	if (!untyped && !archive_dtype(id->items[1]->text, &tensor->dtype))
		return bad_tensor(reader, tensor->name, "has a storage of an unknown type", err);
	if (find_member(reader, id->items[2]->text, tensor, n, err))
		return -1;
	if (!untyped)
		element = dtype_bits(tensor->dtype) / 8;
	if (id->items[4]->number < 0 || (uint64_t)id->items[4]->number != *n / element ||
	    *n % element)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s': its storage has %" PRIu64 " bytes, but states "
			       "%" PRId64 " elements of %s",
			       tensor->name, reader->file->name, *n, id->items[4]->number,
			       untyped ? "1 byte" : dtype_name(tensor->dtype));
	return 0;
}

/* Sets the place and the strides of a tensor in a storage of n bytes. */
static int set_place(const struct archive_reader *reader, struct torch_tensor *tensor,
		     uint64_t offset, uint64_t *strides, uint64_t n, struct err *err)
{
	uint64_t size = dtype_bits(tensor->dtype) / 8, last = offset, bits = 8 * size;
	bool is_empty = false, outside = false;

	for (int i = 0; i < tensor->n_dims; i++)
		is_empty |= !tensor->shape[i];
	for (int i = 0; i < tensor->n_dims && !is_empty; i++) {
		uint64_t step;

		outside |= __builtin_mul_overflow(tensor->shape[i] - 1, strides[i], &step) ||
			   __builtin_add_overflow(last, step, &last) ||
			   __builtin_mul_overflow(bits, tensor->shape[i], &bits);
		strides[i] = tensor->shape[i] > 1 ? strides[i] * size : 0;
	}
	if (outside)
		return err_set(
			err, ERR_INPUT,
			"tensor '%s' in '%s': its shape and strides reach beyond 2^64 elements "
			"of its storage, which has %" PRIu64,
			tensor->name, reader->file->name, n / size);
	if (!is_empty && last >= n / size)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' in '%s' ends at element %" PRIu64
			       " of its storage, which has %" PRIu64,
			       tensor->name, reader->file->name, last, n / size);
	if (!is_empty)
		tensor->at += offset * size;
	return 0;
}

static const uint64_t *copy_numbers(struct archive *archive, const uint64_t *numbers, int n)
{
	size_t size = (size_t)n * sizeof *numbers;

	return memcpy(arena_alloc(&archive->texts, size), numbers, size);
}

bool archive_read_call(const struct pickle_value *value, struct tensor_call *call)
{
	const struct pickle_value *offset;
	int n_strides;

	if (value && pickle_is_call(value, PARAMETER))
		value = pickle_argument(value, 0);
	if (!value || (!pickle_is_call(value, REBUILD) && !pickle_is_call(value, REBUILD_V3)))
		return false;
	call->storage = pickle_argument(value, 0);
	call->dtype = pickle_is_call(value, REBUILD_V3) ? pickle_argument(value, 6) : NULL;
	offset = pickle_argument(value, 1);
	if (!call->storage || !offset || offset->kind != PICKLE_INT || offset->number < 0)
		return false;
	call->offset = (uint64_t)offset->number;
	return archive_numbers(pickle_argument(value, 2), call->shape, &call->n_dims) &&
	       archive_numbers(pickle_argument(value, 3), call->strides, &n_strides) &&
	       n_strides == call->n_dims;
}

/* Adds the tensor of a call of torch's. */
static int add_tensor(struct archive_reader *reader, const char *name,
		      const struct pickle_value *value, struct err *err)
{
	struct archive *archive = reader->archive;
	struct torch_tensor tensor = { .dtype = N_DTYPES };
	struct tensor_call call = { 0 };
	uint64_t n = 0;

	tensor.name = arena_text(&archive->texts, name, strlen(name));
	if (!archive_read_call(value, &call))
		return bad_tensor(reader, name, "is not as torch.save() writes it", err);
	if (find_storage(reader, call.storage, &tensor, &n, err))
		return -1;
	if (call.dtype &&
	    (call.dtype->kind != PICKLE_GLOBAL || !archive_dtype(call.dtype->text, &tensor.dtype)))
		tensor.dtype = N_DTYPES;
	if (tensor.dtype == N_DTYPES)
		return bad_tensor(reader, name, "has an unknown type", err);
	tensor.n_dims = call.n_dims;
	tensor.shape = copy_numbers(archive, call.shape, call.n_dims);
	if (set_place(reader, &tensor, call.offset, call.strides, n, err))
		return -1;
	tensor.strides = copy_numbers(archive, call.strides, call.n_dims);
	ARRAY_GROW(archive->tensors, archive->n);
	archive->tensors[archive->n++] = tensor;
	return 0;
}

/* --- the state dict --- */

static bool is_tensor(const struct pickle_value *value)
{
	return pickle_is_call(value, REBUILD) || pickle_is_call(value, REBUILD_V3) ||
	       pickle_is_call(value, PARAMETER);
}

/* Returns the dict of a dict or an OrderedDict; NULL: it is none. */
static const struct pickle_value *dict_of(const struct pickle_value *value)
{
	static const struct pickle_value empty = { .kind = PICKLE_DICT };

	if (pickle_is_call(value, ORDERED))
		return value->more ? value->more : &empty;
	return value->kind == PICKLE_DICT ? value : NULL;
}

/* Adds an io.BytesIO, whose state is (bytes, position, attributes), if it has the name of one. */
static int add_state(struct archive_reader *reader, const struct pickle_value *key,
		     const struct pickle_value *value, struct err *err)
{
	struct archive *archive = reader->archive;
	const struct pickle_value *bytes = value->state ? pickle_argument(value->state, 0) : NULL;
	struct archive_state state = { 0 };

	if (key->kind != PICKLE_TEXT || !archive_is_state(key->text) ||
	    key->text[text_control(key->text)])
		return 0;
	state.name = arena_text(&archive->texts, key->text, key->n);
	state.bytes = bytes ? pickle_bytes(bytes, &archive->texts, &state.n) : NULL;
	if (!state.bytes)
		return bad_tensor(reader, key->text, "is an io.BytesIO without bytes", err);
	if (state.n > reader->left)
		return bad_tensor(reader, key->text, "has the bytes of other states", err);
	reader->left -= state.n;
	ARRAY_GROW(archive->states, archive->n_states);
	archive->states[archive->n_states++] = state;
	return 0;
}

/* Adds the tensors of a dict. */
static int add_dict(struct archive_reader *reader, const struct pickle_value *dict, struct err *err)
{
	for (size_t i = 0; i + 1 < dict->n; i += 2) {
		const struct pickle_value *key = dict->items[i], *value = dict->items[i + 1];

		if (!reader->left--)
			return bad_tensor(reader, "*", "has dicts in each other", err);
		if (pickle_is_call(value, BYTES_IO) && add_state(reader, key, value, err))
			return -1;
		if (!is_tensor(value))
			continue;
		if (key->kind != PICKLE_TEXT || !key->n || key->text[text_control(key->text)])
			return bad_tensor(reader, key->kind == PICKLE_TEXT ? key->text : "?",
					  "has an invalid name", err);
		if (add_tensor(reader, key->text, value, err))
			return -1;
	}
	return 0;
}

COMPARISON(compare_tensors, struct torch_tensor, strcmp(x->name, y->name))

static int add_all(struct archive_reader *reader, const struct pickle_value *top, struct err *err)
{
	const struct pickle_value *dict = dict_of(top), *inner;
	struct archive *archive = reader->archive;

	if (top->kind == PICKLE_NONE)
		return 0;
	if (!dict)
		return err_set(err, ERR_INPUT,
			       "'%s' has no dict of tensors: save the state_dict() of the model",
			       reader->file->name);
	if (add_dict(reader, dict, err))
		return -1;
	for (size_t i = 0; i + 1 < dict->n && !archive->n; i += 2) {
		inner = dict_of(dict->items[i + 1]);
		if (inner && dict->items[i]->kind == PICKLE_TEXT &&
		    archive_is_model(dict->items[i]->text) && add_dict(reader, inner, err))
			return -1;
	}
	if (!archive->n)
		return err_set(err, ERR_INPUT, "'%s' has no tensors in its dict",
			       reader->file->name);
	sort(archive->tensors, archive->n, sizeof *archive->tensors, compare_tensors);
	for (size_t i = 1; i < archive->n; i++)
		if (!compare_tensors(&archive->tensors[i - 1], &archive->tensors[i]))
			return bad_tensor(reader, archive->tensors[i].name, "occurs twice", err);
	return 0;
}

/* --- the archive --- */

/* Reads a member into memory. */
static int read_member(const struct archive_reader *reader, const struct zip_member *member,
		       unsigned char **data, struct err *err)
{
	uint64_t offset;

	if (member->size > PICKLE_LIMIT)
		return err_set(err, ERR_INPUT,
			       "member '%s' of '%s' has %" PRIu64 " bytes, more than the limit "
			       "(%u)",
			       member->name, reader->file->name, member->size, PICKLE_LIMIT);
	if (zip_locate(&reader->zip, member, &offset, err))
		return -1;
	*data = xmalloc((size_t)member->size + 1);
	if (io_pread_full(reader->file, *data, (size_t)member->size, offset, err))
		return -1;
	return zip_check(&reader->zip, member, crc32_gzip_refl(0, *data, member->size), err);
}

/* The bytes of storages are little endian. */
static int check_order(const struct archive_reader *reader, struct err *err)
{
	char *name = xasprintf("%sbyteorder", reader->prefix);
	const struct zip_member *member = zip_find(&reader->zip, name);
	unsigned char *data = NULL;
	int rc = 0;

	free(name);
	if (!member)
		return 0;
	rc = read_member(reader, member, &data, err);
	if (!rc && (member->size != 6 || memcmp(data, "little", 6) != 0))
		rc = err_set(err, ERR_INPUT,
			     "'%s' was not saved on a little-endian machine: save it again on one",
			     reader->file->name);
	free(data);
	return rc;
}

/* Opens the archive and reads its pickle. */
static int open_archive(struct archive_reader *reader, const struct archive_place *place,
			struct pickle *pickle, struct err *err)
{
	const struct zip_member *found = NULL;
	unsigned char *data = NULL;
	int rc = -1;

	if (zip_open(&reader->zip, place->file, place->begin, place->size, err))
		return -1;
	for (size_t i = 0; i < reader->zip.n && !found; i++)
		if (text_ends(reader->zip.members[i].name, "/data.pkl"))
			found = &reader->zip.members[i];
	if (!found)
		return err_set(err, ERR_INPUT,
			       "'%s' has no member data.pkl, as files of torch.save() have",
			       reader->file->name);
	reader->prefix = xstrndup(found->name, strlen(found->name) - strlen("data.pkl"));
	reader->left = (size_t)found->size;
	if (!check_order(reader, err) && !read_member(reader, found, &data, err))
		rc = pickle_read(
			pickle,
			&(struct pickle_text){ reader->file->name, data, (size_t)found->size },
			archive_knows, err);
	free(data);
	return rc;
}

static void close_archive(struct archive_reader *reader, struct pickle *pickle)
{
	pickle_release(pickle);
	zip_release(&reader->zip);
	free(reader->prefix);
}

int archive_read(struct archive *archive, const struct archive_place *place, struct err *err)
{
	struct archive_reader reader = { .archive = archive, .file = place->file };
	struct pickle pickle = { 0 };
	int rc;

	*archive = (struct archive){ 0 };
	rc = open_archive(&reader, place, &pickle, err);
	if (!rc)
		rc = add_all(&reader, pickle.top, err);
	close_archive(&reader, &pickle);
	return rc;
}

int archive_read_tensor(struct archive *archive, const struct archive_place *place,
			const char *name, struct err *err)
{
	struct archive_reader reader = { .archive = archive, .file = place->file };
	struct pickle pickle = { 0 };
	int rc = open_archive(&reader, place, &pickle, err);

	if (!rc)
		rc = add_tensor(&reader, name, pickle.top, err);
	close_archive(&reader, &pickle);
	return rc;
}

void archive_release(struct archive *archive)
{
	free(archive->tensors);
	free(archive->states);
	arena_release(&archive->texts);
	*archive = (struct archive){ 0 };
}

int archive_check(const struct archive_place *place, const atomic_int *stop, struct err *err)
{
	struct zip zip;
	int rc = zip_open(&zip, place->file, place->begin, place->size, err);

	rc = rc ? rc : zip_check_all(&zip, stop, err);
	zip_release(&zip);
	return rc;
}
