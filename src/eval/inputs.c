/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/inputs.h"

#include <stdlib.h>

#include "backend/dispatch.h"
#include "base/sort.h"
#include "format/scale_names.h"
#include "num/fp8.h"
#include "recipe/recipe.h"
#include "source/fp8_source.h"

/* Of a tensor's scales so many are looked at. */
#define FEW_SCALES 4096

/* Sets *pow2: are the scales of a weight powers of two? */
static int are_pow2(const struct tensor_ref *scale, struct source *source, bool *pow2,
		    struct err *err)
{
	uint64_t n = st_n_elements(scale->tensor->shape, scale->tensor->n_dims);
	const struct floats_request request = { .ref = scale,
						.n = n < FEW_SCALES ? n : FEW_SCALES };
	float values[FEW_SCALES];

	if (source_read_floats(source, &request, values, err))
		return -1;
	*pow2 = true;
	for (uint64_t i = 0; i < request.n; i++)
		*pow2 = *pow2 && f32_is_pow2(values[i]);
	return 0;
}

/* Sets *spec to the cast of inputs that engines make for weights with such scales. */
static int find_spec(const struct tensor_ref *weight, const struct weight_scale *scale,
		     struct source *source, struct qspec *spec, struct err *err)
{
	enum granularity granularity = weight_scale_granularity(scale);

	*spec = recipe_of_scheme(granularity, false)->input;
	spec->format = fp8_of_dtype(weight->tensor->dtype);
	if (granularity != GRANULARITY_BLOCK)
		return 0;
	spec->tile.cols = scale->tile.cols;
	return scale->scale_type == SCALE_E8M0 ? 0
					       : are_pow2(scale->scale, source, &spec->pow2, err);
}

/* Reads the static scale of a matrix's input, if the checkpoint has one. */
static int read_static(struct engine_cast *cast, struct source *source, const char *weight,
		       struct err *err)
{
	const struct tensor_ref *scale = input_scale_beside(source->checkpoint, weight);
	const struct floats_request request = { .ref = scale, .n = 1 };

	if (!scale)
		return 0;
	if (st_n_elements(scale->tensor->shape, scale->tensor->n_dims) != 1)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has more than one input scale, which is unsupported: "
			       "use --activations bf16",
			       scale->tensor->name);
	if (source_read_floats(source, &request, &cast->scale_inv, err))
		return -1;
	if (cast->scale_inv > 0 && cast->scale_inv <= F32_MAX) {
		cast->spec.tile = (struct tile){ WHOLE, WHOLE };
		cast->spec.arith = ARITH_GIVEN;
		cast->spec.pow2 = false;
		return 0;
	}
	return err_set(err, ERR_INPUT, "tensor '%s' has the value %g, but a scale must be positive",
		       scale->tensor->name, (double)cast->scale_inv);
}

/* Matrices that share an input are near each other. */
#define NEAR_CASTS 16

/* Returns the index of an equal cast among the last ones, or else of a new one. */
static size_t share(struct engine_inputs *inputs, const struct engine_cast *cast)
{
	for (size_t i = inputs->n_casts; i-- > 0 && inputs->n_casts - i <= NEAR_CASTS;)
		if (qspec_equal(&inputs->casts[i].spec, &cast->spec) &&
		    inputs->casts[i].scale_inv == cast->scale_inv)
			return i;
	ARRAY_GROW(inputs->casts, inputs->n_casts);
	inputs->casts[inputs->n_casts] = *cast;
	return inputs->n_casts++;
}

static int add(struct engine_inputs *inputs, const struct detection *detection,
	       struct source *source, const struct linear_ref *ref, struct err *err)
{
	struct engine_cast cast = { 0 };
	struct weight_scale scale;

	if (!ref->weight || !detection_is_weight(ref->weight))
		return 0;
	if (fp8_source_scale(detection, ref->weight, &scale, err))
		return -1;
	if (find_spec(ref->weight, &scale, source, &cast.spec, err) ||
	    read_static(&cast, source, ref->weight->tensor->name, err))
		return -1;
	ARRAY_GROW(inputs->list, inputs->n);
	inputs->list[inputs->n++] = (struct engine_input){ ref, share(inputs, &cast) };
	return 0;
}

static int add_all(struct engine_inputs *inputs, const struct detection *detection,
		   const struct model *model, struct source *source, struct err *err)
{
	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		for (int l = 0; l < N_LINEARS; l++)
			if (add(inputs, detection, source, &layer->linear[l], err))
				return -1;
		for (size_t e = 0; e < layer->n_experts; e++)
			for (int l = 0; l < N_EXPERT_ROLES; l++)
				if (add(inputs, detection, source, &layer->experts[e][l], err))
					return -1;
	}
	return add(inputs, detection, source, &model->head, err);
}

