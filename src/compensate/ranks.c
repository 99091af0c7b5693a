/* SPDX-License-Identifier: Apache-2.0 */
#include "compensate/ranks.h"

#include <stdlib.h>

#include "base/mem.h"

/* Deals sequences to ranks round-robin, held-out ones separately: every chunk, and the candidates,
 * then have work for all. */
int ranks_divide(struct compensate_plan *plan, struct err *err)
{
	size_t n_ranks = group_size(plan->params.group), rank = group_rank(plan->params.group);
	size_t n_summed = plan->data.n - plan->n_held_out, n[2] = { 0 };
	struct dataset *own = &plan->own;

	if (n_ranks > n_summed)
		return err_set(err, ERR_USAGE,
			       "option '--ranks': %zu ranks have %zu sequence%s: use at most %zu "
			       "rank%s, or more --passes",
			       n_ranks, n_summed, n_summed == 1 ? "" : "s", n_summed,
			       n_summed == 1 ? "" : "s");
	own->ids = plan->data.ids;
	own->sequences = xcalloc(plan->data.n, sizeof *own->sequences);
	plan->own_numbers = xcalloc(plan->data.n, sizeof *plan->own_numbers);
	for (size_t i = 0; i < plan->data.n; i++) {
		bool held_out = plan->held_out[i];

		plan->own_numbers[i] = SIZE_MAX;
		if (n[held_out]++ % n_ranks != rank)
			continue;
		plan->own_numbers[i] = own->n;
		own->sequences[own->n++] = plan->data.sequences[i];
		plan->n_own_held_out += held_out;
	}
	return 0;
}

int ranks_settle(const struct compensation *job, int rc, struct err *err)
{
	return group_settle(job->plan->params.group, rc, err);
}

int ranks_take_store(struct compensation *job, bool *finished, struct err *err)
{
	size_t n_stages = job->plan->model.n_layers + 1;
	bool *done = xcalloc(n_stages + 1, sizeof *done);

	for (size_t i = 0; i < n_stages && job->store; i++)
		done[i] = store_has(job->store, i);
	done[n_stages] = job->store && job->store->has_outcome;
	job->done = done;
	if (ranks_unite(job, 0, done, (n_stages + 1) * sizeof *done, err))
		return -1;
	*finished = done[n_stages];
	return 0;
}

int ranks_unite(const struct compensation *job, int rc, void *bytes, size_t n, struct err *err)
{
	const struct group *group = job->plan->params.group;

	if (ranks_settle(job, rc, err))
		return -1;
	return group_size(group) == 1 ? 0 : group_reduce(group, GROUP_UNION, bytes, n, err);
}

int ranks_unite_memory(const struct compensation *job, char *memory, uint64_t size, struct err *err)
{
	struct executor_stream *stream = runner_stream(&job->runner);
	const struct executor_ops *ops = stream->executor->ops;
	size_t n;

	for (uint64_t at = 0; at < size && job->piece; at += n) {
		n = size - at < RANKS_PIECE ? (size_t)(size - at) : RANKS_PIECE;
		ops->fetch(stream, job->piece, memory + at, n);
		if (ranks_unite(job, ops->wait(stream, err), job->piece, n, err))
			return -1;
		ops->put(stream, memory + at, job->piece, n);
		if (ranks_settle(job, ops->wait(stream, err), err))
			return -1;
	}
	return 0;
}
