/* SPDX-License-Identifier: Apache-2.0
 *
 * The scales of KV caches, for every attention.  The amax file and the model must have the same
 * attentions.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "convert/steps.h"
#include "model/fusion.h"
#include "model/role.h"

/* Returns the length of "A" in "A.k_proj.weight"; 0 if it is not a key projection of a language
 * model. */
static size_t attention_len(const char *name)
{
	struct role_facts facts;
	struct fusion fusion;

	role_of_name(&facts, name);
	if (facts.role != ROLE_LINEAR || !fusion_of_name(&fusion, name) || fusion.position != 1 ||
	    !strchr("qne", fusion.kind) || !fusion.parent_len)
		return 0;
	return fusion.parent_len - 1;
}

static int check_attention(const struct static_scales *scales, const char *name, struct err *err)
{
	size_t n = attention_len(name);
	char *module;
	int rc = 0;

	if (!n)
		return 0;
	module = xstrndup(name, n);
	if (!amax_stats_find(&scales->stats, module, AMAX_ATTENTION))
		rc = err_set(err, ERR_INPUT,
			     "attention '%s' is not in '%s': the calibration did not cover it",
			     module, scales->params->path);
	free(module);
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
		      const struct amax_site *site, struct err *err)
{
	if (find_projection(plan, site->name, "") == SIZE_MAX)
		return err_set(err, ERR_INPUT, "attention '%s' of '%s' has no tensor in '%s'",
			       site->name, scales->params->path, plan->source.path);
	if (find_projection(plan, site->name, "kv_a_proj") != SIZE_MAX)
		return err_set(err, ERR_USAGE,
			       "option '--kv-cache': attention '%s' caches a latent vector, but "
			       "no format has scales for it",
			       site->name);
	if (!site->n_passes)
		return err_set(
			err, ERR_INPUT,
			"attention '%s' has no pass in '%s': the calibration stopped before it",
			site->name, scales->params->path);
	return 0;
}

/* Adds a cache scale beside its own projection, if there is one. */
static int add_cache(const struct static_scales *scales, struct plan *plan,
		     const struct amax_site *site, char which, struct err *err)
{
	const struct qspec spec = { .format = FP8_E4M3,
				    .tile = { WHOLE, WHOLE },
				    .margin = plan->spec.margin };
	size_t unit = find_projection(plan, site->name, which == 'k' ? "k_proj." : "v_proj.");
	float amax;

	if (unit == SIZE_MAX)
		unit = find_projection(plan, site->name, "");
	if (static_scales_amax(scales, site, which == 'k' ? AMAX_K : AMAX_V, &spec, &amax, err))
		return -1;
	ARRAY_GROW(plan->caches.list, plan->caches.n);
	plan->caches.list[plan->caches.n++] =
		(struct cache_scale){ .unit = unit,
				      .attention = xstrdup(site->name),
				      .which = which,
				      .scale_inv = static_scale_inv(&spec, amax) };
	return 0;
}

static int compare_caches(const void *a, const void *b)
{
	const struct cache_scale *x = a, *y = b;

	if (x->unit != y->unit)
		return x->unit < y->unit ? -1 : 1;
	return x->which - y->which;
}

int static_scales_kv(const struct static_scales *scales, struct plan *plan, struct err *err)
{
	for (size_t u = 0; u < plan->selection.n_units; u++)
		if (check_attention(scales, plan->selection.units[u].name, err))
			return -1;
	for (size_t i = 0; i < scales->stats.n_sites; i++) {
		const struct amax_site *site = scales->stats.sites[i];

		if (site->kind == AMAX_ATTENTION && (check_site(scales, plan, site, err) ||
						     add_cache(scales, plan, site, 'k', err) ||
						     add_cache(scales, plan, site, 'v', err)))
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
