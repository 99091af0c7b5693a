/* SPDX-License-Identifier: Apache-2.0
 *
 * Names and shapes of the tensors that a format puts beside a weight: what the variant's row says,
 * for one weight.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "format/scale_names.h"
#include "format/variant.h"

static void decl_shape(struct scale_decl *decl, int n_dims, uint64_t a, uint64_t b, uint64_t c,
		       uint64_t d)
{
	const uint64_t shape[4] = { a, b, c, d };

	decl->n_dims = n_dims;
	memcpy(decl->shape, shape, sizeof shape);
}

static void layout_shape(struct scale_decl *decl, enum scale_layout layout, struct tile tile,
			 uint64_t rows, uint64_t cols)
{
	uint64_t down = tile_count(rows, tile.rows);
	uint64_t across = tile_count(cols, tile.cols);

	switch (layout) {
	case LAYOUT_SCALAR:
		decl_shape(decl, 0, 0, 0, 0, 0);
		break;
	case LAYOUT_ONE:
		decl_shape(decl, 1, 1, 0, 0, 0);
		break;
	case LAYOUT_OUT:
		decl_shape(decl, 1, rows, 0, 0, 0);
		break;
	case LAYOUT_OUT_ONE:
		decl_shape(decl, 2, rows, 1, 0, 0);
		break;
	case LAYOUT_GRID:
		decl_shape(decl, 2, down, across, 0, 0);
		break;
	case LAYOUT_GRID_4D:
		decl_shape(decl, 4, down, 1, across, 1);
		break;
	}
}

/* The same for a weight: a stack of experts has a scale of each, one after another.  The one scale
 * of a tensor is then a number of each. */
static void weight_shape(struct scale_decl *decl, const struct variant *variant, struct tile tile,
			 const struct scaled_weight *weight)
{
	layout_shape(decl, variant->layout, tile, weight->rows, weight->cols);
	if (!weight->experts)
		return;
	if (variant->layout == LAYOUT_ONE)
		decl->n_dims = 0;
	/* No format has a grid of four dimensions for a stack: format_refuse_shape(). */
	assert(decl->n_dims < 4);
	memmove(decl->shape + 1, decl->shape, 3 * sizeof *decl->shape);
	decl->shape[0] = weight->experts;
	decl->n_dims++;
}

/* Joins the first n bytes of a name and a suffix.  Does not call printf(): a model has 100,000
 * names. */
static char *joined(const char *name, size_t n, const char *suffix)
{
	size_t n_suffix = strlen(suffix) + 1;
	char *text = xmalloc(n + n_suffix);

	memcpy(text, name, n);
	memcpy(text + n, suffix, n_suffix);
	return text;
}

bool variant_is_read(const struct variant *variant, enum engine target)
{
	return target == ENGINE_ANY || !(variant->unread & ENGINE_BIT(target));
}

bool variant_takes_number(const struct variant *variant, enum engine target)
{
	if (variant->granularity != GRANULARITY_TENSOR)
		return false;
	for (int e = ENGINE_ANY + 1; e < N_ENGINES; e++)
		if ((target == ENGINE_ANY || (enum engine)e == target) && e != ENGINE_VLLM &&
		    e != ENGINE_SGLANG && !variant->refused[e] &&
		    variant_is_read(variant, (enum engine)e))
			return false;
	return true;
}

void variant_scale(const struct variant *variant, struct tile tile,
		   const struct scaled_weight *weight, struct scale_decl *decl)
{
	*decl = (struct scale_decl){ .dtype = variant_dtype(variant) };
	decl->name = joined(weight->name, strlen(weight->name), variant->weight_scale);
	weight_shape(decl, variant, tile, weight);
}

void format_scale(const struct format *format, const struct scheme *scheme, enum engine target,
		  const struct scaled_weight *weight, struct scale_decl *decl)
{
	variant_scale(variant_find(format, scheme, target), scheme->tile, weight, decl);
}

void format_input_scale(const struct format *format, const struct scheme *scheme,
			enum engine target, const char *name, struct scale_decl *decl)
{
	const struct variant *variant = variant_find(format, scheme, target);
	size_t stem = strlen(name) - (text_ends(name, "weight") ? strlen("weight") : 0);

	*decl = (struct scale_decl){ .dtype = DT_F32 };
	decl->name = joined(name, stem, variant->input_scale);
	layout_shape(decl, variant->layout, scheme->tile, 1, 1);
}

void format_table_scale(const char *name, struct scale_decl *decl)
{
	char *table = scale_table(name);

	*decl = (struct scale_decl){ .dtype = DT_BF16 };
	decl->name = table ? joined(table, strlen(table), ".weight_scale")
			   : joined(name, strlen(name), "_scale");
	decl_shape(decl, 1, 1, 0, 0, 0);
	free(table);
}

/* The only name by which engines load the scale of a latent cache, in any format: vLLM's
 * maybe_remap_kv_scale_name() and SGLang's loader of DeepSeek models. */
static const char latent_kv_scale[] = "?_proj.?_scale";

void format_kv_scale(const struct format *format, const struct cached *cached,
		     struct scale_decl *decl)
{
	*decl = (struct scale_decl){ .dtype = DT_F32 };
	decl->name = xasprintf("%s.%s", cached->attention,
			       cached->latent ? latent_kv_scale : format->kv_scale);
	for (char *at = decl->name + strlen(cached->attention); (at = strchr(at, '?'));)
		*at = cached->which;
	decl_shape(decl, format->kv_dims, 1, 1, 1, 1);
}

const char *format_refuse_shape(const struct format *format, const struct scheme *scheme,
				enum engine target, const struct scaled_weight *weight)
{
	if (variant_find(format, scheme, target)->layout != LAYOUT_GRID_4D)
		return NULL;
	if (weight->experts)
		return "the format has no scale of experts in one tensor";
	if (weight->rows % scheme->tile.rows || weight->cols % scheme->tile.cols)
		return "the format supports only whole blocks";
	return NULL;
}

bool variant_wrote(const struct variant *variant, struct tile tile, const struct st_tensor *weight,
		   const struct st_tensor *scale)
{
	struct scale_decl decl = { 0 };
	size_t n = strlen(weight->name);
	int stacked = weight->n_dims == 3;
	const struct scaled_weight scaled = { .rows = weight->shape[stacked],
					      .cols = weight->shape[stacked + 1],
					      .experts = stacked ? weight->shape[0] : 0 };

	if (scale->dtype != variant_dtype(variant) || strncmp(scale->name, weight->name, n) ||
	    strcmp(scale->name + n, variant->weight_scale) ||
	    (stacked && variant->layout == LAYOUT_GRID_4D))
		return false;
	weight_shape(&decl, variant, tile, &scaled);
	if (scale->n_dims != decl.n_dims)
		return false;
	for (int i = 0; i < decl.n_dims; i++)
		if (scale->shape[i] != decl.shape[i])
			return false;
	return true;
}
