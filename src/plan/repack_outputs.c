/* SPDX-License-Identifier: Apache-2.0
 *
 * The outputs of `repack`: codes under their own names, scales under the format's.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/read_config.h"
#include "plan/repack.h"
#include "format/scale_names.h"
#include "names/cached.h"

static bool is_exponent(enum dtype dtype)
{
	return dtype == DT_U8 || dtype == DT_F8_E8M0;
}

int repack_scale(struct plan *plan, size_t u, const struct tensor_ref *source,
		 struct scale_decl *decl, bool change, struct err *err)
{
	const struct st_tensor *from = source->tensor;
	bool same = from->dtype == decl->dtype ||
		    (is_exponent(from->dtype) && is_exponent(decl->dtype));

	plan_add_scale(plan, u, same && !change ? OUTPUT_COPY : OUTPUT_RESCALED, source, decl);
	if (!change &&
	    st_n_elements(from->shape, from->n_dims) != st_n_elements(decl->shape, decl->n_dims))
		return err_set(err, ERR_USAGE,
			       "scale '%s' has %" PRIu64
			       " elements, but '%s' in format '%s' has %" PRIu64,
			       from->name, st_n_elements(from->shape, from->n_dims), decl->name,
			       plan->format->name, st_n_elements(decl->shape, decl->n_dims));
	return 0;
}

/* Adds the scale of a table, which follows its first part. */
static void add_table_scale(struct plan *plan, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct tensor_ref *scale = unit->source_scale.scale;
	const char *name = scale->tensor->name;

	if (scaled_weight(&plan->source, name, scale_name_find(name))->tensor ==
	    unit->source->tensor)
		plan_add(plan, u,
			 &(struct output_decl){ .kind = OUTPUT_COPY,
						.source = scale,
						.name = scale->tensor->name,
						.dtype = scale->tensor->dtype,
						.n_dims = scale->tensor->n_dims,
						.shape = scale->tensor->shape })
			->is_scale = true;
}

static int add_weight(struct plan *plan, size_t u, struct err *err)
{
	const struct unit *unit = &plan->selection.units[u];
	const struct weight_scale *from = &unit->source_scale;
	const struct qspec *spec = plan->units[u].spec;
	const struct tensor_ref *input = input_scale_beside(&plan->source, unit->name);
	const struct scheme scheme = scheme_from_qspec(spec, input != NULL);
	const struct scaled_weight weight = unit_scaled_weight(unit);
	const struct st_tensor *source = unit->source->tensor;
	bool spread = from->tile.rows != spec->tile.rows || from->tile.cols != spec->tile.cols;
	struct scale_decl decl;

	plan_add(plan, u,
		 &(struct output_decl){ .kind = OUTPUT_COPY,
					.name = unit->name,
					.dtype = source->dtype,
					.n_dims = source->n_dims,
					.shape = source->shape });
	plan->totals.n_converted++;
	if (unit->table) {
		add_table_scale(plan, u);
		return 0;
	}
	format_scale(plan->format, &scheme, plan->target, &weight, &decl);
	/* A type of 8 bits that is not an exponent does not get here: detection rejects it. */
	if (repack_scale(plan, u, from->scale, &decl, spread || from->inverted, err))
		return -1;
	if (!input)
		return 0;
	format_input_scale(plan->format, &scheme, plan->target, unit->name, &decl);
	return repack_scale(plan, u, input, &decl, false, err);
}

/* Does an attention, the first n bytes of name, have a scale of the other of keys and values? */
static bool has_partner(const struct detection *detection, const char *name, size_t n, char which)
{
	char other = which == 'k' ? 'v' : 'k';
	const char *found;

	for (size_t i = 0; i < detection->n_scales; i++) {
		const char *candidate = detection->scales[i]->tensor->name;

		if (!strncmp(candidate, name, n) && scale_cache(candidate, &found) == n &&
		    strchr(found, other))
			return true;
	}
	return false;
}

/* Declares a cache scale; a scale for each head keeps its shape and type.  ERR_USAGE if the format
 * has one scale for all heads, or other attentions have. */
static int cache_decl(struct plan *plan, const struct tensor_ref *ref, struct scale_decl *decl,
		      struct err *err)
{
	const struct st_tensor *scale = ref->tensor;
	const uint64_t n_heads = st_n_elements(scale->shape, scale->n_dims);

	if (n_heads > 1 && !plan->format->kv_heads)
		return err_set(err, ERR_USAGE,
			       "KV-cache scale '%s' has %" PRIu64
			       " values, one for each head, which format '%s' cannot hold: use "
			       "--format compressed-tensors",
			       scale->name, n_heads, plan->format->name);
	if (plan->kv_cache && plan->kv_heads != (n_heads > 1))
		return err_set(err, ERR_USAGE,
			       "KV-cache scale '%s' has %" PRIu64
			       " values, but other attentions %s: a configuration says one of both",
			       scale->name, n_heads, plan->kv_heads ? "one for each head" : "one");
	plan->kv_heads = n_heads > 1;
	if (n_heads <= 1)
		return 0;
	if (scale->n_dims > (int)(sizeof decl->shape / sizeof *decl->shape))
		return err_set(err, ERR_INPUT, "KV-cache scale '%s' has %d dimensions", scale->name,
			       scale->n_dims);
	decl->dtype = scale->dtype;
	decl->n_dims = scale->n_dims;
	memcpy(decl->shape, scale->shape, (size_t)scale->n_dims * sizeof *scale->shape);
	return 0;
}

