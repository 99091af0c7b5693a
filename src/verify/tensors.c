/* SPDX-License-Identifier: Apache-2.0
 *
 * What headers show: each weight with its scales, each scale with its weight, and what engines
 * merge.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/variant.h"
#include "format/scale_names.h"
#include "verify/steps.h"
#include "model/tensor_name.h"

const char *verify_file(const struct verify *verify, const struct tensor_ref *ref)
{
	return verify->opened.checkpoint->shards[ref->shard].name;
}

char *verify_module(const char *weight)
{
	return xstrndup(weight, module_len(weight));
}

/* Whether engines build the module in high precision. */
static bool is_skipped(struct verify *verify, const char *weight, const char *module)
{
	enum role role = role_cache_find(&verify->roles, weight).role;

	if (role == ROLE_EMBEDDING)
		return !lists_table(verify, module);
	return role == ROLE_LM_HEAD || lists_skip(verify, module) ||
	       !lists_quantize(verify, module);
}

/* Returns the number of dimensions before a tail of ones. */
static int dims_without_ones(const uint64_t *shape, int n)
{
	while (n > 0 && shape[n - 1] == 1)
		n--;
	return n;
}

/* stacked: of a tensor of several experts, for which tools write [E], [E, 1] and [E, 1, 1]
 * alike. */
static bool same_shape(const struct st_tensor *tensor, const struct scale_decl *decl, bool stacked)
{
	int n = decl->n_dims;

	if (stacked) {
		n = dims_without_ones(decl->shape, n);
		if (dims_without_ones(tensor->shape, tensor->n_dims) != n)
			return false;
	} else if (tensor->n_dims != n) {
		return false;
	}
	for (int i = 0; i < n; i++)
		if (tensor->shape[i] != decl->shape[i])
			return false;
	return true;
}

/* Whether the scale has the granularity and blocks that the configuration states.  For weights of
 * which no variant says more. */
static void check_tile(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *of, const struct scheme *scheme)
{
	const struct tensor_ref *scale = of->scale;
	const struct tile *tile = &of->tile;
	char words[SCHEME_NAME_SIZE];
	struct buf shape = { 0 };

	if (!verify->opened.detection->declared ||
	    (weight_scale_granularity(of) == scheme->granularity &&
	     (scheme->granularity != GRANULARITY_BLOCK ||
	      (tile->rows == scheme->tile.rows && tile->cols == scheme->tile.cols))))
		return;
	scheme_name(scheme, words);
	st_shape_format(&shape, scale->tensor->shape, scale->tensor->n_dims);
	problem_add(&verify->result->problems, PROBLEM_SCALE_SHAPE, scale->tensor->name,
		    verify_file(verify, scale),
		    "scale '%s' of '%s' is %s, but the configuration states %s",
		    scale->tensor->name, ref->tensor->name, shape.data, words);
	buf_release(&shape);
}

/* Compares the scale with the variants of the format.  *shape_fits, *type_fits: one of them has
 * this shape, this type.  Returns false where no variant has a scale of that name. */
static bool compare_variants(const struct verify *verify, const struct st_tensor *weight,
			     const struct st_tensor *scale, const struct scheme *scheme,
			     bool *shape_fits, bool *type_fits)
{
	const bool stacked = weight->n_dims == 3;
	const struct scaled_weight scaled = { .name = weight->name,
					      .rows = weight->shape[stacked],
					      .cols = weight->shape[stacked + 1],
					      .experts = stacked ? weight->shape[0] : 0 };
	const char *name = scaled.name;
	bool known = false;

	*shape_fits = *type_fits = false;
	for (const struct variant *row = verify->opened.format->variants; row->method; row++) {
		struct scale_decl decl;
		bool same_type;

		if (row->granularity != scheme->granularity ||
		    (stacked && row->layout == LAYOUT_GRID_4D) ||
		    strncmp(scale->name, name, strlen(name)) ||
		    strcmp(scale->name + strlen(name), row->weight_scale))
			continue;
		known = true;
		variant_scale(row, scheme->tile, &scaled, &decl);
		same_type =
			row->dtype == DT_U8 ? scale->dtype == DT_U8 : dtype_is_float(scale->dtype);
		*type_fits |= same_type;
		*shape_fits |= same_shape(scale, &decl, stacked);
		free(decl.name);
	}
	return known;
}

