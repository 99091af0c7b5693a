/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of packings, and the search for their tensors by name, type and shape.
 *
 * Source: the loaders of vLLM 7cfb97e and SGLang 0.5.23; transformers 5.23, integrations/mxfp4.py;
 * compressed-tensors 0.20, compressors/; ModelOpt a2fbac7.
 */
#include "format/low_bit.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sort.h"
#include "base/text.h"
#include "format/scale_names.h"

/* GPT-OSS's blocks are a dimension of their own: [experts, out, groups, 16 bytes]. */
#define BLOCKS_DIMS 4

/* Elements, and the scales that go with them. */
#define MXFP4 .dtype = DT_MXFP4, .scale_types = { DT_U8, DT_F8_E8M0 }, .group = 32
#define INT4  .dtype = DT_INT4, .scale_types = { DT_BF16, DT_F16 }, .group = 32
#define NVFP4 .dtype = DT_NVFP4, .scale_types = { DT_F8_E4M3, DT_F8_E4M3 }, .group = 16

/* "X.weight" [out, in]. */
#define MATRIX .n_dims = 2, .weight = ".weight"

static const struct packing packings[] = {
	/* GPT-OSS */
	{ MXFP4, .container = DT_U8, .n_dims = BLOCKS_DIMS, .packed = "_blocks", .weight = "",
	  .scale = "_scales", .transposed = true },
	/* DeepSeek-V4 */
	{ MXFP4, MATRIX, .container = DT_I8, .packed = ".weight", .scale = ".scale" },
	/* Ling-3, MiMo-V2.5 */
	{ MXFP4, MATRIX, .container = DT_I8, .packed = ".weight", .scale = ".weight_scale_inv" },
	/* compressed-tensors, mxfp4-pack-quantized: Kimi-K3 */
	{ MXFP4, MATRIX, .container = DT_U8, .packed = ".weight_packed", .scale = ".weight_scale" },
	/* compressed-tensors, pack-quantized: Kimi-K2.5 */
	{ INT4, MATRIX, .container = DT_I32, .packed = ".weight_packed", .scale = ".weight_scale" },
	/* compressed-tensors, nvfp4-pack-quantized */
	{ NVFP4, MATRIX, .container = DT_U8, .packed = ".weight_packed", .scale = ".weight_scale",
	  .global = ".weight_global_scale", .global_divides = true },
	/* ModelOpt, NVFP4 */
	{ NVFP4, MATRIX, .container = DT_U8, .packed = ".weight", .scale = ".weight_scale",
	  .global = ".weight_scale_2" },
};

#define N_PACKINGS (sizeof packings / sizeof *packings)

/* Tensors beside a weight that only describe it or the activations that it meets. */
#define SHAPE ".weight_shape"
static const char *const descriptions[] = { SHAPE, ".input_global_scale", ".input_scale" };

/* Tensors that change the values in a way that no row knows. */
static const char *const unsupported[] = { ".weight_zero_point", ".weight_g_idx" };

/* The tensor in question: its name is the stem and packing->packed. */
struct packed {
	const struct tensor_ref *ref;
	const struct packing *packing;
	size_t stem;
};

static const struct tensor_ref *beside(const struct checkpoint *checkpoint,
				       const struct packed *packed, const char *end)
{
	char *name = xasprintf("%.*s%s", (int)packed->stem, packed->ref->tensor->name, end);
	const struct tensor_ref *found = checkpoint_find(checkpoint, name);

	free(name);
	return found;
}

static bool is_scale_of(const struct packing *packing, const struct tensor_ref *scale)
{
	return scale && (scale->tensor->dtype == packing->scale_types[0] ||
			 scale->tensor->dtype == packing->scale_types[1]);
}

/* Finds the row of a tensor: the one whose scale has the right type, else the first that the name
 * alone claims.  ".weight" alone claims nothing. */
