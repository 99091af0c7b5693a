/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/scales.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/scale_names.h"
#include "format/variant.h"
#include "verify/tensors.h"

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

/* [] or [1]. */
static bool is_number(const struct st_tensor *scale)
{
	return !scale->n_dims || (scale->n_dims == 1 && scale->shape[0] == 1);
}

/* Whether the scale has the granularity and blocks that the configuration states.  For weights of
 * which no variant says more. */
static void check_tile(struct verify *verify, const struct tensor_ref *ref,
		       const struct weight_scale *of, const struct scheme *scheme)
{
	const struct tensor_ref *scale = of->scale;
	const struct tile *tile = &of->tile;
	char words[SCHEME_NAME_SIZE];

	if (!verify->opened.detection->declared ||
	    (weight_scale_granularity(of) == scheme->granularity &&
	     (scheme->granularity != GRANULARITY_BLOCK ||
	      (tile->rows == scheme->tile.rows && tile->cols == scheme->tile.cols))))
		return;
	scheme_name(scheme, words);
	verify_report(verify, PROBLEM_SCALE_SHAPE, scale,
		      "scale '%s' of '%s' is %s, but the configuration states %s",
		      scale->tensor->name, ref->tensor->name, st_shape(scale->tensor).text, words);
}

/* How a scale compares with the variants of the format. */
struct likeness {
	bool known; /* a variant has a scale of that name, which the target looks for */
	bool other; /* or which another engine looks for */
	bool shape, type;
};

/* Whether the target reads tensors with the names of the variant. */
static bool is_read(const struct verify *verify, const struct variant *variant)
{
	const struct model_config *model = &verify->opened.model;
	const enum engine target = verify->opened.target;

	if (variant_is_read(variant, target))
		return true;
	for (size_t i = 0; i < model->n_model_types; i++)
		if (variant->only_for == ENGINE_TRANSFORMERS &&
		    engine_renames_scales(target, model->model_types[i]))
			return true;
	return false;
}

/* Compares the scale with the variants of the format. */
static struct likeness compare_variants(const struct verify *verify, const struct st_tensor *weight,
					const struct st_tensor *scale, const struct scheme *scheme)
{
	const enum engine target = verify->opened.target;

	const bool stacked = weight->n_dims == 3;
	const struct scaled_weight scaled = { .name = weight->name,
					      .rows = weight->shape[stacked],
					      .cols = weight->shape[stacked + 1],
					      .experts = stacked ? weight->shape[0] : 0 };
	const char *name = scaled.name;
	struct likeness like = { 0 };

	for (const struct variant *row = verify->opened.format->variants; row->method; row++) {
		struct scale_decl decl;
		bool same_type;

		if (row->granularity != scheme->granularity ||
		    (stacked && row->layout == LAYOUT_GRID_4D) ||
		    strncmp(scale->name, name, strlen(name)) ||
		    strcmp(scale->name + strlen(name), row->weight_scale))
			continue;
		if (!is_read(verify, row)) {
			like.other = true;
			continue;
		}
		like.known = true;
		variant_scale(row, scheme->tile, &scaled, &decl);
		same_type = variant_dtype(row) == DT_U8 ? scale->dtype == DT_U8
							: dtype_is_float(scale->dtype);
		like.type |= same_type;
		like.shape |= same_shape(scale, &decl, stacked) ||
			      (variant_takes_number(row, target) && is_number(scale) && !stacked);
		free(decl.name);
	}
	return like;
}

/* The variant by which the target looks for the scheme's tensors. */
static const struct variant *find_wanted(const struct verify *verify, const struct scheme *scheme)
{
	return verify->opened.format
		       ? variant_find(verify->opened.format, scheme, verify->opened.target)
		       : NULL;
}

