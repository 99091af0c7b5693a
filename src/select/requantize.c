/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that are already quantized: refused, or with --requantize read through their scales.
 * Scales beside weights of high precision that become FP8 are refused.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/read_config.h"
#include "format/scale_names.h"
#include "names/role.h"
#include "source/fp8_source.h"
#include "select/steps.h"

static bool has_fp8(const struct select *select)
{
	const struct checkpoint *checkpoint = select->checkpoint;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (dtype_is_any_fp8(checkpoint->tensors[i].tensor->dtype) &&
		    !low_bit_of(select->low_bit, i)) /* NVFP4 has scales of FP8 */
			return true;
	return false;
}

static int find_scale(const struct detection *detection, const struct tensor_ref *weight,
		      struct weight_scale *scale, struct err *err)
{
	if (!detection_is_weight(weight))
		return err_set(err, ERR_INPUT, "FP8 tensor '%s' has %d dimensions, not 2 or 3",
			       weight->tensor->name, weight->tensor->n_dims);
	if (fp8_source_scale(detection, weight, scale, err))
		return -1;
	if (scale->inverted)
		return err_set(err, ERR_INPUT,
			       "scale '%s' is a divisor, not a multiplier, which --requantize "
			       "cannot read: use 'fp8conv dequantize'",
			       scale->scale->tensor->name);
	return 0;
}

/* Is the tensor a parameter of a router? */
static bool is_of_router(const char *name)
{
	const char *dot = strrchr(name, '.');
	struct role_facts facts;
	char *weight;

	if (!dot)
		return false;
	weight = xasprintf("%.*s.weight", (int)(dot - name), name);
	role_of_name(&facts, weight);
	free(weight);
	return facts.role == ROLE_ROUTER;
}

/* Refuses types whose meaning is in the source's quantization_config, because the output's own one
 * replaces it.  Integers of a router are no weights: DeepSeek-V4's "gate.tid2eid" has experts. */
static int check_type(const struct select *select, const json_t *quantization,
		      const struct st_tensor *tensor, struct err *err)
{
	const char *method = select->config.quant_method;
	bool quantized = quantization || select->config.has_quantization;

	if (quantization && !select->config.has_quantization)
		method = config_quant_method(quantization);
	return fp8_source_check_type(select->checkpoint, tensor,
				     quantized && !is_of_router(tensor->name), method, err);
}

/* Without FP8 there is nothing to detect except packed weights of another scheme. */
static int check_plain(const struct select *select, struct err *err)
{
	const struct checkpoint *checkpoint = select->checkpoint;

	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (!low_bit_of(select->low_bit, i) &&
		    check_type(select, NULL, checkpoint->tensors[i].tensor, err))
			return -1;
	return 0;
}

static int check_tensor(const struct select *select, const struct detection *detection, size_t i,
			struct weight_scale *scale, bool *is_scale, struct err *err)
{
	const struct tensor_ref *ref = &select->checkpoint->tensors[i];
	const struct st_tensor *tensor = ref->tensor;

	*is_scale = detection_is_scale(detection, ref);
	if (*is_scale || low_bit_of(select->low_bit, i))
		return 0;
	if (check_type(select, detection->config, tensor, err))
		return -1;
	if (!dtype_is_fp8(tensor->dtype))
		return 0;
	if (!select->options->requantize)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' is already %s: use --requantize to convert an FP8 "
			       "source",
			       tensor->name, dtype_name(tensor->dtype));
	return find_scale(detection, ref, scale, err);
}

int select_fp8(struct select *select, struct weight_scale **scales, bool **is_scale,
	       struct err *err)
{
	const struct checkpoint *checkpoint = select->checkpoint;
	struct detection detection = { 0 };
	int rc = -1;

	*scales = NULL;
	*is_scale = NULL;
	if (!has_fp8(select))
		return check_plain(select, err);
	*scales = xcalloc(checkpoint->n_tensors, sizeof **scales);
	*is_scale = xcalloc(checkpoint->n_tensors, sizeof **is_scale);
	if (fp8_source_detect(&detection, checkpoint, checkpoint->io, err))
		goto out;
	select->unread = detection.unread;
	select->n_unread = detection.n_unread;
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (check_tensor(select, &detection, i, &(*scales)[i], &(*is_scale)[i], err))
			goto out;
	rc = 0;
out:
	detection_release(&detection);
	return rc;
}

static int check_scale(const struct select *select, const struct candidate *c, struct err *err)
{
	const struct scale_name *word = scale_name_find(c->source->tensor->name);
	const struct tensor_ref *weight;
	const struct candidate *scaled;

	if (!word || word->tool || (word->role != SCALE_OF_WEIGHT && word->role != SCALE_OF_INPUT))
		return 0;
	weight = scaled_weight(select->checkpoint, c->source->tensor->name, word);
	scaled = weight ? candidate_find(select, weight) : NULL;
	if (!scaled || !scaled->recipe)
		return 0;
	return err_set(err, ERR_INPUT,
		       "'%s' is a scale, but '%s' is %s: remove the scale from the source, or use "
		       "--exclude to keep the weight",
		       c->source->tensor->name, weight->tensor->name,
		       dtype_name(weight->tensor->dtype));
}

int select_check_scales(const struct select *select, struct err *err)
{
	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];

		if (!c->recipe && !c->facts.weight && check_scale(select, c, err))
			return -1;
	}
	return 0;
}