static bool packing_find(const struct checkpoint *checkpoint, const struct tensor_ref *ref,
			 struct packed *found)
{
	found->packing = NULL;
	for (size_t i = 0; i < N_PACKINGS; i++) {
		const struct packing *row = &packings[i];
		const struct tensor_ref *scale;
		struct packed packed = { ref, row, 0 };

		if (ref->tensor->dtype != row->container ||
		    !text_ends(ref->tensor->name, row->packed))
			continue;
		packed.stem = strlen(ref->tensor->name) - strlen(row->packed);
		scale = beside(checkpoint, &packed, row->scale);
		if (ref->tensor->n_dims == row->n_dims && is_scale_of(row, scale)) {
			*found = packed;
			return true;
		}
		if (strcmp(row->packed, ".weight") != 0 && !found->packing &&
		    (scale || ref->tensor->n_dims == row->n_dims))
			*found = packed;
	}
	return found->packing != NULL;
}

static void put_tensor(struct buf *text, const struct st_tensor *tensor)
{
	buf_printf(text, "'%s' %s ", tensor->name, dtype_name(tensor->dtype));
	st_shape_format(text, tensor->shape, tensor->n_dims);
}

static int refuse_scale(const struct packed *packed, const struct tensor_ref *scale,
			struct err *err)
{
	const struct packing *packing = packed->packing;
	struct buf text = { 0 };

	if (!is_scale_of(packing, scale))
		return err_set(err, ERR_INPUT,
			       "scale '%s' of low-bit tensor '%s' is %s: supported is %s%s%s",
			       scale->tensor->name, packed->ref->tensor->name,
			       dtype_name(scale->tensor->dtype),
			       dtype_name(packing->scale_types[0]),
			       packing->scale_types[1] == packing->scale_types[0] ? "" : " or ",
			       packing->scale_types[1] == packing->scale_types[0]
				       ? ""
				       : dtype_name(packing->scale_types[1]));
	buf_puts(&text, "scale ");
	put_tensor(&text, scale->tensor);
	buf_puts(&text, " does not fit ");
	put_tensor(&text, packed->ref->tensor);
	err_set(err, ERR_INPUT, "%s: supported is a scale for each %zu elements of 4 bits in a row",
		text.data, packing->group);
	buf_release(&text);
	return -1;
}

static int refuse_missing(const struct packed *packed, const char *end, struct err *err)
{
	const char *name = packed->ref->tensor->name;

	return err_set(err, ERR_INPUT, "low-bit tensor '%s' has no scale '%.*s%s'", name,
		       (int)packed->stem, name, end);
}

/* Does the scale have the rows of the packed tensor, and a column for each group of a row? */
static bool fits(const struct packed *packed, const struct st_tensor *scale)
{
	const struct packing *packing = packed->packing;
	const struct st_tensor *tensor = packed->ref->tensor;
	int n = tensor->n_dims - 1; /* dimensions before the last one */
	uint64_t ratio = packing_ratio(packing), last = tensor->shape[n];

	for (int i = 0; i < n && i < scale->n_dims; i++)
		if (scale->shape[i] != tensor->shape[i])
			return false;
	if (packing->n_dims == BLOCKS_DIMS)
		return scale->n_dims == n && last == packing->group / ratio;
	return scale->n_dims == n + 1 && last % (packing->group / ratio) == 0 &&
	       last / (packing->group / ratio) == scale->shape[n];
}

static bool is_scalar(const struct st_tensor *tensor)
{
	return tensor->dtype == DT_F32 && st_n_elements(tensor->shape, tensor->n_dims) == 1;
}

