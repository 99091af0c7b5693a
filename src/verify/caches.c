/* SPDX-License-Identifier: Apache-2.0
 *
 * The scales of KV caches: their names, shapes and values, and whether none is missing.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/check_config.h"
#include "format/scale_names.h"
#include "model/cached.h"
#include "model/tensor_name.h"
#include "num/scale.h"
#include "verify/steps.h"

/* The name of a scale, "A.k_scale" or "A.k_proj.k_scale". */
struct cache_name {
	char which;   /* 'k' or 'v' */
	char *module; /* "A" */
	bool below;   /* of a projection */
};

/* Returns false where the name is not that of a scale of cached keys or values. */
static bool parse(const char *name, struct cache_name *parsed)
{
	size_t n = strlen(name);
	char which;

	if (n < 9 || strcmp(name + n - 6, "_scale") || name[n - 8] != '.')
		return false;
	which = name[n - 7];
	if (which != 'k' && which != 'v')
		return false;
	n -= 8;
	*parsed = (struct cache_name){ .which = which };
	parsed->below = n > 7 && name[n - 7] == '.' && name[n - 6] == which &&
			!strncmp(name + n - 5, "_proj", 5);
	parsed->module = xstrndup(name, parsed->below ? n - 7 : n);
	return true;
}

/* Returns the name of the attention's scale of keys or values, which the caller frees. */
static char *scale_of(const struct cache_name *name, char which)
{
	return name->below ? xasprintf("%s.%c_proj.%c_scale", name->module, which, which)
			   : xasprintf("%s.%c_scale", name->module, which);
}

/* "X.self_attn.k_scale" requires "X.self_attn.v_scale", "X.k_proj.k_scale" requires
 * "X.v_proj.v_scale"; in latent attention only that of values requires the other. */
static void check_pair(struct verify *verify, const struct tensor_ref *ref,
		       const struct cache_name *name, bool latent)
{
	char *other = scale_of(name, name->which == 'k' ? 'v' : 'k');

	if ((!latent || name->which == 'v') && !checkpoint_find(verify->opened.checkpoint, other))
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_PAIR, ref->tensor->name,
			    verify_file(verify, ref), "'%s' exists, but '%s' does not",
			    ref->tensor->name, other);
	free(other);
}

static void check_latent(struct verify *verify, const struct tensor_ref *ref,
			 const struct cache_name *name, uint64_t n_values)
{
	struct problems *problems = &verify->result->problems;
	const char *file = verify_file(verify, ref);
	char *right;

	if (n_values != 1)
		problem_add(problems, PROBLEM_SCALE_SHAPE, ref->tensor->name, file,
			    "scale '%s' has %" PRIu64
			    " values, but what latent attention caches has one scale",
			    ref->tensor->name, n_values);
	if (name->below)
		return;
	right = xasprintf("%s.%c_proj.%c_scale", name->module, name->which, name->which);
	problem_add(problems, PROBLEM_KV_SCALE_NAME, ref->tensor->name, file,
		    "scale '%s' of latent attention is not called '%s'", ref->tensor->name, right);
	free(right);
}

#define MAX_HEADS 1024

static int check_values(struct verify *verify, const struct tensor_ref *ref, uint64_t n,
			struct err *err)
{
	const char *name = ref->tensor->name;
	float values[MAX_HEADS];

	if (!dtype_is_float(ref->tensor->dtype)) {
		problem_add(&verify->result->problems, PROBLEM_SCALE_DTYPE, name,
			    verify_file(verify, ref), "scale '%s' is %s", name,
			    dtype_name(ref->tensor->dtype));
		return 0;
	}
	if (n > MAX_HEADS) {
		problem_add(&verify->result->problems, PROBLEM_SCALE_SHAPE, name,
			    verify_file(verify, ref), "scale '%s' has %" PRIu64 " values", name, n);
		return 0;
	}
	if (source_read_floats(&verify->run.files,
			       &(struct floats_request){ .ref = ref, .n = (size_t)n }, values, err))
		return -1;
	for (uint64_t i = 0; i < n; i++) {
		if (scale_fault_of(values[i], FP8_E4M3) == SCALE_SOUND)
			continue;
		problem_add(&verify->result->problems, PROBLEM_CACHE_SCALE_VALUE, name,
			    verify_file(verify, ref), "scale '%s' has the value %g", name,
			    (double)values[i]);
		return 0;
	}
	return 0;
}

