/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration says what was meant, the tensors what was done: names, tiles and types come
 * from the tensors, the rest from the configuration, and where there is none, from the first row of
 * a format that would write such tensors.
 */
#include "format/detect.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "format/variant.h"
#include "format/read_config.h"
#include "format/scale_names.h"
#include "num/fp8.h"

/* The weights of one granularity: their number, and the first one with its scale. */
struct sort {
	size_t n;
	const struct tensor_ref *weight;
	struct weight_scale scale;
};

bool detection_is_weight(const struct tensor_ref *tensor)
{
	const struct st_tensor *t = tensor->tensor;

	return (t->dtype == DT_F8_E4M3 || t->dtype == DT_F8_E5M2) && t->n_dims >= 2 &&
	       t->n_dims <= 3 && !scale_name_find(t->name);
}

enum granularity weight_scale_granularity(const struct weight_scale *scale)
{
	struct tile tile = scale->tile;

	if (scale->scale_type == SCALE_E8M0 && tile.rows == 1 && tile.cols == 32)
		return GRANULARITY_MX;
	if (tile.rows == WHOLE && tile.cols == WHOLE)
		return GRANULARITY_TENSOR;
	if (tile.rows == WHOLE || tile.cols == WHOLE)
		return GRANULARITY_CHANNEL;
	return GRANULARITY_BLOCK;
}

int detection_scale(const struct detection *detection, const struct tensor_ref *weight,
		    struct weight_scale *scale, struct err *err)
{
	*scale = (struct weight_scale){
		.scale = scale_beside(detection->checkpoint, weight->tensor->name),
		.inverted = detection->inverted,
	};
	if (!scale->scale)
		return err_set(err, ERR_INPUT, "FP8 tensor '%s' has no scale",
			       weight->tensor->name);
	if (scale_tile(weight->tensor, scale->scale->tensor, detection->declared_tile, &scale->tile,
		       &scale->scale_type))
		return 0;
	return err_set(err, ERR_INPUT,
		       "scale '%s' is %s %s, which does not fit any tiling of %s of '%s'",
		       scale->scale->tensor->name, dtype_name(scale->scale->tensor->dtype),
		       st_shape(scale->scale->tensor).text, st_shape(weight->tensor).text,
		       weight->tensor->name);
}

static void sort_weight(const struct detection *detection, const struct tensor_ref *weight,
			struct sort sorts[N_GRANULARITIES])
{
	struct weight_scale scale;
	struct err ignored;
	struct sort *sort;

	if (detection_scale(detection, weight, &scale, &ignored) ||
	    scale_is_shared(weight->tensor->name, scale.scale->tensor->name))
		return; /* a table has a scheme of its own */
	sort = &sorts[weight_scale_granularity(&scale)];
	if (!sort->n++) {
		sort->weight = weight;
		sort->scale = scale;
	}
}

/* Returns the granularity that most weights of a mixed checkpoint have. */
static const struct sort *sort_commonest(const struct sort sorts[N_GRANULARITIES])
{
	const struct sort *commonest = NULL;

	for (int i = 0; i < N_GRANULARITIES; i++)
		if (sorts[i].n && (!commonest || sorts[i].n > commonest->n))
			commonest = &sorts[i];
	return commonest;
}

/* Returns the format that has a variant with this scale; a preferred variant wins. */
static const char *format_guess(const struct sort *sort, const struct scheme *scheme)
{
	const struct st_tensor *scale = sort->scale.scale->tensor;
	const char *found = NULL;

	for (size_t i = 0; formats[i]; i++) {
		for (const struct variant *row = formats[i]->variants; row->method; row++) {
			if (row->granularity != scheme->granularity ||
			    row->static_input != scheme->static_input || row->refused[ENGINE_ANY] ||
			    !variant_wrote(row, scheme->tile, sort->weight->tensor, scale))
				continue;
			if (row->preferred)
				return formats[i]->name;
			found = found ? found : formats[i]->name;
		}
	}
	return found ? found : "unknown";
}

/* Returns the tool that alone writes a tensor that the weight has, or NULL. */
static const char *tool_beside(const struct checkpoint *checkpoint, const char *name)
{
	const struct scale_name *note = scale_name_beside(checkpoint, name, SCALE_NOTE);

	return note ? note->tool : scale_name_beside(checkpoint, name, SCALE_OF_WEIGHT)->tool;
}

/* The scheme of most weights overrides that of the configuration. */
static void scheme_from_tensors(struct detection *detection, const struct declaration *said,
				const struct sort *commonest)
{
	const struct checkpoint *checkpoint = detection->checkpoint;
	const char *name = commonest->weight->tensor->name;
	struct scheme *scheme = &detection->scheme;
	const char *tool;

	scheme->granularity = weight_scale_granularity(&commonest->scale);
	scheme->tile = commonest->scale.tile;
	scheme->fp8_format = fp8_of_dtype(commonest->weight->tensor->dtype);
	scheme->pow2 = said->scale_fmt || commonest->scale.scale_type == SCALE_E8M0;
	if (!said->has_input)
		scheme->static_input = scale_name_beside(checkpoint, name, SCALE_OF_INPUT) != NULL;
	tool = tool_beside(checkpoint, name);
	if (tool)
		detection->format = tool;
	else if (!detection->format)
		detection->format = format_guess(commonest, scheme);
}

