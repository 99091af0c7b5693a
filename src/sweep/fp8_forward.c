/* SPDX-License-Identifier: Apache-2.0 */
#include "sweep/fp8_forward.h"

#include <pthread.h>
#include <stdlib.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "num/bits.h"
#include "num/scale.h"

struct module {
	const struct unit *unit;
	struct recipe_state state; /* of one forward product */
	struct input_cast cast;	   /* in the current step */
};

/* Weights that share a scale. */
struct shared {
	float amax;
	size_t n_members, n_known;
};

struct fp8_forward {
	const struct fp8_selection *selected;
	const struct backend *backend;
	pthread_mutex_t lock;	/* of the amaxes in groups */
	struct module *modules; /* by index in selected->units */
	struct shared *groups;
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
	pthread_mutex_init(&fp8->lock, NULL);
	fp8->modules = xcalloc(selected->n, sizeof *fp8->modules);
	fp8->groups = xcalloc(selected->selection.n_scale_groups, sizeof *fp8->groups);
	for (size_t i = 0; i < selected->n; i++) {
		struct module *module = &fp8->modules[i];

		module->unit = selected->units[i];
		module->cast = first_cast(&selected->recipe);
		recipe_state_init(&module->state, &selected->recipe, MODE_FORWARD, 1);
		fp8->groups[module->unit->scale_group].n_members++;
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
	pthread_mutex_destroy(&fp8->lock);
	free(fp8);
}

uint64_t fp8_forward_size(const struct fp8_selection *selected)
{
	const struct recipe *recipe = &selected->recipe;
	size_t n_amaxes =
		recipe->needs_history ? (size_t)recipe->amax_history_len * N_FORWARD_SLOTS : 0;

	return selected->n * (sizeof(struct module) + n_amaxes * sizeof(float));
}

/* Returns the module of a matrix; NULL if the matrix is kept. */
static struct module *module_of(struct fp8_forward *fp8, const struct linear_ref *ref)
{
	size_t i = fp8_select_find(fp8->selected, ref);

	return i == SIZE_MAX ? NULL : &fp8->modules[i];
}

/* Quantizes a weight of the module, and writes its values to values, as far apart as those of x. */
static int emulate(const struct fp8_forward *fp8, const struct module *module,
		   const struct quantizer *quantizer, const struct matrix *x, float *values,
		   struct err *err)
{
	struct quantized_tensor t;
	struct quant_stats stats = { 0 };

	if (quantizer_make_empty(quantizer, x->rows, x->cols, &t, err))
		return -1;
	quantizer_quantize(quantizer, fp8->backend, x, &t, &stats);
	quantized_tensor_dequantize(&t, fp8->backend, DT_F32, values, x->stride);
	quantized_tensor_release(&t);
	return backend_failed(fp8->backend, module->unit->name, err);
}

static bool has_history(const struct fp8_forward *fp8)
{
	return fp8->selected->recipe.needs_history;
}

static bool is_per_tensor(const struct fp8_forward *fp8)
{
	return fp8->selected->recipe.weight.tile.rows == WHOLE;
}

bool fp8_forward_wants_amax(struct fp8_forward *fp8, const struct linear_ref *ref)
{
	const struct module *module = module_of(fp8, ref);
	const struct shared *group;
	bool needed;

	if (!module || !is_per_tensor(fp8) || module->unit->source_scale.scale)
		return false;
	group = &fp8->groups[module->unit->scale_group];
	pthread_mutex_lock(&fp8->lock);
	needed = group->n_members > 1 && group->n_known < group->n_members;
	pthread_mutex_unlock(&fp8->lock);
	return needed;
}

void fp8_forward_set_amax(struct fp8_forward *fp8, const struct linear_ref *ref, float amax)
{
	const struct module *module = module_of(fp8, ref);
	struct shared *group;

	if (!module)
		return;
	group = &fp8->groups[module->unit->scale_group];
	pthread_mutex_lock(&fp8->lock);
	group->amax = amax_max(group->amax, amax);
	group->n_known++;
	pthread_mutex_unlock(&fp8->lock);
}

/* Quantizes a weight.  A weight does not change, so delayed scaling too takes its scale from the
 * weight itself, as after its first step. */
static int quantize_weight(struct fp8_forward *fp8, struct module *module, float amax,
			   const struct matrix *x, float *values, struct err *err)
{
	struct quantizer quantizer = quantizer_of(&module->state, SLOT_WEIGHT);
	float scale;

	quantizer.scale = quantizer.amax = NULL;
	if (is_per_tensor(fp8)) {
		amax = amax_max(amax, fp8->groups[module->unit->scale_group].amax);
		scale = scale_from_amax(amax, scale_fmax(&quantizer.spec), F32_MAX,
					quantizer.spec.pow2);
		quantizer.scale = &scale;
	}
	return emulate(fp8, module, &quantizer, x, values, err);
}

/* Quantizes the rows that belong together: all, or every second one and then the others. */
static int quantize_rows(struct fp8_forward *fp8, struct module *module,
			 const struct linear *linear, const struct matrix *x, float *values,
			 struct err *err)
{
	size_t n = fp8_select_alternates(fp8->selected, linear->ref) ? 2 : 1;
	struct matrix rows = *x;