static int check_descriptions(const struct checkpoint *checkpoint, const struct packed *packed,
			      const struct tensor_ref *shape, struct err *err)
{
	for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++) {
		const struct tensor_ref *found = beside(checkpoint, packed, unsupported[i]);

		if (found)
			return err_set(err, ERR_INPUT,
				       "low-bit tensor '%s' has '%s', which is unsupported: only "
				       "symmetric weights in their own order can be read",
				       packed->ref->tensor->name, found->tensor->name);
	}
	if (shape && ((shape->tensor->dtype != DT_I32 && shape->tensor->dtype != DT_I64) ||
		      shape->tensor->n_dims != 1 || shape->tensor->shape[0] != 2))
		return err_set(err, ERR_INPUT, "'%s' is not a vector of two I32 or I64 numbers",
			       shape->tensor->name);
	return 0;
}

/* Refuses scales of two packings: which one is meant is not known, and the other one would be kept
 * under a name by which engines look for a scale. */
static int check_scales(const struct checkpoint *checkpoint, const struct packed *packed,
			struct err *err)
{
	const struct packing *packing = packed->packing;

	for (size_t i = 0; i < N_PACKINGS; i++) {
		const struct packing *row = &packings[i];
		const struct tensor_ref *other;

		if (row->n_dims != packing->n_dims || !strcmp(row->scale, packing->scale))
			continue;
		other = beside(checkpoint, packed, row->scale);
		if (other)
			return err_set(err, ERR_INPUT,
				       "low-bit tensor '%s' has two scales: '%.*s%s' and '%s'",
				       packed->ref->tensor->name, (int)packed->stem,
				       packed->ref->tensor->name, packing->scale,
				       other->tensor->name);
	}
	return 0;
}

/* Finds the tensors of a weight, and checks that they fit. */
static int weight_find(const struct checkpoint *checkpoint, const struct packed *packed,
		       struct low_bit_weight *weight, struct err *err)
{
	const struct packing *packing = packed->packing;

	*weight = (struct low_bit_weight){
		.packing = packing,
		.packed = packed->ref,
		.scale = beside(checkpoint, packed, packing->scale),
		.shape = beside(checkpoint, packed, SHAPE),
	};
	if (!weight->scale)
		return refuse_missing(packed, packing->scale, err);
	if (check_scales(checkpoint, packed, err))
		return -1;
	if (packed->ref->tensor->n_dims != packing->n_dims ||
	    packed->ref->tensor->begin == packed->ref->tensor->end ||
	    !is_scale_of(packing, weight->scale) || !fits(packed, weight->scale->tensor))
		return refuse_scale(packed, weight->scale, err);
	if (packing->global) {
		weight->global = beside(checkpoint, packed, packing->global);
		if (!weight->global)
			return refuse_missing(packed, packing->global, err);
		if (!is_scalar(weight->global->tensor))
			return err_set(err, ERR_INPUT, "scale '%s' of '%s' is not one F32 number",
				       weight->global->tensor->name, packed->ref->tensor->name);
	}
	return check_descriptions(checkpoint, packed, weight->shape, err);
}

/* Sets the logical tensor: [rows, groups * group], or that for each expert. */
static void weight_name(struct low_bit *low_bit, const struct packed *packed,
			struct low_bit_weight *weight)
{
	const struct packing *packing = packed->packing;
	const struct st_tensor *tensor = packed->ref->tensor;
	int n_dims = packing->n_dims == BLOCKS_DIMS ? 3 : 2;
	uint64_t shape[3] = { tensor->shape[0], tensor->shape[1], 0 };
	char *name = xasprintf("%.*s%s", (int)packed->stem, tensor->name, packing->weight);

	shape[n_dims - 1] = weight->scale->tensor->shape[n_dims - 1] * packing->group;
	weight->tensor = (struct st_tensor){ .name = arena_take(&low_bit->texts, name),
					     .dtype = packing->dtype,
					     .n_dims = n_dims,
					     .shape = st_shape_copy(&low_bit->texts, shape, n_dims),
					     .begin = tensor->begin,
					     .end = tensor->end };
}

size_t low_bit_index(const struct checkpoint *checkpoint, const struct tensor_ref *ref)
{
	const struct tensor_ref *all = checkpoint->tensors;
	size_t i;

	SEARCH(i, checkpoint->n_tensors,
	       all[i].shard < ref->shard ||
		       (all[i].shard == ref->shard && all[i].tensor < ref->tensor));
	return i;
}

