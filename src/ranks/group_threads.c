/* SPDX-License-Identifier: Apache-2.0
 *
 * Threads meet: each reduces its values into the others', the last one opens the way out,
 * each takes the result along, and the last one to leave clears the place for the next reduction.
 */
#include "ranks/group.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

struct meeting {
	pthread_mutex_t lock; /* of all following members */
	pthread_cond_t changed;
	int n_ranks;
	int arrived;	/* ranks that wait for the others */
	int leaving;	/* ranks that are still to leave a complete reduction */
	void *values;	/* reduced so far */
	size_t n;	/* of the first rank */
	size_t n_other; /* of a rank that differs, else n */
};

/* The values of the first one are the maximum with none, or a copy. */
static void meeting_begin(struct meeting *m, enum group_op op, const void *values, size_t n)
{
	m->values = xcalloc(n, group_value_size(op));
	m->n = m->n_other = n;
	if (op == GROUP_MAX)
		group_combine(op, m->values, values, n);
	else if (n)
		memcpy(m->values, values, n * group_value_size(op));
}

static void meeting_arrive(struct meeting *m, enum group_op op, const void *values, size_t n)
{
	if (m->arrived++ == 0)
		meeting_begin(m, op, values, n);
	else
		group_combine(op, m->values, values, n < m->n ? n : m->n);
	if (n != m->n)
		m->n_other = n;
	if (m->arrived == m->n_ranks) {
		m->arrived = 0;
		m->leaving = m->n_ranks;
		pthread_cond_broadcast(&m->changed);
	}
}

static int meeting_leave(struct meeting *m, enum group_op op, void *values, struct err *err)
{
	int rc = 0;

	if (m->n_other != m->n)
		rc = err_set(err, ERR_INPUT,
			     "the ranks of a group have different numbers of values: %zu and %zu",
			     m->n < m->n_other ? m->n : m->n_other,
			     m->n < m->n_other ? m->n_other : m->n);
	else if (m->n)
		memcpy(values, m->values, m->n * group_value_size(op));
	if (--m->leaving == 0) {
		free(m->values);
		m->values = NULL;
		pthread_cond_broadcast(&m->changed);
	}
	return rc;
}

static int threads_reduce(const struct group *group, enum group_op op, void *values, size_t n,
			  struct err *err)
{
	struct meeting *m = group->shared;
	int rc;

	pthread_mutex_lock(&m->lock);
	while (m->leaving > 0) /* other ranks still leave the previous reduction */
		pthread_cond_wait(&m->changed, &m->lock);
	meeting_arrive(m, op, values, n);
	while (m->leaving == 0)
		pthread_cond_wait(&m->changed, &m->lock);
	rc = meeting_leave(m, op, values, err);
	pthread_mutex_unlock(&m->lock);
	return rc;
}

const struct group_kind group_threads = {
	.name = "threads",
	.reduce = threads_reduce,
};

void group_threads_open(struct group *groups, int n_ranks)
{
	struct meeting *m = xcalloc(1, sizeof *m);

	pthread_mutex_init(&m->lock, NULL);
	pthread_cond_init(&m->changed, NULL);
	m->n_ranks = n_ranks;
	for (int rank = 0; rank < n_ranks; rank++)
		groups[rank] = (struct group){ &group_threads, rank, n_ranks, m, "" };
}

void group_threads_close(struct group *groups)
{
	struct meeting *m = groups[0].shared;

	pthread_cond_destroy(&m->changed);
	pthread_mutex_destroy(&m->lock);
	free(m);
}
