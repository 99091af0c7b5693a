/* SPDX-License-Identifier: Apache-2.0 */
#include "source/fp8_source.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>

#include "base/mem.h"
#include "format/foreign.h"
#include "recipe/recipe.h"

#define CONFIG_MAX ((size_t)16 << 20) /* bytes; long because of lists of modules */

/* The size at which bands are cut, or a multiple (plan/bands.c). */
#define MAX_BLOCK 128

static bool is_foreign_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3FNUZ || dtype == DT_F8_E5M2FNUZ;
}

static int read_beside(const struct checkpoint *checkpoint, const struct io *io, const char *name,
		       struct buf *text, struct err *err)
{
	char *path;
	int rc = 0;

	if (!checkpoint->directory)
		return 0;
	path = xasprintf("%s/%s", checkpoint->directory, name);
	if (io_exists(io, path))
		rc = io_read_file(io, AT_FDCWD, path, CONFIG_MAX, text, err);
	if (!rc && text->data && !text->len)
		rc = err_set(err, ERR_INPUT, "'%s' is empty: copy or download it again", path);
	free(path);
	return rc;
}

int fp8_source_hf_quant_config(const struct checkpoint *checkpoint, const struct io *io,
			       struct buf *text, struct err *err)
{
	return read_beside(checkpoint, io, HF_QUANT_CONFIG_NAME, text, err);
}

int fp8_source_params(const struct checkpoint *checkpoint, const struct io *io, struct buf *text,
		      struct err *err)
{
	if (checkpoint->config.len &&
	    (!checkpoint->n_shards || fnmatch("consolidated*", checkpoint->shards[0].name, 0)))
		return 0;
	return read_beside(checkpoint, io, PARAMS_NAME, text, err);
}

bool fp8_source_holds_heads(struct json_text params, const struct scheme *scheme)
{
	struct err ignored;
	json_t *config = json_decode(params, &ignored);
	json_int_t dim = json_integer_value(json_object_get(config, "head_dim"));
	json_int_t heads = json_integer_value(json_object_get(config, "n_heads"));
	bool latent = json_integer_value(json_object_get(config, "qk_nope_head_dim")) > 0;

	if (!dim && heads > 0)
		dim = json_integer_value(json_object_get(config, "dim")) / heads;
	json_decref(config);
	return scheme->granularity == GRANULARITY_TENSOR || latent ||
	       (dim > 0 && (json_int_t)scheme->tile.rows % dim == 0);
}

int fp8_source_detect(struct detection *detection, const struct checkpoint *checkpoint,
		      const struct io *io, struct err *err)
{
	struct buf text = { 0 };
	int rc = fp8_source_hf_quant_config(checkpoint, io, &text, err);

	if (!rc)
		rc = detection_make(detection, checkpoint,
				    (struct json_text){ text.data, text.len }, err);
	buf_release(&text);
	return rc;
}

const char *fp8_source_recipe(const struct detection *detection)
{
	const struct scheme *scheme = &detection->scheme;

	if (!detection->n_weights && !detection->declared)
		return NULL;
	if (!detection->known)
		return "unknown";
	return recipe_of_scheme(scheme->granularity, scheme->static_input)->name;
}

/* Types that pack several low-precision weights into an element, or hold integers with scales
 * elsewhere. */
static bool is_packed(const struct st_tensor *tensor)
{
	enum dtype dtype = tensor->dtype;

	return tensor->n_dims >= 2 && (dtype == DT_I8 || dtype == DT_U8 || dtype == DT_I32);
}

int fp8_source_check_type(const struct checkpoint *checkpoint, const struct st_tensor *tensor,
			  bool is_quantized, const char *method, struct err *err)
{
	const char *tool;

	if (is_foreign_fp8(tensor->dtype))
		return err_set(err, ERR_INPUT, "tensor '%s' has the unsupported type %s",
			       tensor->name, dtype_name(tensor->dtype));
	/* The quantization_config that describes its contents would be lost. */
	if (is_quantized && is_packed(tensor))
		return err_set(
			err, ERR_INPUT,
			"tensor '%s' is %s in a source that is already quantized (quant_method "
			"'%s'): only FP8 sources can be requantized",
			tensor->name, dtype_name(tensor->dtype), method ? method : "unknown");
	tool = foreign_tool(checkpoint, tensor);
	if (tool)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' is %s, as %s packs weights, which fp8conv does not "
			       "read: convert the model in high precision, or dequantize it with "
			       "that tool first",
			       tensor->name, dtype_name(tensor->dtype), tool);
	return 0;
}

static bool is_readable(size_t side)
{
	return side == WHOLE || (side <= MAX_BLOCK && MAX_BLOCK % side == 0);
}

int fp8_source_scale(const struct detection *detection, const struct tensor_ref *weight,
		     struct weight_scale *scale, struct err *err)
{
	if (detection_scale(detection, weight, scale, err))
		return -1;
	if (is_readable(scale->tile.rows) && is_readable(scale->tile.cols))
		return 0;
	return err_set(err, ERR_INPUT,
		       "FP8 tensor '%s' has a scale for each block of %zu x %zu: supported "
		       "block sizes divide %d",
		       weight->tensor->name, scale->tile.rows, scale->tile.cols, MAX_BLOCK);
}