/* places[] has 0, or 2 * (1 + the index of the weight), plus 1 for its parts. */
static void mark(struct low_bit *low_bit, const struct tensor_ref *ref, bool is_part)
{
	low_bit->places[low_bit_index(low_bit->checkpoint, ref)] = 2 * low_bit->n + is_part;
}

/* Marks the tensors of the weight that was added last. */
static void mark_all(struct low_bit *low_bit, const struct packed *packed)
{
	const struct checkpoint *checkpoint = low_bit->checkpoint;
	const struct low_bit_weight *weight = &low_bit->list[low_bit->n - 1];

	mark(low_bit, weight->packed, false);
	mark(low_bit, weight->scale, true);
	if (weight->global)
		mark(low_bit, weight->global, true);
	for (size_t i = 0; i < sizeof descriptions / sizeof *descriptions; i++) {
		const struct tensor_ref *found = beside(checkpoint, packed, descriptions[i]);

		if (found)
			mark(low_bit, found, true);
	}
}

static int low_bit_add(struct low_bit *low_bit, size_t i, struct err *err)
{
	const struct checkpoint *checkpoint = low_bit->checkpoint;
	struct low_bit_weight weight;
	struct packed packed;

	if (!packing_find(checkpoint, &checkpoint->tensors[i], &packed))
		return 0;
	if (weight_find(checkpoint, &packed, &weight, err))
		return -1;
	weight_name(low_bit, &packed, &weight);
	if (!low_bit->places)
		low_bit->places = xcalloc(checkpoint->n_tensors, sizeof *low_bit->places);
	ARRAY_GROW(low_bit->list, low_bit->n);
	low_bit->list[low_bit->n++] = weight;
	mark_all(low_bit, &packed);
	return 0;
}

/* Returns a bit for each type that holds elements of 4 bits. */
static uint64_t containers(void)
{
	uint64_t bits = 0;

	for (size_t i = 0; i < N_PACKINGS; i++)
		bits |= UINT64_C(1) << packings[i].container;
	return bits;
}

int low_bit_find(struct low_bit *low_bit, const struct checkpoint *checkpoint, struct err *err)
{
	const uint64_t types = containers();
	struct err other; /* the first error is reported */
	int rc = 0;

	*low_bit = (struct low_bit){ .checkpoint = checkpoint };
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (types >> checkpoint->tensors[i].tensor->dtype & 1 &&
		    low_bit_add(low_bit, i, rc ? &other : err))
			rc = -1;
	/* The list does not move any more. */
	for (size_t i = 0; i < low_bit->n; i++) {
		struct low_bit_weight *weight = &low_bit->list[i];

		weight->ref = (struct tensor_ref){ &weight->tensor, weight->packed->shard };
	}
	return rc;
}

const struct low_bit_weight *low_bit_of(const struct low_bit *low_bit, size_t i)
{
	if (!low_bit->n || !low_bit->places[i])
		return NULL;
	return &low_bit->list[low_bit->places[i] / 2 - 1];
}

bool low_bit_is_part(const struct low_bit *low_bit, size_t i)
{
	return low_bit->n && low_bit->places[i] % 2;
}

bool low_bit_is_dropped(const struct low_bit *low_bit, size_t i)
{
	const struct scale_name *name;

	if (!low_bit->n)
		return false;
	name = scale_name_find(low_bit->checkpoint->tensors[i].tensor->name);
	return low_bit_is_part(low_bit, i) || (name && name->role == SCALE_OF_CACHE);
}