static void check_scale(struct verify *verify, const struct tensor_ref *ref,
			const struct weight_scale *of, const struct scheme *scheme)
{
	const struct tensor_ref *scale = of->scale;
	struct buf shape = { 0 };
	char words[SCHEME_NAME_SIZE];
	bool known, shape_fits, type_fits;

	if (scale_is_shared(ref->tensor->name, scale->tensor->name))
		return;
	known = verify->opened.format && compare_variants(verify, ref->tensor, scale->tensor,
							  scheme, &shape_fits, &type_fits);
	/* Other tools have their own names for scales of experts in one tensor. */
	if (!verify->opened.format || (!known && ref->tensor->n_dims == 3)) {
		check_tile(verify, ref, of, scheme);
		return;
	}
	scheme_name(scheme, words);
	st_shape_format(&shape, scale->tensor->shape, scale->tensor->n_dims);
	buf_puts(&shape, " for a weight of ");
	st_shape_format(&shape, ref->tensor->shape, ref->tensor->n_dims);
	if (!known)
		problem_add(&verify->result->problems, PROBLEM_SCALE_MISSING, ref->tensor->name,
			    verify_file(verify, ref),
			    "format '%s' expects a scale of '%s' under another name than '%s'",
			    verify->opened.format->name, ref->tensor->name, scale->tensor->name);
	else if (!type_fits)
		problem_add(&verify->result->problems, PROBLEM_SCALE_DTYPE, scale->tensor->name,
			    verify_file(verify, scale),
			    "scale '%s' is %s, which is not the type that format '%s' has for "
			    "it",
			    scale->tensor->name, dtype_name(scale->tensor->dtype),
			    verify->opened.format->name);
	else if (!shape_fits)
		problem_add(&verify->result->problems, PROBLEM_SCALE_SHAPE, scale->tensor->name,
			    verify_file(verify, scale),
			    "scale '%s' is %s, which is not the shape that format '%s' has for "
			    "%s",
			    scale->tensor->name, shape.data, verify->opened.format->name, words);
	buf_release(&shape);
}

/* The kind of the sets of a table's parts. */
#define TABLE 'T'

/* Returns the number of the fused set of a tensor, or of one expert in it; SIZE_MAX where engines
 * do not merge it.  The parts of a table are a set. */
static size_t fused_set_number(struct verify *verify, const struct st_tensor *tensor,
			       uint64_t expert, int *position)
{
	struct profile_match match;
	struct fusion fusion;
	struct buf key = { 0 };
	size_t number;
	char *table;

	if (tensor->n_dims < 2 || tensor->n_dims > 3)
		return SIZE_MAX;
	table = scale_table(tensor->name);
	match = profile_find(&verify->lists.profile, tensor->name, verify->lists.on);
	if (table)
		fusion = (struct fusion){ .kind = TABLE, .parent_len = strlen(table) };
	free(table);
	if (!table && !profile_fusion(&match, tensor->name, &fusion))
		return SIZE_MAX;
	*position = fusion.position;
	buf_putc(&key, fusion.kind);
	buf_add(&key, tensor->name, fusion.parent_len);
	if (tensor->n_dims == 3)
		buf_printf(&key, "#%" PRIu64, expert);
	number = intern_add(&verify->weights.fused_sets, key.data, key.len);
	buf_release(&key);
	return number;
}

