/* SPDX-License-Identifier: Apache-2.0
 *
 * The shares of ranks, against a walk over all sequences: each belongs to one rank, and a rank's
 * units end where passes of all ranks end.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "calibrate/share.h"

#define MOST 13

struct walk {
	size_t n, batch, n_ranks;
	bool taken[MOST];
};

/* No sequence of the rank from i on is in a pass before `pass`, and none before i is in it or after
 * it. */
static void check_boundary(const struct walk *walk, const struct share *share, size_t i)
{
	size_t passes = share_passes_done(share, i), before = 0;

	for (size_t s = share->rank.index; s < walk->n; s += walk->n_ranks)
		before += s < passes * walk->batch;
	assert_int_equal(before, i);
	assert_int_equal(share_sequences_of(share, passes), i);
}

static void check_rank(struct walk *walk, const struct dataset *data, size_t rank)
{
	struct share share;
	struct err err;
	size_t unit;

	assert_int_equal(
		share_open(&share, data, walk->batch, (struct rank){ rank, walk->n_ranks }, &err),
		0);
	unit = share_unit(&share);
	for (size_t i = 0; i < share.own.n; i++) {
		size_t s = share_sequence(&share, i);

		assert_true(s < walk->n && !walk->taken[s]);
		walk->taken[s] = true;
		assert_int_equal(share.own.sequences[i].begin, data->sequences[s].begin);
		assert_int_equal(share_pass(&share, i), s / walk->batch);
		if (i % unit == 0)
			check_boundary(walk, &share, i);
	}
	check_boundary(walk, &share, share.own.n);
	assert_int_equal(share_passes_done(&share, share.own.n),
			 (walk->n + walk->batch - 1) / walk->batch);
	share_release(&share);
}

static void every_sequence_is_of_one_rank(void **state)
{
	struct dataset_sequence sequences[MOST];

	(void)state;
	for (size_t i = 0; i < MOST; i++)
		sequences[i] = (struct dataset_sequence){ .begin = 10 * i, .len = 10 };
	for (size_t n = 1; n <= MOST; n++)
		for (size_t batch = 1; batch <= n; batch++)
			for (size_t n_ranks = 1; n_ranks <= n; n_ranks++) {
				const struct dataset data = { .sequences = sequences, .n = n };
				struct walk walk = { n, batch, n_ranks, { false } };

				for (size_t rank = 0; rank < n_ranks; rank++)
					check_rank(&walk, &data, rank);
				for (size_t i = 0; i < n; i++)
					assert_true(walk.taken[i]);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_sequence_is_of_one_rank),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
