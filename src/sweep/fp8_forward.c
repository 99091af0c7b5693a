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
	struct quantizer input;
};

/* Weights that share a scale. */
struct shared {
	float amax;
	size_t n_members, n_known;
};

struct fp8_forward {
	const struct fp8_selection *selected;
	const struct backend *backend;
	pthread_mutex_t lock;	/* of the amaxes in groups and states */
	struct module *modules; /* by index in selected->units */
	struct shared *groups;
	struct buffer *inputs; /* values of a quantized input, by thread */
	int n_lanes;
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

struct fp8_forward *fp8_forward_new(const struct fp8_selection *selected,
				    const struct backend *backend, int n_lanes)
{
	struct fp8_forward *fp8 = xcalloc(1, sizeof *fp8);

	*fp8 = (struct fp8_forward){ .selected = selected, .backend = backend, .n_lanes = n_lanes };
	pthread_mutex_init(&fp8->lock, NULL);
	fp8->modules = xcalloc(selected->n, sizeof *fp8->modules);
	fp8->groups = xcalloc(selected->selection.n_scale_groups, sizeof *fp8->groups);
	fp8->inputs = xcalloc((size_t)n_lanes, sizeof *fp8->inputs);
	for (size_t i = 0; i < selected->n; i++) {
		struct module *module = &fp8->modules[i];

		module->unit = selected->units[i];
		recipe_state_init(&module->state, &selected->recipe, MODE_FORWARD, 1);
		module->input = quantizer_of(&module->state, SLOT_INPUT);
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
	for (int i = 0; i < fp8->n_lanes; i++)
		buffer_release(&fp8->inputs[i]);
	free(fp8->modules);
	free(fp8->groups);
	free(fp8->inputs);
	pthread_mutex_destroy(&fp8->lock);
	free(fp8);
}

uint64_t fp8_forward_size(const struct fp8_selection *selected, size_t max_tokens, int n_lanes)
{
	const struct recipe *recipe = &selected->recipe;
	size_t n_amaxes =
		recipe->needs_history ? (size_t)recipe->amax_history_len * N_FORWARD_SLOTS : 0;
	uint64_t widest = 0;

	for (size_t i = 0; i < selected->n; i++)
		widest = selected->units[i]->cols > widest ? selected->units[i]->cols : widest;
	return selected->n * (sizeof(struct module) + n_amaxes * sizeof(float)) +
	       (uint64_t)n_lanes * max_tokens * widest * (sizeof(float) + 1);
}

/* Returns the module of a matrix; NULL if the matrix is kept. */
static struct module *module_of(struct fp8_forward *fp8, const struct linear_ref *ref)
{
	size_t i = fp8_select_find(fp8->selected, ref);

	return i == SIZE_MAX ? NULL : &fp8->modules[i];
}

/* Quantizes x of the module, and writes its values to values, as far apart as those of x. */
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

static int apply(void *context, const struct filter_input *from, const float **values,
		 struct err *err)
{
	struct fp8_forward *fp8 = context;
	const struct module *module = from->linear->module;
	size_t k = from->linear->ref->k;
	struct buffer *input = &fp8->inputs[from->worker];
	struct quantizer quantizer = module->input;
	const struct matrix matrix = { from->x, DT_F32, from->m, k, k };
	float *history = quantizer.amax, amax = 0;

	if (history)
		quantizer.amax = &amax;
	if (buffer_ensure(input, (uint64_t)from->m * k * sizeof(float),
			  "the input of a product in FP8", err) ||
	    emulate(fp8, module, &quantizer, &matrix, input->data, err))
		return -1;
	*values = input->data;
	if (history) {
		pthread_mutex_lock(&fp8->lock);
		*history = amax_max(*history, amax);
		pthread_mutex_unlock(&fp8->lock);
	}
	return 0;
}

struct input_filter fp8_forward_filter(struct fp8_forward *fp8)
{
	return (struct input_filter){ fp8, apply };
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
	linear->module = module;
	if (!fp8_select_is_bf16(fp8->selected) || !all_bf16(values, x->rows * x->cols))
		linear->input = DT_F32;
	return 0;
}

static void touch(struct fp8_forward *fp8, struct context_stack *contexts,
		  const struct linear *linear)
{
	if (linear->module)
		context_touch(contexts, &module_of(fp8, linear->ref)->state);
}

void fp8_forward_touch(struct fp8_forward *fp8, struct context_stack *contexts,
		       const struct layer *layer)
{
	for (int i = 0; i < N_LINEARS; i++)
		touch(fp8, contexts, &layer->linear[i]);
	for (size_t e = 0; e < layer->ref->n_experts; e++)
		for (int i = 0; i < N_EXPERT_ROLES; i++)
			touch(fp8, contexts, &layer->experts[e][i]);
}

void fp8_forward_update(struct fp8_forward *fp8, const struct linear_ref *ref, float amax_x)
{
	const float reduced[N_FORWARD_SLOTS] = { [SLOT_INPUT] = amax_x };
	struct module *module = module_of(fp8, ref);

	if (module)
		recipe_state_update(&module->state, reduced);
}
