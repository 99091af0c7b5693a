/* SPDX-License-Identifier: Apache-2.0
 *
 * The scales of KV caches, for every attention.  The amax file and the model must have the same
 * attentions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "base/text.h"
#include "plan/static_scales.h"
#include "names/cached.h"
#include "names/tensor_name.h"

/* Returns the length of the attention's name in that of a site. */
static size_t attention_len(const struct amax_site *site)
{
	return strlen(site->name) -
	       (text_ends(site->name, AMAX_LATENT_CACHE) ? strlen(AMAX_LATENT_CACHE) : 0);
}

/* Returns the layers of the model; those that follow are MTP layers, which no calibration runs. */
static uint64_t layers_of(const struct plan *plan)
{
	struct model_config config;
	struct err ignored;
	uint64_t n = 0;

	if (!model_config_read(&config, &plan->source.config, &ignored))
		n = config.size[CONFIG_LAYERS];
	model_config_release(&config);
	return n ? n : UINT64_MAX;
}

static int check_attention(const struct static_scales *scales, const struct plan *plan,
			   const char *name, uint64_t n_layers, struct err *err)
{
	bool latent;
	size_t n = cached_projection(&plan->source, name, &latent);
	uint32_t layer;
	char *site;
	int rc = 0;

	if (!n)
		return 0;
	free(name_pattern(name, &layer));
	if (layer != NO_LAYER && layer >= n_layers)
		return 0;
	site = xasprintf("%.*s%s", (int)n, name, latent ? AMAX_LATENT_CACHE : "");
	if (!amax_stats_find(&scales->stats, site, AMAX_ATTENTION))
		rc = err_set(err, ERR_INPUT,
			     "attention '%s' is not in '%s': the calibration did not cover it",
			     site, scales->params->path);
	free(site);
	return rc;
}

/* Returns the first unit of an attention whose name continues with `projection`, or SIZE_MAX. */
static size_t find_projection(const struct plan *plan, const char *attention,
			      const char *projection)
{
	size_t n = strlen(attention);

	for (size_t u = 0; u < plan->selection.n_units; u++) {
		const char *name = plan->selection.units[u].name;

		if (!strncmp(name, attention, n) && name[n] == '.' &&
		    !strncmp(name + n + 1, projection, strlen(projection)))
			return u;
	}
	return SIZE_MAX;
}

static int check_site(const struct static_scales *scales, const struct plan *plan,
		      const struct amax_site *site, const char *attention, struct err *err)
{
	if (find_projection(plan, attention, "") == SIZE_MAX)
		return err_set(err, ERR_INPUT, "attention '%s' of '%s' has no tensor in '%s'",
			       attention, scales->params->path, plan->source.path);
	if (!site->n_passes)
		return err_set(
			err, ERR_INPUT,
			"attention '%s' has no pass in '%s': the calibration stopped before it",
			site->name, scales->params->path);
	return 0;
}

/* Adds a cache scale beside its own projection, if there is one.  The values of latent attention
 * are part of what is cached as keys, and have the same scale. */
static int add_cache(const struct static_scales *scales, struct plan *plan,
		     const struct amax_site *site, const struct cache_scale *cache, struct err *err)
{
	const struct qspec spec = { .format = FP8_E4M3,
				    .tile = { WHOLE, WHOLE },
				    .margin = plan->spec.margin };
	const char *projection = cache->latent	       ? "kv_a_proj_with_mqa."
				 : cache->which == 'k' ? "k_proj."
						       : "v_proj.";
	int column = cache->latent || cache->which == 'k' ? AMAX_K : AMAX_V;
	size_t unit = find_projection(plan, cache->attention, projection);
	struct cache_scale *added;
	float amax;

	if (unit == SIZE_MAX)
		unit = find_projection(plan, cache->attention, "");
	if (static_scales_amax(scales, site, column, &spec, &amax, err))
		return -1;
	ARRAY_GROW(plan->caches.list, plan->caches.n);
	added = &plan->caches.list[plan->caches.n++];
	*added = *cache;
	added->unit = unit;
	added->attention = xstrdup(cache->attention);
	added->scale_inv = static_scale_inv(&spec, amax);
	return 0;
}

/* Adds both scales of an attention. */
static int add_caches(const struct static_scales *scales, struct plan *plan,
		      const struct amax_site *site, struct err *err)
{
	size_t n = attention_len(site);
	struct cache_scale cache = { .attention = xstrndup(site->name, n),
				     .latent = site->name[n] };
	int rc = 0;

	/* The heads of latent attention, which are not cached. */
	if (!cache.latent && cached_latent(&plan->source, cache.attention))
		goto out;
	rc = check_site(scales, plan, site, cache.attention, err);
	for (const char *which = "kv"; *which && !rc; which++) {
		cache.which = *which;
		rc = add_cache(scales, plan, site, &cache, err);
	}
out:
	free(cache.attention);
	return rc;
}

COMPARISON(compare_caches, struct cache_scale, ORDER(x->unit, y->unit) ?: ORDER(x->which, y->which))

int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err)
{
	uint64_t n_layers = layers_of(plan);

	for (size_t u = 0; u < plan->selection.n_units; u++)
		if (check_attention(scales, plan, plan->selection.units[u].name, n_layers, err))
			return -1;
	for (size_t i = 0; i < scales->stats.n_sites; i++) {
		const struct amax_site *site = scales->stats.sites[i];

		if (site->kind == AMAX_ATTENTION && add_caches(scales, plan, site, err))
			return -1;
	}
	if (!plan->caches.n)
		return err_set(err, ERR_INPUT,
			       "'%s' has no attention history: option '--kv-cache' needs one",
			       scales->params->path);
	sort(plan->caches.list, plan->caches.n, sizeof *plan->caches.list, compare_caches);
	plan->kv_cache = true;
	return 0;
}
