/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads meet: each adds its values to the maximum, the last one opens the way out, each takes the
 * result along, and the last one to leave clears the place for the next reduction.
 */
#include "quantizer/group.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/mem.h"
#include "num/history.h"

struct meeting {
	pthread_mutex_t lock; /* of all following members */
	pthread_cond_t changed;
	int n_ranks;
	int arrived; /* ranks that wait for the others */
	int leaving; /* ranks that are still to leave a complete reduction */
	float *max;
	size_t n;	/* of the first rank */
	size_t n_other; /* of a rank that differs, else n */
};

static void meeting_arrive(struct meeting *m, const float *values, size_t n)
{
	if (m->arrived++ == 0) {
		m->max = xcalloc(n, sizeof *m->max);
		m->n = m->n_other = n;
	}
	if (n != m->n)
		m->n_other = n;
	for (size_t i = 0; i < n && i < m->n; i++)
		m->max[i] = amax_max(m->max[i], values[i]);
	if (m->arrived == m->n_ranks) {
		m->arrived = 0;
		m->leaving = m->n_ranks;
		pthread_cond_broadcast(&m->changed);
	}
}

static int meeting_leave(struct meeting *m, float *values, struct err *err)
{
	int rc = 0;

	if (m->n_other != m->n)
		rc = err_set(err, ERR_INPUT,
			     "the ranks of a group have different numbers of amaxes: %zu and %zu",
			     m->n < m->n_other ? m->n : m->n_other,
			     m->n < m->n_other ? m->n_other : m->n);
	for (size_t i = 0; !rc && i < m->n; i++)
		values[i] = m->max[i];
	if (--m->leaving == 0) {
		free(m->max);
		m->max = NULL;
		pthread_cond_broadcast(&m->changed);
	}
	return rc;
}

static int threads_reduce_max(const struct group *group, float *values, size_t n, struct err *err)
{
	struct meeting *m = group->shared;
	int rc;

	pthread_mutex_lock(&m->lock);
	while (m->leaving > 0) /* other ranks still leave the previous reduction */
		pthread_cond_wait(&m->changed, &m->lock);
	meeting_arrive(m, values, n);
	while (m->leaving == 0)
		pthread_cond_wait(&m->changed, &m->lock);
	rc = meeting_leave(m, values, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

const struct group_kind group_threads = {
	.name = "threads",
	.reduce_max = threads_reduce_max,
};

void group_threads_open(struct group *groups, int n_ranks)
{
	struct meeting *m = xcalloc(1, sizeof *m);

	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	m->n_ranks = n_ranks;
	for (int rank = 0; rank < n_ranks; rank++)
		groups[rank] = (struct group){ &group_threads, rank, n_ranks, m };
}

void group_threads_close(struct group *groups)
{
	struct meeting *m = groups[0].shared;

	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