/* Notes a tensor that the target looks for under another name. */
static void note_name(struct verify *verify, const struct tensor_ref *found, const char *stem,
		      size_t n_stem, const char *wanted)
{
	struct verify_misnamed *misnamed = &verify->misnamed;

	if (!misnamed->n++)
		*misnamed = (struct verify_misnamed){
			.n = 1,
			.found = found,
			.wanted = xasprintf("%.*s%s", (int)n_stem, stem, wanted),
		};
}

/* Compares the name of the input's scale. */
static void check_input_name(struct verify *verify, const struct tensor_ref *ref,
			     const struct scheme *scheme)
{
	const struct variant *wanted = scheme->static_input ? find_wanted(verify, scheme) : NULL;
	size_t stem = strlen(ref->tensor->name) - strlen("weight");
	const struct tensor_ref *found;

	if (!wanted || !wanted->input_scale || verify->opened.target == ENGINE_ANY ||
	    !text_ends(ref->tensor->name, ".weight"))
		return;
	found = input_scale_beside(verify->opened.checkpoint, ref->tensor->name);
	if (!found)
		return;
	for (const struct variant *row = verify->opened.format->variants; row->method; row++)
		if (row->granularity == scheme->granularity && row->input_scale &&
		    text_ends(found->tensor->name, row->input_scale) && is_read(verify, row))
			return;
	note_name(verify, found, ref->tensor->name, stem, wanted->input_scale);
}

static void report_shape(struct verify *verify, const struct tensor_ref *ref,
			 const struct tensor_ref *scale, const struct scheme *scheme)
{
	char words[SCHEME_NAME_SIZE];

	scheme_name(scheme, words);
	verify_report(
		verify, PROBLEM_SCALE_SHAPE, scale,
		"scale '%s' is %s for a weight of %s, which is not the shape that format '%s' has "
		"for %s",
		scale->tensor->name, st_shape(scale->tensor).text, st_shape(ref->tensor).text,
		verify->opened.format->name, words);
}

void verify_scale(struct verify *verify, const struct tensor_ref *ref,
		  const struct weight_scale *of, const struct scheme *scheme)
{
	const struct tensor_ref *scale = of->scale;
	const struct variant *wanted = find_wanted(verify, scheme);
	struct likeness like = { 0 };

	if (scale_is_shared(ref->tensor->name, scale->tensor->name))
		return;
	if (verify->opened.format)
		like = compare_variants(verify, ref->tensor, scale->tensor, scheme);
	if (!like.known && like.other && wanted)
		note_name(verify, scale, ref->tensor->name, strlen(ref->tensor->name),
			  wanted->weight_scale);
	/* Other tools have their own names for scales of experts in one tensor. */
	else if (!verify->opened.format || (!like.known && ref->tensor->n_dims == 3))
		check_tile(verify, ref, of, scheme);
	else if (!like.known)
		verify_report(verify, PROBLEM_SCALE_MISSING, ref,
			      "format '%s' expects a scale of '%s' under another name than '%s'",
			      verify->opened.format->name, ref->tensor->name, scale->tensor->name);
	else if (!like.type)
		verify_report(verify, PROBLEM_SCALE_DTYPE, scale,
			      "scale '%s' is %s, which is not the type that format '%s' has for "
			      "it",
			      scale->tensor->name, dtype_name(scale->tensor->dtype),
			      verify->opened.format->name);
	else if (!like.shape)
		report_shape(verify, ref, scale, scheme);
	check_input_name(verify, ref, scheme);
}

void verify_scale_names(struct verify *verify)
{
	const struct verify_misnamed *misnamed = &verify->misnamed;
	const char *engine = engine_name(verify->opened.target);

	if (misnamed->n)
		verify_report(verify, PROBLEM_SCALE_NAME, misnamed->found,
			      "%s reads '%s', this file has '%s', and so %zu scales in all: use "
			      "'fp8conv repack --target %s'",
			      engine, misnamed->wanted, misnamed->found->tensor->name, misnamed->n,
			      engine);
}
