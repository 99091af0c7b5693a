/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources that are quantized already: refused, or with --requantize read through their scales.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "format/recognise.h"
#include "job/select_internal.h"

static bool is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

static bool is_foreign_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3FNUZ || dtype == DT_F8_E5M2FNUZ;
}

/* Types that hold several low-precision weights an element, or integers with scales elsewhere. */
static bool is_packed(const struct st_tensor *tensor)
{
	enum dtype dtype = tensor->dtype;

	return tensor->n_dims >= 2 && (dtype == DT_I8 || dtype == DT_U8 || dtype == DT_I32);
}

static bool has_fp8(const struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		enum dtype dtype = checkpoint->tensors[i].tensor->dtype;

		if (is_fp8(dtype) || is_foreign_fp8(dtype))
			return true;
	}
	return false;
}

/* Our quantization_config takes the place of the source's, so weights in its format would be read
 * in ours. */
static int refuse_packed(const struct select *select, const struct st_tensor *tensor,
			 struct err *err)
{
	const char *method = select->config.quant_method;

	return err_set(
		err, ERR_INPUT,
		"tensor '%s' is %s in a source that is quantized already (quant_method '%s'): "
		"only FP8 can be converted again",
		tensor->name, dtype_name(tensor->dtype), method ? method : "unknown");
}

static int check_fp8(const struct select *select, const struct st_tensor *tensor, struct err *err)
{
	if (is_foreign_fp8(tensor->dtype))
		return err_set(err, ERR_INPUT, "tensor '%s' is %s, which cannot be read",
			       tensor->name, dtype_name(tensor->dtype));
	if (is_fp8(tensor->dtype) && !select->options->requantize)
		return err_set(err, ERR_USAGE,
			       "tensor '%s' is %s already: --requantize converts an FP8 source",
			       tensor->name, dtype_name(tensor->dtype));
	return 0;
}

/* Bands are cut at multiples of this (job/band.c). */
#define BLOCK_MOST 128

static bool is_readable(size_t side)
{
	return side == WHOLE || (side <= BLOCK_MOST && BLOCK_MOST % side == 0);
}

static int find_scale(const struct recognition *recognition, const struct tensor_ref *weight,
		      struct weight_scale *scale, struct err *err)
{
	if (weight->tensor->n_dims != 2)
		return err_set(err, ERR_INPUT, "FP8 tensor '%s' has %d dimensions, not 2",
			       weight->tensor->name, weight->tensor->n_dims);
	if (recognition_scale(recognition, weight, scale, err))
		return -1;
	if (!is_readable(scale->tile.rows) || !is_readable(scale->tile.cols))
		return err_set(err, ERR_INPUT,
			       "FP8 tensor '%s' has a scale for each block of %zu x %zu: blocks that can "
			       "be read divide %d",
			       weight->tensor->name, scale->tile.rows, scale->tile.cols, BLOCK_MOST);
	if (scale->inverted)
		return err_set(err, ERR_INPUT,
			       "scale '%s' divides instead of multiplying: --requantize cannot "
			       "read it, 'fp8conv dequantize' can",
			       scale->scale->tensor->name);
	return 0;
}

/* Without FP8 there is nothing to recognise, but packed weights of another scheme. */
static int check_plain(const struct select *select, struct err *err)
{
	const struct checkpoint *checkpoint = select->checkpoint;

	for (size_t i = 0; select->config.has_quantization && i < checkpoint->n_tensors; i++)
		if (is_packed(checkpoint->tensors[i].tensor))
			return refuse_packed(select, checkpoint->tensors[i].tensor, err);
	return 0;
}

static int check_tensor(const struct select *select, const struct recognition *recognition,
			size_t i, struct weight_scale *scale, bool *is_scale, struct err *err)
{
	const struct tensor_ref *ref = &select->checkpoint->tensors[i];

	*is_scale = recognition_is_scale(recognition, ref);
	if (*is_scale)
		return 0;
	if (is_packed(ref->tensor) && select->config.has_quantization)
		return refuse_packed(select, ref->tensor, err);
	if (check_fp8(select, ref->tensor, err))
		return -1;
	return is_fp8(ref->tensor->dtype) ? find_scale(recognition, ref, scale, err) : 0;
}

int select_fp8(const struct select *select, struct weight_scale **scales, bool **is_scale,
	       struct err *err)
{
	const struct checkpoint *checkpoint = select->checkpoint;
	struct recognition recognition = { 0 };
	int rc = -1;

	*scales = NULL;
	*is_scale = NULL;
	if (!has_fp8(checkpoint))
		return check_plain(select, err);
	*scales = xcalloc(checkpoint->n_tensors, sizeof **scales);
	*is_scale = xcalloc(checkpoint->n_tensors, sizeof **is_scale);
	if (recognition_make(&recognition, checkpoint, err))
		goto out;
	for (size_t i = 0; i < checkpoint->n_tensors; i++)
		if (check_tensor(select, &recognition, i, &(*scales)[i], &(*is_scale)[i], err))
			goto out;
	rc = 0;
out:
	recognition_release(&recognition);
	return rc;
}
