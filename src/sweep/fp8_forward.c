/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/fp8_forward.h"

#include <stdlib.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/scale.h"

struct cast_module {
	const struct unit *unit;
	struct recipe_state state; /* of one forward product */
	struct input_cast cast;	   /* in the current step */
};

/* What weights that share a scale have together. */
struct shared_scale {
	float amax;
	bool known;
};

struct fp8_forward {
	const struct fp8_selection *selected;
	const struct backend *backend;
	struct cast_module *modules; /* by index in selected->units */
	struct shared_scale *groups;
};

/* Returns the quantizer of a product's slot, with only the copy that is dequantized at once. */
static struct quantizer quantizer_of(struct recipe_state *state, int slot)
{
	struct quantizer all[N_FORWARD_SLOTS];

	recipe_state_make_quantizers(state, all);
	all[slot].columnwise = false;
	all[slot].order = SCALES_COMPACT;
	return all[slot];
}

/* A history begins with a scale of 1. */
static struct input_cast first_cast(const struct recipe *recipe)
{
	struct input_cast cast = {
		.spec = recipe->input, .scale = 1, .scale_inv = 1, .stats = SIZE_MAX
	};

	if (!recipe->needs_history)
		return cast;
	cast.spec.arith = ARITH_GIVEN;
	cast.spec.pow2 = false;
	return cast;
}

struct fp8_forward *fp8_forward_new(const struct fp8_selection *selected,
				    const struct backend *backend)
{
	struct fp8_forward *fp8 = xcalloc(1, sizeof *fp8);

	*fp8 = (struct fp8_forward){ .selected = selected, .backend = backend };
	fp8->modules = xcalloc(selected->n, sizeof *fp8->modules);
	fp8->groups = xcalloc(selected->selection.n_scale_groups, sizeof *fp8->groups);
	for (size_t i = 0; i < selected->n; i++) {
		struct cast_module *module = &fp8->modules[i];

		module->unit = selected->units[i];
		module->cast = first_cast(&selected->recipe);
		recipe_state_init(&module->state, &selected->recipe, MODE_FORWARD, 1);
	}
	return fp8;
}

void fp8_forward_free(struct fp8_forward *fp8)
{
	if (!fp8)
		return;
	for (size_t i = 0; i < fp8->selected->n; i++)
		recipe_state_release(&fp8->modules[i].state);
	free(fp8->modules);
	free(fp8->groups);
	free(fp8);
}

uint64_t fp8_forward_size(const struct fp8_selection *selected)
{
	const struct recipe *recipe = &selected->recipe;
	size_t n_amaxes =
		recipe->needs_history ? (size_t)recipe->amax_history_len * N_FORWARD_SLOTS : 0;

	return selected->n * (sizeof(struct cast_module) + n_amaxes * sizeof(float));
}

/* Returns the module of a matrix; NULL if the matrix is kept. */
static struct cast_module *module_of(const struct fp8_forward *fp8, const struct linear_ref *ref)
{
	size_t i = fp8_select_find(fp8->selected, ref);

	return i == SIZE_MAX ? NULL : &fp8->modules[i];
}

static bool is_per_tensor(const struct fp8_forward *fp8)
{
	return fp8->selected->recipe.weight.tile.rows == WHOLE;
}

/* Was the matrix FP8 in the checkpoint? */
static bool is_fp8(const struct cast_module *module)
{
	return module->unit->source_scale.scale;
}

bool fp8_forward_wants_amax(const struct fp8_forward *fp8, const struct linear_ref *ref)
{
	const struct cast_module *module = module_of(fp8, ref);

	return module && is_per_tensor(fp8) && !is_fp8(module) &&
	       !fp8->groups[module->unit->scale_group].known;
}

void fp8_forward_raise_amax(struct fp8_forward *fp8, const struct linear_ref *ref, float amax)
{
	const struct cast_module *module = module_of(fp8, ref);
	struct shared_scale *group;

	if (!module)
		return;
	group = &fp8->groups[module->unit->scale_group];
	group->amax = amax_max(group->amax, amax);
	group->known = true;
}

const struct input_cast *fp8_forward_cast(const struct fp8_forward *fp8,
					  const struct linear_ref *ref)
{
	const struct cast_module *module = module_of(fp8, ref);

	return module ? &module->cast : NULL;
}

bool fp8_forward_is_bf16(const struct fp8_forward *fp8)
{
	return fp8_select_is_bf16(fp8->selected);
}