static void name_scheme(struct detection *detection, bool known)
{
	if (!detection->n_weights && !detection->declared)
		return;
	detection->known = known;
	if (!known)
		detection->format = "unknown";
	detection->scale_fmt = detection->scheme.pow2 ? "ue8m0" : "float";
}

/* A tensor "scale" may be anything and counts only with an FP8 weight; a "weight_scale" counts even
 * without a weight. */
static bool is_scale(const struct detection *detection, const struct tensor_ref *tensor)
{
	const struct scale_name *word = scale_name_find(tensor->tensor->name);
	const struct tensor_ref *weight;

	if (!word)
		return false;
	if (word->role == SCALE_OF_CACHE || word->role == SCALE_NOTE || word->role == SCALE_UNUSED)
		return true;
	weight = scaled_weight(detection->checkpoint, tensor->tensor->name, word);
	return weight &&
	       (detection_is_weight(weight) || (!word->tool && word->role != SCALE_ZERO_POINT &&
						dtype_is_float(weight->tensor->dtype)));
}

/* Is it one number that the name says is of keys or values? */
static bool is_of_cache(const struct st_tensor *tensor, const char *word)
{
	static const char *const begins[] = { "k_", "v_", "kv_", "key_", "value_" };
	bool found = strstr(word, "cache");

	for (size_t i = 0; i < sizeof begins / sizeof *begins && !found; i++)
		found = !strncmp(word, begins[i], strlen(begins[i]));
	return found && dtype_is_float(tensor->dtype) &&
	       8 * st_tensor_size(tensor) == dtype_bits(tensor->dtype);
}

bool detection_is_unread(const struct checkpoint *checkpoint, const struct tensor_ref *tensor,
			 const struct tensor_ref **weight)
{
	static const char quantizer[] = "_quantizer";
	const char *name = tensor->tensor->name, *end = strrchr(name, '.'), *word = end;
	const struct scale_name *known = scale_name_find(name);
	char *beside;

	*weight = NULL;
	if (!end || (!strstr(end, "scal") && !strstr(end, "amax") && !strstr(end, "zero_point")))
		return false;
	if (known &&
	    (known->tool || known->role > SCALE_OF_INPUT || scaled_weight(checkpoint, name, known)))
		return false;
	if ((size_t)(end - name) >= sizeof quantizer &&
	    !memcmp(end - sizeof quantizer + 1, quantizer, sizeof quantizer - 1))
		while (word > name && *--word != '.')
			;
	beside = xasprintf("%.*s.weight", (int)(word - name), name);
	*weight = checkpoint_find(checkpoint, beside);
	free(beside);
	if (*weight && !detection_is_weight(*weight))
		*weight = NULL;
	return *weight || is_of_cache(tensor->tensor, word + 1);
}

static void list_scales(struct detection *detection)
{
	const struct checkpoint *checkpoint = detection->checkpoint;

	if (!detection->n_weights && !detection->declared)
		return;
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i], *weight;

		if (!is_scale(detection, ref)) {
			if (!detection->n_weights || !detection_is_unread(checkpoint, ref, &weight))
				continue;
			if (!detection->n_unread++)
				detection->unread = ref;
		}
		ARRAY_GROW(detection->scales, detection->n_scales);
		detection->scales[detection->n_scales++] = ref;
	}
}

COMPARISON(compare_names, struct tensor_ref *const, strcmp((*x)->tensor->name, (*y)->tensor->name))

bool detection_is_scale(const struct detection *detection, const struct tensor_ref *tensor)
{
	return detection->n_scales && bsearch(&tensor, detection->scales, detection->n_scales,
					      sizeof *detection->scales, compare_names);
}

int detection_make(struct detection *detection, const struct checkpoint *checkpoint,
		   struct json_text hf_quant_config, struct err *err)
{
	struct sort sorts[N_GRANULARITIES] = { 0 };
	struct declaration said;
	const struct sort *commonest;

	*detection = (struct detection){ .checkpoint = checkpoint };
	if (config_find_quantization(checkpoint, hf_quant_config, &detection->config, err))
		return -1;
	said = config_read_declaration(detection->config);
	detection->format = said.format;
	detection->declared = said.declared;
	detection->weight_only = said.weight_only;
	detection->inverted = said.inverted;
	detection->scheme = said.scheme;
	detection->declared_tile = said.scheme.tile;
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		if (detection_is_weight(&checkpoint->by_name[i])) {
			detection->n_weights++;
			sort_weight(detection, &checkpoint->by_name[i], sorts);
		}
	}
	commonest = sort_commonest(sorts);
	if (commonest)
		scheme_from_tensors(detection, &said, commonest);
	name_scheme(detection, commonest || detection->declared);
	list_scales(detection);
	return 0;
}

void detection_release(struct detection *detection)
{
	free(detection->scales);
	json_decref(detection->config);
	*detection = (struct detection){ 0 };
}
