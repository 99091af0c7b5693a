/* SPDX-License-Identifier: Apache-2.0
 *
 * A calibration has a site for each expert.  Where the experts of a layer stay in one tensor, with
 * one scale of inputs, their sites are joined into one that has the tensor's name.
 */
#include <stdlib.h>
#include <string.h>

#include "amax/merge.h"
#include "base/mem.h"
#include "names/experts.h"
#include "names/tensor_name.h"
#include "plan/static_scales.h"

/* Returns the parts of an expert that a tensor holds, as bits. */
static unsigned parts_of(const char *name)
{
	switch (experts_content(name)) {
	case EXPERTS_GATE:
		return 1u << EXPERT_GATE;
	case EXPERTS_UP:
		return 1u << EXPERT_UP;
	case EXPERTS_DOWN:
		return 1u << EXPERT_DOWN;
	case EXPERTS_GATE_UP:
	case EXPERTS_INTERLEAVED:
		return 1u << EXPERT_GATE | 1u << EXPERT_UP;
	default:
		return 0;
	}
}

/* Joins the site of one matrix of an expert, if the calibration has it. */
static int join_matrix(struct static_scales *scales, const char *matrix, struct amax_site **joined,
		       const char *module, struct err *err)
{
	const struct amax_site *site = amax_stats_find(&scales->stats, matrix, AMAX_GEMM);

	if (!site)
		return 0;
	if (!*joined)
		*joined = amax_stats_site(&scales->stats, module, AMAX_GEMM);
	return amax_site_join(*joined, site, scales->params->path, err);
}

/* Joins the sites of the experts of a stack. */
static int join_stack(struct static_scales *scales, const struct unit *unit, struct err *err)
{
	unsigned parts = parts_of(unit->name);
	char *module = xstrndup(unit->name, module_len(unit->name));
	struct amax_site *joined = NULL;
	int rc = 0;

	if (amax_stats_find(&scales->stats, module, AMAX_GEMM))
		parts = 0;
	for (int part = EXPERT_GATE; part <= EXPERT_DOWN && !rc; part++)
		for (uint64_t e = 0; parts >> part & 1 && e < unit_matrices(unit) && !rc; e++) {
			char *name =
				experts_part_name(unit->name, (enum expert_part)part, e, "weight");

			name[module_len(name)] = 0;
			rc = join_matrix(scales, name, &joined, module, err);
			free(name);
		}
	free(module);
	return rc;
}

int static_scales_join(struct static_scales *scales, const struct selection *selection,
		       struct err *err)
{
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];

		if (unit->stack && unit->recipe && join_stack(scales, unit, err))
			return -1;
	}
	return 0;
}
