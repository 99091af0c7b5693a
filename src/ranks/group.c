/* SPDX-License-Identifier: Apache-2.0 */
#include "ranks/group.h"

#include <openssl/sha.h>
#include <string.h>

#include "num/history.h"

static void combine_max(float *into, const float *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		into[i] = amax_max(into[i], values[i]);
}

static void combine_union(unsigned char *into, const unsigned char *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		into[i] |= values[i];
}

static void combine_sum(uint64_t *into, const uint64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		into[i] += values[i];
}

static void combine_min(uint64_t *into, const uint64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		into[i] = values[i] < into[i] ? values[i] : into[i];
}

void group_combine(enum group_op op, void *into, const void *values, size_t n)
{
	switch (op) {
	case GROUP_MAX:
		combine_max(into, values, n);
		break;
	case GROUP_UNION:
		combine_union(into, values, n);
		break;
	case GROUP_SUM:
		combine_sum(into, values, n);
		break;
	case GROUP_MIN:
		combine_min(into, values, n);
		break;
	}
}

size_t group_value_size(enum group_op op)
{
	static const size_t sizes[] = { [GROUP_MAX] = sizeof(float),
					[GROUP_UNION] = 1,
					[GROUP_SUM] = sizeof(uint64_t),
					[GROUP_MIN] = sizeof(uint64_t) };

	return sizes[op];
}

/* A value that is not a number becomes 0, as in a group of several. */
static int self_reduce(const struct group *group, enum group_op op, void *values, size_t n,
		       struct err *err)
{
	float *amaxes = values;

	(void)group, (void)err;
	for (size_t i = 0; op == GROUP_MAX && i < n; i++)
		amaxes[i] = amax_max(amaxes[i], 0);
	return 0;
}

const struct group_kind group_self = {
	.name = "self",
	.reduce = self_reduce,
};

int group_reduce(const struct group *group, enum group_op op, void *values, size_t n,
		 struct err *err)
{
	const struct group_kind *kind = group ? group->kind : &group_self;

	return kind->reduce(group, op, values, n, err);
}

int group_reduce_max(const struct group *group, float *values, size_t n, struct err *err)
{
	return group_reduce(group, GROUP_MAX, values, n, err);
}

/* The failure of a rank, in bytes that can be united. */
struct failure {
	struct err err;
	char host[GROUP_HOST];
};

/* Takes the failure of a rank, and finds whether it is that of all. */
static int take_failure(const struct group *group, uint64_t rank, int rc, struct err *err)
{
	struct failure failure;
	uint64_t n_same;

	memset(&failure, 0, sizeof failure);
	if ((uint64_t)group->rank == rank) {
		failure.err.kind = err->kind;
		failure.err.no_memory = err->no_memory;
		memcpy(failure.err.message, err->message, strlen(err->message));
		memcpy(failure.host, group->host, sizeof failure.host);
	}
	if (group_reduce(group, GROUP_UNION, &failure, sizeof failure, err))
		return -1;
	n_same = rc && strcmp(err->message, failure.err.message) == 0;
	if (group_reduce(group, GROUP_SUM, &n_same, 1, err))
		return -1;
	*err = failure.err;
	err->shared = true;
	if (n_same == (uint64_t)group->n_ranks)
		return -1;
	return err_wrap(err, "rank %d of %d%s%s", (int)rank, group->n_ranks,
			failure.host[0] ? " on " : "", failure.host);
}

int group_settle(const struct group *group, int rc, struct err *err)
{
	uint64_t first = rc && group ? (uint64_t)group->rank : UINT64_MAX;
	struct err lost;

	if (group_size(group) == 1)
		return rc ? -1 : 0;
	if (group_reduce(group, GROUP_MIN, &first, 1, rc ? &lost : err))
		return -1;
	return first == UINT64_MAX ? 0 : take_failure(group, first, rc, err);
}

#define DIGEST_WORDS (SHA256_DIGEST_LENGTH / sizeof(uint64_t))

int group_agree(const struct group *group, const void *bytes, size_t n, struct err *err)
{
	uint64_t digest[DIGEST_WORDS], min[2 * DIGEST_WORDS];

	SHA256(bytes, n, (unsigned char *)digest);
	for (size_t i = 0; i < DIGEST_WORDS; i++) {
		min[i] = digest[i];
		min[DIGEST_WORDS + i] = ~digest[i];
	}
	if (group_reduce(group, GROUP_MIN, min, 2 * DIGEST_WORDS, err))
		return -1;
	for (size_t i = 0; i < DIGEST_WORDS; i++)
		if (min[i] != ~min[DIGEST_WORDS + i]) {
			err->shared = true;
			return err_set(err, ERR_USAGE,
				       "the ranks have different models, data, options or "
				       "backends: start all of them with the same command, on "
				       "machines of one kind");
		}
	return 0;
}

int group_least(const struct group *group, size_t *n, struct err *err)
{
	uint64_t min = *n;

	if (group_reduce(group, GROUP_MIN, &min, 1, err))
		return -1;
	*n = (size_t)min;
	return 0;
}