/* Returns how many matrices the rows belong to in turn. */
static size_t n_alternating(const struct fp8_forward *fp8, const struct linear_ref *ref)
{
	return fp8_select_alternates(fp8->selected, ref) ? 2 : 1;
}

struct tile fp8_forward_tile(const struct fp8_forward *fp8, const struct linear_ref *ref)
{
	const struct cast_module *module = module_of(fp8, ref);
	struct tile tile = fp8->selected->recipe.weight.tile;

	if (!module || is_per_tensor(fp8) || is_fp8(module))
		return (struct tile){ 1, 1 };
	tile.rows *= n_alternating(fp8, ref);
	return tile;
}

/* Quantizes part of a weight, and writes its values to values, in rows that are y_stride apart.  A
 * weight does not change, so delayed scaling too takes its scale from the weight itself, as after
 * its first step. */
static int emulate(const struct fp8_forward *fp8, struct cast_module *module,
		   const struct matrix *x, float *values, size_t y_stride, struct err *err)
{
	struct quantizer quantizer = quantizer_of(&module->state, SLOT_WEIGHT);
	struct quant_stats stats = { 0 };
	struct quantized_tensor t;
	float scale;

	quantizer.scale = quantizer.amax = NULL;
	if (is_per_tensor(fp8)) {
		scale = scale_from_amax(fp8->groups[module->unit->scale_group].amax,
					scale_fmax(&quantizer.spec), F32_MAX, quantizer.spec.pow2);
		quantizer.scale = &scale;
	}
	if (quantizer_make_empty(&quantizer, x->rows, x->cols, &t, err))
		return -1;
	quantizer_quantize(&quantizer, fp8->backend, x, &t, &stats);
	quantized_tensor_dequantize(&t, fp8->backend, DT_F32, values, y_stride);
	quantized_tensor_release(&t);
	return backend_failed(fp8->backend, module->unit->name, err);
}

int fp8_forward_quantize(struct fp8_forward *fp8, const struct linear_ref *ref,
			 const struct matrix *x, float *values, struct matrix *y, struct err *err)
{
	struct cast_module *module = module_of(fp8, ref);
	size_t n = n_alternating(fp8, ref);
	struct matrix rows = *x;

	*y = *x;
	if (is_fp8(module))
		return 0;
	rows.stride *= n;
	for (size_t i = 0; i < n; i++) {
		rows.rows = (x->rows - i + n - 1) / n;
		rows.data = (const char *)x->data + i * x->stride * dtype_bits(x->dtype) / 8;
		if (emulate(fp8, module, &rows, values + i * x->cols, n * x->cols, err))
			return -1;
	}
	*y = (struct matrix){ values, DT_F32, x->rows, x->cols, x->cols };
	return 0;
}

/* Calls f with each module of a layer, and its place: by role, then by expert. */
static void each_module(struct fp8_forward *fp8, const struct layer *layer,
			void (*f)(struct cast_module *module, size_t place, void *context),
			void *context)
{
	for (size_t i = 0; i < layer_n_linears(layer->ref); i++)
		if (layer_linear(layer, i)->cast)
			f(module_of(fp8, layer_linear(layer, i)->ref), i, context);
}

static void touch(struct cast_module *module, size_t place, void *contexts)
{
	context_touch(contexts, &module->state);
	if (!module->state.recipe->needs_history)
		return;
	module->cast.scale = module->state.history.scale[SLOT_INPUT];
	module->cast.scale_inv = 1 / module->cast.scale;
	module->cast.stats = place;
}

void fp8_forward_touch(struct fp8_forward *fp8, struct context_stack *contexts,
		       const struct layer *layer)
{
	each_module(fp8, layer, touch, contexts);
}

static void raise_amax(struct cast_module *module, size_t place, void *context)
{
	const struct value_stats *stats = context;
	float *amax = &module->state.history.amax[SLOT_INPUT];

	*amax = amax_max(*amax, stats[place].amax);
}

int fp8_forward_take_amaxes(struct fp8_forward *fp8, const struct layer *layer,
			    struct workspace *workspace, struct err *err)
{
	if (!fp8->selected->recipe.needs_history)
		return 0;
	if (workspace_take_cast_stats(workspace, err))
		return -1;
	each_module(fp8, layer, raise_amax, workspace->host.cast_stats);
	return 0;
}

void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x)
{
	const float reduced[N_FORWARD_SLOTS] = { [SLOT_INPUT] = amax_x };
	struct cast_module *module = module_of(fp8, ref);

	if (module)
		recipe_state_update(&module->state, reduced);
}