static int check_scale(struct verify *verify, const struct tensor_ref *ref,
		       const struct cache_name *name, struct err *err)
{
	uint64_t n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims);
	bool latent = cached_latent(verify->opened.checkpoint, name->module);

	check_pair(verify, ref, name, latent);
	if (latent)
		check_latent(verify, ref, name, n);
	return check_values(verify, ref, n, err);
}

/* Whether the attention of a layer has the scale of what it caches. */
static bool has_scale(const struct checkpoint *checkpoint, char *attention)
{
	struct cache_name name = { .module = attention };
	bool found = false;

	for (int i = 0; i < 2 && !found; i++) {
		char *scale;

		name.below = i;
		scale = scale_of(&name, 'k');
		found = checkpoint_find(checkpoint, scale);
		free(scale);
	}
	return found;
}

/* The attentions of the language model whose cache has no scale, beside others with one. */
struct unscaled {
	size_t n, n_scaled;
	const struct tensor_ref *first;
};

/* Looks for the scale of an attention, whose name is the first n bytes of a tensor's.  Layers
 * beyond the model's are MTP layers, which no calibration runs. */
static void look_for_scale(struct verify *verify, const struct tensor_ref *ref, size_t n,
			   bool latent, struct unscaled *unscaled)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	uint64_t n_layers = verify->opened.model.size[CONFIG_LAYERS];
	char *attention = xstrndup(ref->tensor->name, n);
	uint32_t layer;

	free(name_pattern(ref->tensor->name, &layer));
	if (n_layers && layer >= n_layers) {
		free(attention);
		return;
	}
	if (has_scale(checkpoint, attention)) {
		unscaled->n_scaled++;
	} else if (latent) {
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_MISSING, ref->tensor->name,
			    verify_file(verify, ref),
			    "attention '%s' has no scale of its cache, but others have one",
			    attention);
	} else if (!unscaled->n++) {
		unscaled->first = ref;
	}
	free(attention);
}

/* Reports attention without a scale beside others with one.  Of latent attention each is wrong;
 * others may share the cache of a layer before, as Gemma 3n's. */
static void check_missing(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct unscaled unscaled = { 0 };

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		bool latent;
		size_t n = cached_projection(checkpoint, ref->tensor->name, &latent);

		if (n)
			look_for_scale(verify, ref, n, latent, &unscaled);
	}
	if (unscaled.n && unscaled.n_scaled)
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_SOME,
			    unscaled.first->tensor->name, verify_file(verify, unscaled.first),
			    "%zu of %zu attentions have no scales of their caches, first that of "
			    "'%s'",
			    unscaled.n, unscaled.n + unscaled.n_scaled,
			    unscaled.first->tensor->name);
}

/* Whether the files have a scale of a cache, by any name. */
static bool has_any_scale(const struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct scale_name *word =
			scale_name_find(checkpoint->by_name[i].tensor->name);

		if (word && word->role == SCALE_OF_CACHE)
			return true;
	}
	return false;
}

/* Reports the first scale of a cache that a row of the family is about. */
static void check_row(struct verify *verify, const struct profile_row *row)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	bool found = false;

	for (size_t i = 0; i < checkpoint->n_tensors && !found; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct cache_name name;
		int position;

		if (!parse(ref->tensor->name, &name))
			continue;
		found = profile_pattern_matches(row->pattern, name.module, &position);
		if (found)
			problem_add(&verify->result->problems, PROBLEM_NOT_LOADED,
				    ref->tensor->name, verify_file(verify, ref),
				    "scale '%s' of a KV cache does not load in %s: %s [%s]",
				    ref->tensor->name, engine_name(verify->opened.target),
				    row->said, row->source);
		free(name.module);
	}
}

/* Reports scales at which the target stops. */
static void check_target(struct verify *verify)
{
	const struct verify_lists *lists = &verify->lists;
	const struct profile_row *row = NULL;

	if (verify->opened.target == ENGINE_ANY)
		return;
	while ((row = profile_next(&lists->profile, PROFILE_CACHE_STOP, lists->on, row)))
		check_row(verify, row);
}

int verify_caches(struct verify *verify, struct err *err)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	size_t n_named = 0;

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct cache_name name;
		int rc;

		if (!parse(ref->tensor->name, &name))
			continue;
		n_named++;
		rc = check_scale(verify, ref, &name, err);
		free(name.module);
		if (rc)
			return -1;
	}
	if (n_named)
		check_target(verify);
	if (n_named)
		check_missing(verify);
	else if (verify->opened.detection->n_weights &&
		 config_declares_cache(verify->opened.detection->config) &&
		 !has_any_scale(checkpoint))
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_MISSING, NULL,
			    "config.json",
			    "a KV cache with static scales is declared, but the files have none");
	return 0;
}