/* ERR_USAGE for a scale that the format cannot hold, or that lacks its counterpart. */
static int check_cache_scale(const struct plan *plan, const struct detection *detection,
			     const char *name, size_t n, const char *cached, struct err *err)
{
	if (!n)
		return err_set(err, ERR_USAGE, "scale '%s' has no equivalent in format '%s'", name,
			       plan->format->name);
	if (!plan->format->kv_scale)
		return err_set(err, ERR_USAGE,
			       "format '%s' does not support KV-cache scale '%s': use --format "
			       "compressed-tensors or modelopt",
			       plan->format->name, name);
	if (!cached[1] && !has_partner(detection, name, n, cached[0]))
		return err_set(err, ERR_USAGE,
			       "KV-cache scale '%s' has no counterpart for the %s: engines need "
			       "both",
			       name, cached[0] == 'k' ? "values" : "keys");
	return 0;
}

/* Adds the scale of keys or values, 'k' or 'v', of an attention. */
static int add_cached(struct plan *plan, const struct tensor_ref *ref, const char *attention,
		      char which, struct err *err)
{
	struct scale_decl decl;

	format_kv_scale(
		plan->format,
		&(struct cached){ attention, which, cached_latent(&plan->source, attention) },
		&decl);
	if (cache_decl(plan, ref, &decl, err)) {
		free(decl.name);
		return -1;
	}
	plan->kv_cache = true;
	return repack_scale(plan, plan->selection.n_units - 1, ref, &decl, false, err);
}

/* Adds a cache scale as a unit of its own, after the weights.  One for both keys and values becomes
 * two. */
static int add_cache_scale(struct plan *plan, const struct detection *detection,
			   const struct tensor_ref *ref, struct err *err)
{
	const char *name = ref->tensor->name, *cached = "";
	struct selection *selection = &plan->selection;
	size_t n = scale_cache(name, &cached);
	char *attention;
	int rc = 0;

	if (check_cache_scale(plan, detection, name, n, cached, err))
		return -1;
	ARRAY_GROW(selection->units, selection->n_units);
	selection->units[selection->n_units++] = (struct unit){
		.name = ref->tensor->name, .source = ref, .reason = xstrdup("KV cache scale")
	};
	plan->totals.n_kept++;
	plan_unit_begin(plan, selection->n_units - 1);
	attention = xstrndup(name, n);
	for (const char *which = cached; !rc && *which; which++)
		rc = add_cached(plan, ref, attention, *which, err);
	free(attention);
	return rc;
}

/* Notes the tensors that no format has and no engine needs. */
static void note_unused(struct plan *plan, const struct detection *detection)
{
	const char *first = NULL;
	size_t n = 0;

	for (size_t i = 0; i < detection->n_scales; i++) {
		const char *name = detection->scales[i]->tensor->name;

		const struct scale_name *word = scale_name_find(name);

		if (!word || word->role < SCALE_ZERO_POINT)
			continue;
		first = n++ ? first : name;
	}
	if (n)
		notes_add(&plan->selection.notes, NOTE_SCALES_LEFT_OUT, first,
			  "%zu %s no equivalent in format '%s' and %s left out, first '%s'", n,
			  n == 1 ? "tensor has" : "tensors have", plan->format->name,
			  n == 1 ? "is" : "are", first);
}

/* Adds a scale that belongs to no weight; every scale must have an output. */
static int add_other_scale(struct plan *plan, const struct detection *detection,
			   const struct tensor_ref *ref, struct err *err)
{
	const struct scale_name *word = scale_name_find(ref->tensor->name);
	const struct tensor_ref *weight;

	if (detection_is_unread(&plan->source, ref, &weight) || word->role >= SCALE_NOTE)
		return 0;
	if (word->role == SCALE_OF_CACHE)
		return add_cache_scale(plan, detection, ref, err);
	weight = scaled_weight(&plan->source, ref->tensor->name, word);
	if (weight && detection_is_weight(weight))
		return 0;
	return err_set(err, ERR_USAGE, "scale '%s' belongs to no FP8 weight", ref->tensor->name);
}

/* ERR_USAGE for an FP8 cache with a scale of 1, which has no tensor, if the format needs one. */
static int check_cache(const struct plan *plan, const struct detection *detection, struct err *err)
{
	const json_t *config = detection->config;
	const json_t *algo = json_object_get(config_keys(config), "kv_cache_quant_algo");
	const json_t *scheme = json_object_get(config, "kv_cache_scheme");

	if (plan->kv_cache || ((!algo || json_is_null(algo)) && (!scheme || json_is_null(scheme))))
		return 0;
	return err_set(err, ERR_USAGE,
		       "the source configuration declares a quantized KV cache, but the "
		       "source has no KV-cache scales: format '%s' needs them",
		       plan->format->name);
}

int repack_outputs(struct plan *plan, const struct detection *detection, struct err *err)
{
	size_t n_units = plan->selection.n_units;

	plan_begin(plan, n_units + detection->n_scales, false); /* some are of KV caches */
	for (size_t u = 0; u < n_units; u++) {
		plan_unit_begin(plan, u);
		if (!plan->selection.units[u].recipe)
			plan_keep(plan, u);
		else if (add_weight(plan, u, err))
			return -1;
	}
	for (size_t i = 0; i < detection->n_scales; i++)
		if (add_other_scale(plan, detection, detection->scales[i], err))
			return -1;
	if (check_cache(plan, detection, err))
		return -1;
	note_unused(plan, detection);
	return plan_layout(plan, err);
}