const char *low_bit_kind(const struct low_bit *low_bit)
{
	static const char *const kinds[] = {
		[DT_MXFP4 - N_DTYPES] = "mxfp4",
		[DT_NVFP4 - N_DTYPES] = "nvfp4",
		[DT_INT4 - N_DTYPES] = "int4",
	};

	for (size_t i = 1; i < low_bit->n; i++)
		if (low_bit->list[i].tensor.dtype != low_bit->list[0].tensor.dtype)
			return "mixed";
	return low_bit->n ? kinds[low_bit->list[0].tensor.dtype - N_DTYPES] : NULL;
}

/* Writes the tensors of a view to a list in the order of `from`.  Returns their number. */
static size_t view_tensors(const struct low_bit_view *view, const struct tensor_ref *from,
			   struct tensor_ref *to)
{
	const struct checkpoint *checkpoint = view->low_bit.checkpoint;
	size_t n = 0;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		size_t place = low_bit_index(checkpoint, &from[i]);
		const struct low_bit_weight *weight = low_bit_of(&view->low_bit, place);

		if (!low_bit_is_part(&view->low_bit, place))
			to[n++] = weight ? weight->ref : from[i];
	}
	return n;
}

COMPARISON(by_name, struct tensor_ref, strcmp(x->tensor->name, y->tensor->name))

/* The tensor is a member of the weight. */
const struct low_bit_weight *low_bit_of_model(const struct tensor_ref *ref)
{
	if (!dtype_is_low_bit(ref->tensor->dtype))
		return NULL;
	return (const void *)((const char *)ref->tensor - offsetof(struct low_bit_weight, tensor));
}

/* Refuses a weight that the file has twice, packed and not. */
static int check_view(const struct checkpoint *seen, struct err *err)
{
	for (size_t i = 1; i < seen->n_tensors; i++) {
		const struct tensor_ref *a = &seen->by_name[i - 1], *b = a + 1;
		const struct low_bit_weight *weight = low_bit_of_model(a);

		weight = weight ? weight : low_bit_of_model(b);
		if (!weight || strcmp(a->tensor->name, b->tensor->name) != 0)
			continue;
		return err_set(err, ERR_INPUT,
			       "weight '%s' is there twice, by itself and packed in '%s': remove "
			       "one of them",
			       a->tensor->name, weight->packed->tensor->name);
	}
	return 0;
}

/* Swaps the last two dimensions of weights that the model has so. */
static void turn(struct low_bit *low_bit)
{
	for (size_t i = 0; i < low_bit->n; i++) {
		struct st_tensor *tensor = &low_bit->list[i].tensor;

		if (low_bit->list[i].packing->transposed)
			tensor->shape = st_shape_copy(&low_bit->texts,
						      (const uint64_t[]){ tensor->shape[0],
									  tensor->shape[2],
									  tensor->shape[1] },
						      3);
	}
}

int low_bit_view_make(struct low_bit_view *view, const struct checkpoint *checkpoint,
		      struct err *unread, struct err *err)
{
	struct checkpoint *seen = &view->checkpoint;
	size_t n = checkpoint->n_tensors;

	seen[0] = *checkpoint;
	*unread = (struct err){ 0 };
	low_bit_find(&view->low_bit, checkpoint, unread);
	turn(&view->low_bit);
	seen->tensors = xreallocarray(NULL, n, sizeof *seen->tensors);
	seen->by_name = xreallocarray(NULL, n, sizeof *seen->by_name);
	seen->n_tensors = view_tensors(view, checkpoint->tensors, seen->tensors);
	view_tensors(view, checkpoint->by_name, seen->by_name);
	sort(seen->by_name, seen->n_tensors, sizeof *seen->by_name, by_name);
	return check_view(seen, err);
}

void low_bit_view_release(struct low_bit_view *view)
{
	free(view->checkpoint.tensors);
	free(view->checkpoint.by_name);
	low_bit_release(&view->low_bit);
	*view = (struct low_bit_view){ 0 };
}

void low_bit_release(struct low_bit *low_bit)
{
	arena_release(&low_bit->texts);
	free(low_bit->places);
	free(low_bit->list);
	*low_bit = (struct low_bit){ 0 };
}
