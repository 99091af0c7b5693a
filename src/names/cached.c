/* SPDX-License-Identifier: Apache-2.0 */
#include "names/cached.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/fusion.h"
#include "names/role.h"
#include "names/tensor_name.h"

/* Hugging Face's name, and that of Mistral's own files. */
static const char *const latent_projections[] = { "kv_a_proj_with_mqa", "wkv_a_with_mqa" };

#define N_LATENT_PROJECTIONS (sizeof latent_projections / sizeof *latent_projections)

/* Returns the length of "A." in the name of a latent projection's weight; 0 for other tensors. */
static size_t latent_parent(const char *name)
{
	struct path path;

	path_split(&path, name);
	if (!path.is_weight || path.owner != path.n - 2)
		return 0;
	for (size_t i = 0; i < N_LATENT_PROJECTIONS; i++)
		if (segment_is(&path.segments[path.owner], latent_projections[i]))
			return (size_t)(path.segments[path.owner].text - name);
	return 0;
}

/* Whether a tensor gives keys to a recurrence or to an indexer; n: the length of
 * "A." in its name. */
static bool is_elsewhere(const struct checkpoint *checkpoint, const char *name, size_t n)
{
	static const char indexer[] = ".indexer.";
	size_t n_indexer = sizeof indexer - 1;
	char *decays = xasprintf("%.*sA_log", (int)n, name);
	bool found = checkpoint_find(checkpoint, decays);

	free(decays);
	return found || (n >= n_indexer && !strncmp(name + n - n_indexer, indexer, n_indexer));
}

size_t cached_projection(const struct checkpoint *checkpoint, const char *name, bool *latent)
{
	struct role_facts facts;
	struct fusion fusion;
	size_t n = latent_parent(name);

	*latent = n;
	role_of_name(&facts, name);
	if (facts.role != ROLE_LINEAR)
		return 0;
	if (!n && fusion_of_name(&fusion, name) && fusion.position == 1 &&
	    strchr("qne", fusion.kind) && !is_elsewhere(checkpoint, name, fusion.parent_len))
		n = fusion.parent_len;
	return n ? n - 1 : 0;
}

bool cached_latent(const struct checkpoint *checkpoint, const char *attention)
{
	bool found = false;

	for (size_t i = 0; i < N_LATENT_PROJECTIONS && !found; i++) {
		char *name = xasprintf("%s.%s.weight", attention, latent_projections[i]);

		found = checkpoint_find(checkpoint, name);
		free(name);
	}
	return found;
}