	rows.rows /= n;
	rows.stride *= n;
	for (size_t i = 0; i < n; i++) {
		rows.data = (const float *)x->data + i * x->stride;
		if (quantize_weight(fp8, module, linear->amax, &rows, values + i * x->stride, err))
			return -1;
	}
	return 0;
}

static bool all_bf16(const float *values, size_t n)
{
	uint32_t lower = 0;

	for (size_t i = 0; i < n; i++)
		lower |= f32_bits(values[i]);
	return (lower & 0xFFFF) == 0;
}

int fp8_forward_weight(struct fp8_forward *fp8, struct linear *linear, const struct matrix *x,
		       float *values, struct err *err)
{
	struct module *module = module_of(fp8, linear->ref);

	if (!module)
		return 0;
	if (!module->unit->source_scale.scale && quantize_rows(fp8, module, linear, x, values, err))
		return -1;
	linear->cast = &module->cast;
	if (!fp8_select_is_bf16(fp8->selected) || !all_bf16(values, x->rows * x->cols))
		linear->input = DT_F32;
	return 0;
}

/* Calls f with each module of a layer, and its place: by role, then by expert. */
static void each_module(struct fp8_forward *fp8, const struct layer *layer,
			void (*f)(struct module *module, size_t place, void *context),
			void *context)
{
	size_t place = 0;

	for (int i = 0; i < N_LINEARS; i++, place++)
		if (layer->linear[i].cast)
			f(module_of(fp8, layer->linear[i].ref), place, context);
	for (size_t e = 0; e < layer->ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++, place++)
			if (layer->experts[e][i].cast)
				f(module_of(fp8, layer->experts[e][i].ref), place, context);
}

static void touch(struct module *module, size_t place, void *contexts)
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

static void raise_amax(struct module *module, size_t place, void *context)
{
	const struct value_stats *stats = context;
	float *amax = &module->state.history.amax[SLOT_INPUT];

	*amax = amax_max(*amax, stats[place].amax);
}

int fp8_forward_take_amaxes(struct fp8_forward *fp8, const struct layer *layer,
			    struct workspace *workspace, struct err *err)
{
	if (!has_history(fp8))
		return 0;
	if (workspace_take_cast_stats(workspace, err))
		return -1;
	each_module(fp8, layer, raise_amax, workspace->host.cast_stats);
	return 0;
}

void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x)
{
	const float reduced[N_FORWARD_SLOTS] = { [SLOT_INPUT] = amax_x };
	struct module *module = module_of(fp8, ref);

	if (module)
		recipe_state_update(&module->state, reduced);
}