/* Adds a matrix of the tensor to the weights whose values are read. */
static void add_matrix(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *scale, uint64_t expert)
{
	const struct st_tensor *tensor = ref->tensor, *scales = scale->scale->tensor;
	const uint64_t *sides = tensor->shape + tensor->n_dims - 2;
	uint64_t n_scales =
		tile_count(sides[0], scale->tile.rows) * tile_count(sides[1], scale->tile.cols);
	struct verify_weight *weight;

	ARRAY_GROW(verify->weights.list, verify->weights.n);
	weight = &verify->weights.list[verify->weights.n++];
	*weight = (struct verify_weight){
		.granularity = weight_scale_granularity(scale),
		.scanned = tensor->end > tensor->begin,
		.unit = { .name = tensor->name,
			  .source = ref,
			  .table = scale_is_shared(tensor->name, scales->name),
			  .source_scale = *scale,
			  .rows = sides[0],
			  .cols = sides[1],
			  .slice = { expert * sides[0] * sides[1], sides[1], 1 } },
	};
	weight->fused_set = fused_set_number(verify, tensor, expert, &weight->fused_position);
	if (st_n_elements(scales->shape, scales->n_dims) != n_scales)
		weight->first_scale = expert * n_scales;
}

#define MAX_EXPERTS 65536 /* as quantize accepts */

static void add_weight(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *scale)
{
	uint64_t n = ref->tensor->n_dims == 3 ? ref->tensor->shape[0] : 1;

	if (n > MAX_EXPERTS)
		problem_add(&verify->result->problems, PROBLEM_SCALE_SHAPE, ref->tensor->name,
			    verify_file(verify, ref),
			    "'%s' has %" PRIu64 " experts, more than %d: it is not checked",
			    ref->tensor->name, n, MAX_EXPERTS);
	for (uint64_t e = 0; n <= MAX_EXPERTS && e < n; e++)
		add_matrix(verify, ref, scale, e);
}

size_t verify_weight_run(const struct verify *verify, size_t w)
{
	const struct tensor_ref *ref = verify->weights.list[w].unit.source;
	size_t n = 1;

	while (w + n < verify->weights.n && verify->weights.list[w + n].unit.source == ref)
		n++;
	return n;
}

/* Returns the kind of problem of a scale that fits no tiling. */
static enum problem_kind unreadable(const struct weight_scale *scale)
{
	enum dtype dtype;

	if (!scale->scale)
		return PROBLEM_SCALE_MISSING;
	dtype = scale->scale->tensor->dtype;
	return dtype_is_float(dtype) || dtype == DT_U8 || dtype == DT_F8_E8M0 ? PROBLEM_SCALE_SHAPE
									      : PROBLEM_SCALE_DTYPE;
}

static void check_codes(struct verify *verify, const struct tensor_ref *ref, const char *module)
{
	const struct detection *detection = verify->opened.detection;
	const struct scheme scheme = verify_scheme(verify, module);
	struct weight_scale scale;
	struct err err;

	if (is_skipped(verify, ref->tensor->name, module))
		problem_add(&verify->result->problems, PROBLEM_DTYPE_MISMATCH, ref->tensor->name,
			    verify_file(verify, ref),
			    "weight '%s' is %s, but no engine quantizes its module, or the "
			    "configuration excludes it",
			    ref->tensor->name, dtype_name(ref->tensor->dtype));
	else
		lists_check_conflict(verify, ref, module);
	if (detection_scale(detection, ref, &scale, &err)) {
		problem_add(&verify->result->problems, unreadable(&scale), ref->tensor->name,
			    verify_file(verify, ref), "%s", err.message);
		return;
	}
	add_weight(verify, ref, &scale);
	check_scale(verify, ref, &scale, &scheme);
	if (verify->opened.declared && scheme.static_input &&
	    !scale_is_shared(ref->tensor->name, scale.scale->tensor->name) &&
	    !scale_name_beside(verify->opened.checkpoint, ref->tensor->name, SCALE_OF_INPUT))
		problem_add(&verify->result->problems, PROBLEM_INPUT_SCALE_MISSING,
			    ref->tensor->name, verify_file(verify, ref),
			    "weight '%s' has no input_scale, but the configuration declares "
			    "static scales of activations",
			    ref->tensor->name);
}

