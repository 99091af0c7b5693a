/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/caches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/mem.h"
#include "base/text.h"
#include "format/member.h"
#include "format/scale_names.h"
#include "names/cached.h"
#include "names/tensor_name.h"
#include "num/scale.h"
#include "verify/tensors.h"

/* The name of a scale of keys, values or both, in any tool's spelling. */
struct cache_name {
	const char *text;
	const char *cached; /* "k", "v" or "kv" */
	size_t n;	    /* of "A", the attention's name */
	char *module;	    /* "A" */
};

/* Returns false where the name is not that of a scale of cached keys or values. */
static bool parse(const char *name, struct cache_name *parsed)
{
	size_t n = strlen(name);

	/* most scales are of weights and inputs: no search of the table */
	*parsed = (struct cache_name){ .text = name };
	if (!text_n_ends(name, n, "scale") || text_n_ends(name, n, ".weight_scale") ||
	    text_n_ends(name, n, ".input_scale"))
		return false;
	parsed->n = scale_cache(name, &parsed->cached);
	if (!parsed->n)
		return false;
	parsed->module = xstrndup(name, parsed->n);
	return true;
}

/* Returns the name of the scale of the other of keys and values, in the same spelling, which the
 * caller frees; NULL for a scale of both. */
static char *pair_of(const struct cache_name *name)
{
	const char which = *name->cached;
	char *pair;

	if (name->cached[1])
		return NULL;
	pair = xstrdup(name->text);
	for (char *c = pair + name->n; *c; c++)
		if (c[0] == '.' && c[1] == which && c[2] == '_')
			c[1] = which == 'k' ? 'v' : 'k';
	return pair;
}

/* "X.self_attn.k_scale" requires "X.self_attn.v_scale", "X.k_proj.output_scale" requires
 * "X.v_proj.output_scale"; in latent attention only that of values requires the other. */
static void check_pair(struct verify *verify, const struct tensor_ref *ref,
		       const struct cache_name *name, bool latent)
{
	char *other = pair_of(name);

	if (other && (!latent || *name->cached == 'v') &&
	    !checkpoint_find(verify->opened.checkpoint, other))
		verify_report(verify, PROBLEM_KV_SCALE_PAIR, ref, "'%s' exists, but '%s' does not",
			      ref->tensor->name, other);
	free(other);
}

static void check_latent(struct verify *verify, const struct tensor_ref *ref,
			 const struct cache_name *name, uint64_t n_values)
{
	char *right;

	if (n_values != 1)
		verify_report(verify, PROBLEM_SCALE_SHAPE, ref,
			      "scale '%s' has %" PRIu64
			      " values, but what latent attention caches has one scale",
			      ref->tensor->name, n_values);
	if (strcmp(name->text + name->n, ".k_scale") != 0 &&
	    strcmp(name->text + name->n, ".v_scale") != 0)
		return;
	right = xasprintf("%s.%s_proj.%s_scale", name->module, name->cached, name->cached);
	verify_report(verify, PROBLEM_KV_SCALE_NAME, ref,
		      "scale '%s' of latent attention is not called '%s'", ref->tensor->name,
		      right);
	free(right);
}

#define MAX_HEADS 1024

static int check_values(struct verify *verify, const struct tensor_ref *ref, uint64_t n,
			struct err *err)
{
	const char *name = ref->tensor->name;
	float values[MAX_HEADS];

	if (!dtype_is_float(ref->tensor->dtype)) {
		verify_report(verify, PROBLEM_SCALE_DTYPE, ref, "scale '%s' is %s", name,
			      dtype_name(ref->tensor->dtype));
		return 0;
	}
	if (n > MAX_HEADS) {
		verify_report(verify, PROBLEM_SCALE_SHAPE, ref, "scale '%s' has %" PRIu64 " values",
			      name, n);
		return 0;
	}
	if (source_read_floats(&verify->run.files,
			       &(struct floats_request){ .ref = ref, .n = (size_t)n }, values, err))
		return -1;
	for (uint64_t i = 0; i < n; i++) {
		if (scale_fault_of(values[i], FP8_E4M3) == SCALE_SOUND)
			continue;
		verify_report(verify, PROBLEM_CACHE_SCALE_VALUE, ref, "scale '%s' has the value %g",
			      name, (double)values[i]);
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

/* The attentions of the language model whose cache has no scale, beside others with one. */
struct unscaled {
	size_t n, n_scaled;
	const struct tensor_ref *first;
	struct intern *attentions; /* with a scale of keys */
	size_t n_attentions;	   /* of these */
};

/* Looks for the scale of an attention, whose name is the first n bytes of a tensor's.  Layers
 * beyond the model's are MTP layers, which no calibration runs. */
static void look_for_scale(struct verify *verify, const struct tensor_ref *ref, size_t n,
			   bool latent, struct unscaled *unscaled)
{
	uint64_t n_layers = verify->opened.model.size[CONFIG_LAYERS];
	char *attention = xstrndup(ref->tensor->name, n);
	uint32_t layer;

	free(name_pattern(ref->tensor->name, &layer));
	if (n_layers && layer >= n_layers) {
		free(attention);
		return;
	}
	if (intern_add(unscaled->attentions, attention, n) < unscaled->n_attentions) {
		unscaled->n_scaled++;
	} else if (latent) {
		verify_report(verify, PROBLEM_KV_SCALE_MISSING, ref,
			      "attention '%s' has no scale of its cache, but others have one",
			      attention);
	} else if (!unscaled->n++) {
		unscaled->first = ref;
	}
	free(attention);
}

/* Reports attention without a scale beside others with one.  Of latent attention each is wrong;
 * others may share the cache of a layer before, as Gemma 3n's. */
static void check_missing(struct verify *verify, struct intern *attentions)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct unscaled unscaled = { .attentions = attentions, .n_attentions = attentions->n };

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		bool latent;
		size_t n = cached_projection(checkpoint, ref->tensor->name, &latent);

		if (n)
			look_for_scale(verify, ref, n, latent, &unscaled);
	}
	if (unscaled.n && unscaled.n_scaled)
		verify_report(verify, PROBLEM_KV_SCALE_SOME, unscaled.first,
			      "%zu of %zu attentions have no scales of their caches, first that of "
			      "'%s'",
			      unscaled.n, unscaled.n + unscaled.n_scaled,
			      unscaled.first->tensor->name);
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
			verify_report(verify, PROBLEM_NOT_LOADED, ref,
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
	struct intern attentions = { 0 };
	size_t n_named = 0;
	int rc = 0;

	for (size_t i = 0; i < checkpoint->n_tensors && !rc; i++) {
		const struct tensor_ref *ref = &checkpoint->by_name[i];
		struct cache_name name;

		if (!parse(ref->tensor->name, &name))
			continue;
		n_named++;
		if (*name.cached == 'k')
			intern_add(&attentions, name.module, name.n);
		rc = check_scale(verify, ref, &name, err);
		free(name.module);
	}
	if (!rc && n_named) {
		check_target(verify);
		check_missing(verify, &attentions);
	} else if (!rc && verify->opened.detection->n_weights &&
		   config_declares_cache(verify->opened.detection->config)) {
		problem_add(&verify->result->problems, PROBLEM_KV_SCALE_MISSING, NULL,
			    "config.json",
			    "a KV cache with static scales is declared, but the files have none");
	}
	intern_release(&attentions);
	return rc;
}
