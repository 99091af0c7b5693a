/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/inputs.h"

#include <stdlib.h>

#include "base/mem.h"
#include "base/sort.h"
#include "format/scale_names.h"
#include "num/fp8.h"
#include "source/fp8_source.h"
#include "sweep/engine_cast.h"

/* Of a tensor's scales so many are looked at. */
#define FEW_SCALES 4096
/* and so many of its codes */
#define FEW_CODES (64 << 10)

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

/* The code of 256 in E4M3, and of 32768 in E5M2: a power of two, as MX exponents. */
#define POWER_CODE   0x78
#define ENOUGH_TILES 64

/* Sets *rule to that of an MX weight.  Rounding up leaves the largest code of every fifth tile
 * below that power of two (log2(256 / 224) = 0.19); rounding down leaves none there, but those that
 * compensated rounding has moved. */
static int find_mx_rule(const struct tensor_ref *weight, size_t tile, struct source *source,
			enum mx_rule *rule, struct err *err)
{
	uint64_t n = st_n_elements(weight->tensor->shape, weight->tensor->n_dims);
	size_t n_tiles = 0, n_below = 0;
	uint8_t codes[FEW_CODES];

	n = n < sizeof codes ? n / tile * tile : sizeof codes / tile * tile;
	if (source_read_bytes(source, weight, 0, (size_t)n, codes, err))
		return -1;
	for (size_t i = 0; i < n; i += tile) {
		uint8_t largest = 0;

		for (size_t j = i; j < i + tile; j++)
			largest = (codes[j] & 0x7F) > largest ? codes[j] & 0x7F : largest;
		n_tiles += largest > 0;
		n_below += largest > 0 && largest < POWER_CODE;
	}
	*rule = n_tiles >= ENOUGH_TILES && n_below < n_tiles / 20 ? MX_FLOOR : MX_UP;
	return 0;
}

/* Sets *cast to the cast of inputs that engines make for weights with such scales. */
static int find_dynamic(const struct tensor_ref *weight, const struct weight_scale *scale,
			struct source *source, struct input_cast *cast, struct err *err)
{
	enum granularity granularity = weight_scale_granularity(scale);
	enum mx_rule rule = MX_UP;
	bool pow2 = true;

	if (granularity == GRANULARITY_BLOCK && scale->scale_type != SCALE_E8M0 &&
	    are_pow2(scale->scale, source, &pow2, err))
		return -1;
	if (granularity == GRANULARITY_MX &&
	    find_mx_rule(weight, scale->tile.cols, source, &rule, err))
		return -1;
	*cast = engine_cast_dynamic(granularity, fp8_of_dtype(weight->tensor->dtype),
				    scale->tile.cols, pow2, rule);
	return 0;
}

/* Reads the static scale of a matrix's input, if the checkpoint has one. */
static int read_static(struct input_cast *cast, struct source *source, const char *weight,
		       struct err *err)
{
	const struct tensor_ref *scale = input_scale_beside(source->checkpoint, weight);
	const struct floats_request request = { .ref = scale, .n = 1 };
	float scale_inv;

	if (!scale)
		return 0;
	if (st_n_elements(scale->tensor->shape, scale->tensor->n_dims) != 1)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has more than one input scale, which is unsupported: "
			       "use --activations bf16",
			       scale->tensor->name);
	if (source_read_floats(source, &request, &scale_inv, err))
		return -1;
	if (scale_inv > 0 && scale_inv <= F32_MAX) {
		engine_cast_static(cast, scale_inv);
		return 0;
	}
	return err_set(err, ERR_INPUT, "tensor '%s' has the value %g, but a scale must be positive",
		       scale->tensor->name, (double)scale_inv);
}

static int add(struct engine_inputs *inputs, const struct detection *detection,
	       struct source *source, const struct linear_ref *ref, struct err *err)
{
	struct engine_input input = { .ref = ref };
	struct weight_scale scale;

	if (ref->weight && dtype_is_low_bit(ref->weight->tensor->dtype) &&
	    ref->weight->tensor->dtype != DT_INT4)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' is %s, whose inputs are rounded on some GPUs and not "
			       "on others: use --activations bf16",
			       ref->weight->tensor->name, dtype_name(ref->weight->tensor->dtype));
	if (!ref->weight || !detection_is_weight(ref->weight))
		return 0;
	if (fp8_source_scale(detection, ref->weight, &scale, err))
		return -1;
	if (find_dynamic(ref->weight, &scale, source, &input.cast, err) ||
	    read_static(&input.cast, source, ref->weight->tensor->name, err))
		return -1;
	ARRAY_GROW(inputs->list, inputs->n);
	inputs->list[inputs->n++] = input;
	return 0;
}

static int add_all(struct engine_inputs *inputs, const struct detection *detection,
		   const struct model *model, struct source *source, struct err *err)
{
	for (size_t i = 0; i < model->n_layers; i++) {
		const struct layer_ref *layer = &model->layers[i];

		for (size_t l = 0; l < layer_n_linears(layer); l++)
			if (add(inputs, detection, source, layer_linear_ref(layer, l), err))
				return -1;
	}
	return add(inputs, detection, source, &model->head, err);
}

COMPARISON(by_ref, struct engine_input, ORDER((uintptr_t)x->ref, (uintptr_t)y->ref))

int engine_inputs_make(struct engine_inputs *inputs, const struct model *model,
		       struct source *source, struct err *err)
{
	struct detection detection;
	int rc;

	*inputs = (struct engine_inputs){ 0 };
	rc = fp8_source_detect(&detection, source->checkpoint, source->io, err);
	if (!rc && !detection.weight_only)
		rc = add_all(inputs, &detection, model, source, err);
	detection_release(&detection);
	sort(inputs->list, inputs->n, sizeof *inputs->list, by_ref);
	return rc;
}

void engine_inputs_release(struct engine_inputs *inputs)
{
	free(inputs->list);
	*inputs = (struct engine_inputs){ 0 };
}

void engine_inputs_mark(const struct engine_inputs *inputs, struct linear *linear)
{
	const struct engine_input wanted = { .ref = linear->ref }, *found;

	if (!linear->ref || !inputs->n)
		return;
	found = bsearch(&wanted, inputs->list, inputs->n, sizeof wanted, by_ref);
	linear->cast = found ? &found->cast : NULL;
}

void engine_inputs_mark_layer(const struct engine_inputs *inputs, struct layer *layer)
{
	for (size_t l = 0; l < layer_n_linears(layer->ref); l++)
		engine_inputs_mark(inputs, layer_linear(layer, l));
}