static void report_stray(struct verify *verify, const struct tensor_ref *ref,
			 const struct tensor_ref *weight, const char *why)
{
	struct buf shape = { 0 };

	st_shape_format(&shape, weight->tensor->shape, weight->tensor->n_dims);
	problem_add(&verify->result->problems, PROBLEM_SCALE_STRAY, ref->tensor->name,
		    verify_file(verify, ref), "scale '%s' belongs to '%s' (%s %s), %s",
		    ref->tensor->name, weight->tensor->name, dtype_name(weight->tensor->dtype),
		    shape.data, why);
	buf_release(&shape);
}

/* DeepSeek-V4's "hc_attn_scale" ends as scales of fused experts do, and scales no weight. */
static bool is_parameter(const char *name, const struct scale_name *word)
{
	const char *dot = strrchr(name, '.');

	return !strcmp(word->word, "weight_scale") && strcmp(dot ? dot + 1 : name, word->word) != 0;
}

static void check_stray(struct verify *verify, const struct tensor_ref *ref,
			const struct scale_name *word)
{
	const struct tensor_ref *weight =
		scaled_weight(verify->opened.checkpoint, ref->tensor->name, word);
	char *module;

	if ((word->role != SCALE_OF_WEIGHT && word->role != SCALE_OF_INPUT) ||
	    low_bit_is_part(&verify->low_bit, low_bit_index(verify->opened.checkpoint, ref)))
		return;
	if (!weight || !detection_is_weight(weight)) {
		if (!word->tool && weight)
			report_stray(verify, ref, weight, "which is not FP8");
		else if (!word->tool && !is_parameter(ref->tensor->name, word))
			problem_add(&verify->result->problems, PROBLEM_SCALE_STRAY,
				    ref->tensor->name, verify_file(verify, ref),
				    "scale '%s' belongs to no weight", ref->tensor->name);
		return;
	}
	module = verify_module(weight->tensor->name);
	if (is_skipped(verify, weight->tensor->name, module))
		report_stray(verify, ref, weight, "whose module engines do not quantize");
	free(module);
}

static void check_tensor(struct verify *verify, const struct tensor_ref *ref)
{
	const char *name = ref->tensor->name;
	const struct scale_name *word = scale_name_find(name);
	struct role_facts facts;
	char *module;

	if (word) {
		check_stray(verify, ref, word);
		return;
	}
	facts = role_cache_find(&verify->roles, name);
	module = verify_module(name);
	if (detection_is_weight(ref))
		check_codes(verify, ref, module);
	else
		verify_kept(verify, ref, &facts, module);
	free(module);
}

/* The last member of a fused set that is FP8, and the first that is not. */
struct members {
	const struct tensor_ref *fp8, *other;
};

static void check_fused_sets(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	size_t *set_of = xcalloc(checkpoint->n_tensors, sizeof *set_of);
	struct members *sets;
	int position;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		set_of[i] = fused_set_number(verify, checkpoint->by_name[i].tensor, 0, &position);
	sets = xcalloc(verify->weights.fused_sets.n, sizeof *sets);
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct members *set;

		if (set_of[i] == SIZE_MAX)
			continue;
		set = &sets[set_of[i]];
		if (detection_is_weight(ref))
			set->fp8 = ref;
		else if (dtype_is_float(ref->tensor->dtype) && !set->other)
			set->other = ref;
	}
	for (size_t i = 0; i < verify->weights.fused_sets.n; i++)
		if (sets[i].fp8 && sets[i].other)
			problem_add(&verify->result->problems, PROBLEM_GROUP_PARTIAL,
				    sets[i].other->tensor->name, verify_file(verify, sets[i].other),
				    "'%s' is %s, but '%s' is %s", sets[i].other->tensor->name,
				    dtype_name(sets[i].other->tensor->dtype),
				    sets[i].fp8->tensor->name,
				    dtype_name(sets[i].fp8->tensor->dtype));
	free(sets);
	free(set_of);
}

void verify_tensors(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct err bad = { 0 };

	if (low_bit_find(&verify->low_bit, checkpoint, &bad))
		problem_add(&verify->result->problems, PROBLEM_SCALE_MISSING, NULL, NULL, "%s",
			    bad.message);
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		check_tensor(verify, &checkpoint->by_name[i]);
	check_fused_sets(verify);
}
