/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/codes.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "compensate/ranks.h"

/* Returns the codes of a stage with every rho: the bytes of its file. */
static uint64_t stage_size(const struct compensate_plan *plan, size_t stage)
{
	return plan->n_codes[stage] * plan->n_rhos;
}

static uint64_t largest_stage(const struct compensate_plan *plan)
{
	uint64_t largest = 0;

	for (size_t i = 0; i <= plan->model.n_layers; i++)
		largest = stage_size(plan, i) > largest ? stage_size(plan, i) : largest;
	return largest;
}

uint64_t codes_size(const struct compensate_plan *plan)
{
	return group_size(plan->params.group) == 1 ? 0 : largest_stage(plan) + RANKS_PIECE;
}

int codes_open(struct compensation *job, struct err *err)
{
	if (group_size(job->plan->params.group) == 1)
		return 0;
	if (buffer_alloc((void **)&job->piece, RANKS_PIECE, "what ranks unite", err))
		return -1;
	return buffer_alloc((void **)&job->codes, largest_stage(job->plan), "the codes of a layer",
			    err);
}

void codes_release(struct compensation *job)
{
	free(job->piece);
	free(job->codes);
}

static void clear(const struct compensation *job)
{
	if (job->codes)
		memset(job->codes, 0, stage_size(job->plan, job->stage));
}

/* Returns the codes of a span in memory. */
static uint8_t *codes_at(const struct compensation *job, const struct store_span *span)
{
	return job->codes + span->rho * job->plan->n_codes[span->stage] + span->offset;
}

int codes_begin(struct compensation *job, struct writer *writer, struct err *err)
{
	clear(job);
	return job->store ? store_begin(job->store, job->stage, writer, err) : 0;
}

int codes_write(struct compensation *job, struct writer *writer, const struct store_span *span,
		const uint8_t *codes, struct err *err)
{
	if (!job->codes)
		return store_write(job->store, writer, span, codes, err);
	memcpy(codes_at(job, span), codes, span->n);
	return 0;
}

/* Returns all codes of the current stage with a rho. */
static struct store_span whole(const struct compensation *job, size_t rho)
{
	return (struct store_span){ job->stage, rho, 0, job->plan->n_codes[job->stage] };
}

/* Writes the codes that are in memory, and ends the file. */
static int put(struct compensation *job, struct writer *writer, const struct store_counts *counts,
	       struct err *err)
{
	for (size_t rho = 0; rho < job->plan->n_rhos && job->codes; rho++) {
		const struct store_span span = whole(job, rho);

		if (store_write(job->store, writer, &span, codes_at(job, &span), err))
			return -1;
	}
	return store_commit(job->store, job->stage, writer, counts, err);
}

int codes_commit(struct compensation *job, struct writer *writer,
		 struct store_counts counts[STORE_RHOS], struct err *err)
{
	size_t n = STORE_RHOS * sizeof *counts / sizeof(uint64_t);

	if (ranks_unite(job, 0, job->codes, stage_size(job->plan, job->stage), err) ||
	    group_reduce(job->plan->params.group, GROUP_SUM, counts, n, err))
		return -1;
	return ranks_settle(job, job->store ? put(job, writer, counts, err) : 0, err);
}

int codes_take(struct compensation *job, struct err *err)
{
	int rc = 0;

	clear(job);
	for (size_t rho = 0; rho < job->plan->n_rhos && job->codes && job->store && !rc; rho++) {
		const struct store_span span = whole(job, rho);

		rc = store_read(job->store, &span, codes_at(job, &span), err);
	}
	return ranks_unite(job, rc, job->codes, stage_size(job->plan, job->stage), err);
}

int codes_read(struct compensation *job, const struct store_span *span, uint8_t *codes,
	       struct err *err)
{
	if (!job->codes)
		return store_read(job->store, span, codes, err);
	memcpy(codes, codes_at(job, span), span->n);
	return 0;
}