static int by_ref(const void *a, const void *b)
{
	uintptr_t x = (uintptr_t)((const struct engine_input *)a)->ref;
	uintptr_t y = (uintptr_t)((const struct engine_input *)b)->ref;

	return (x > y) - (x < y);
}

int engine_inputs_make(struct engine_inputs *inputs, const struct model *model,
		       struct source *source, int n_lanes, struct err *err)
{
	struct detection detection;
	int rc;

	*inputs = (struct engine_inputs){ .backend = source->backend, .n_lanes = n_lanes };
	inputs->lanes = xcalloc((size_t)n_lanes, sizeof *inputs->lanes);
	rc = fp8_source_detect(&detection, source->checkpoint, source->io, err);
	if (!rc && !detection.weight_only)
		rc = add_all(inputs, &detection, model, source, err);
	detection_release(&detection);
	sort(inputs->list, inputs->n, sizeof *inputs->list, by_ref);
	return rc;
}

void engine_inputs_release(struct engine_inputs *inputs)
{
	for (int i = 0; i < inputs->n_lanes; i++) {
		buffer_release(&inputs->lanes[i].codes);
		buffer_release(&inputs->lanes[i].scales);
		buffer_release(&inputs->lanes[i].values);
	}
	free(inputs->lanes);
	free(inputs->casts);
	free(inputs->list);
	*inputs = (struct engine_inputs){ 0 };
}

void engine_inputs_mark(const struct engine_inputs *inputs, struct linear *linear)
{
	const struct engine_input wanted = { .ref = linear->ref }, *found;

	if (!linear->ref || !inputs->n)
		return;
	found = bsearch(&wanted, inputs->list, inputs->n, sizeof wanted, by_ref);
	linear->module = found ? &inputs->casts[found->cast] : NULL;
}

void engine_inputs_mark_layer(const struct engine_inputs *inputs, struct layer *layer)
{
	for (int l = 0; l < N_LINEARS; l++)
		engine_inputs_mark(inputs, &layer->linear[l]);
	for (size_t e = 0; e < layer->ref->n_experts; e++)
		for (int l = 0; l < N_EXPERT_ROLES; l++)
			engine_inputs_mark(inputs, &layer->experts[e][l]);
}

/* Returns how many values became zero and were none. */
static uint64_t count_zeros(const float *x, const float *cast, uint64_t n)
{
	uint64_t zeros = 0;

	for (uint64_t i = 0; i < n; i++)
		zeros += cast[i] == 0 && x[i] != 0;
	return zeros;
}

/* Casts x by the cast that `from` was marked with. */
static int apply(void *context, const struct filter_input *from, const float **values,
		 struct err *err)
{
	static const char what[] = "the input of a product in FP8";
	struct engine_inputs *inputs = context;
	const struct engine_cast *cast = from->linear->module;
	const struct qspec *spec = &cast->spec;
	struct engine_lane *lane = &inputs->lanes[from->worker];
	size_t k = from->linear->ref->k, cols = tile_count(k, spec->tile.cols);
	const struct matrix x = { from->x, DT_F32, from->m, k, k };
	uint64_t n = (uint64_t)from->m * k, n_scales = tile_count(from->m, spec->tile.rows) * cols;
	struct quant_stats stats = { 0 };
	float scale = 1 / cast->scale_inv;
	struct quant_out out;
	struct quant_in in;

	if (buffer_ensure(&lane->codes, n, what, err) ||
	    buffer_ensure(&lane->scales, n_scales * sizeof(float), what, err) ||
	    buffer_ensure(&lane->values, n * sizeof(float), what, err))
		return -1;
	out = (struct quant_out){ .codes = lane->codes.data,
				  .stride = k,
				  .scale_inv = lane->scales.data,
				  .scale_stride = cols,
				  .stats = &stats };
	in = (struct quant_in){ .codes = lane->codes.data,
				.rows = from->m,
				.cols = k,
				.stride = k,
				.format = spec->format,
				.tile = spec->tile,
				.scale_type = spec->scale_type,
				.scale_inv = lane->scales.data,
				.scale_stride = cols };
	if (cast->scale_inv > 0) {
		backend_cast(inputs->backend, &x, spec, &scale, 1, &out);
		in.scale_inv = &cast->scale_inv;
	} else {
		backend_quantize(inputs->backend, &x, spec, &out);
	}
	backend_dequantize(inputs->backend, &in, DT_F32, lane->values.data, k);
	*values = lane->values.data;
	lane->counts.n += n;
	lane->counts.saturated += stats.saturated;
	lane->counts.zeros += count_zeros(from->x, lane->values.data, n);
	return backend_failed(inputs->backend, from->linear->ref->module, err);
}

struct cast_counts engine_inputs_counts(const struct engine_inputs *inputs, int worker)
{
	return inputs->n ? inputs->lanes[worker].counts : (struct cast_counts){ 0 };
}

struct input_filter engine_inputs_filter(struct engine_inputs *inputs)
{
	return (struct input_filter){ inputs, apply };
}
