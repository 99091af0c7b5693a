/* SPDX-License-Identifier: Apache-2.0
 *
 * amax/merge.h: what files hardly reach; tests/cli/merge has the rest.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "amax/merge.h"

static void table(struct amax_stats *stats, const char *backend, int64_t n_tokens, uint64_t count)
{
	struct amax_site *site;

	amax_stats_init(stats, "m", "bf16", backend, 4);
	site = amax_stats_site(stats, "s", AMAX_GEMM);
	amax_site_append(site, (const float[]){ 1, 2, 3 }, n_tokens);
	amax_site_histogram(site)[7][1] = count;
	stats->n_passes = 1;
}

static int merged(struct amax_stats *one, struct amax_stats *other, enum amax_merge how,
		  struct err *err)
{
	int rc = amax_stats_merge(one, other, how, "b", err);

	amax_stats_release(other);
	return rc;
}

static void backends_are_united(void **state)
{
	static const char *const rows[][3] = {
		{ "cpu", "cpu", "cpu" },       { "cuda", "cpu", "cpu+cuda" },
		{ "cpu", "cuda", "cpu+cuda" }, { "cpu", "cpu+cuda", "cpu+cuda" },
		{ "a+c", "b+c+d", "a+b+c+d" }, { "cpu", "cp", "cp+cpu" },
		{ "b", "a+c", "a+b+c" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct amax_stats one, other;
		struct err err = { 0 };

		table(&one, rows[i][0], 1, 1);
		table(&other, rows[i][1], 1, 1);
		assert_int_equal(merged(&one, &other, AMAX_RANKS, &err), 0);
		assert_string_equal(one.backend, rows[i][2]);
		amax_stats_release(&one);
	}
}

static void sums_do_not_wrap(void **state)
{
	static const struct {
		uint64_t passes, tokens, count;
		int64_t pass_tokens;
		enum amax_merge how;
		const char *message; /* NULL: it fits */
	} rows[] = {
		{ 1, 1, 1, 1, AMAX_RANKS, NULL },
		{ 1, INT64_MAX - 1, 1, 1, AMAX_RANKS, NULL },
		{ 1, INT64_MAX, 1, 1, AMAX_RANKS,
		  "with 'b', the tokens add up to more than 2^63 - 1" },
		{ INT64_MAX, 1, 1, 1, AMAX_APPEND,
		  "with 'b', the passes add up to more than 2^63 - 1" },
		{ 1, 1, 1, INT64_MAX - 1, AMAX_RANKS, NULL },
		{ 1, 1, 1, INT64_MAX, AMAX_RANKS,
		  "with 'b', the tokens of module 's' add up to more than 2^63 - 1" },
		{ 1, 1, 1, INT64_MAX, AMAX_APPEND, NULL },
		{ 1, 1, UINT64_MAX - 1, 1, AMAX_APPEND, NULL },
		{ 1, 1, UINT64_MAX, 1, AMAX_APPEND,
		  "with 'b', the histogram of module 's' adds up to more than 2^64 - 1" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct amax_stats one, other;
		struct err err = { 0 };

		table(&one, "cpu", rows[i].pass_tokens, rows[i].count);
		table(&other, "cpu", 1, 1);
		one.n_tokens = rows[i].tokens;
		one.n_passes = rows[i].passes;
		other.n_tokens = 1;
		assert_int_equal(merged(&one, &other, rows[i].how, &err), rows[i].message ? -1 : 0);
		if (rows[i].message) {
			assert_int_equal(err.kind, ERR_INPUT);
			assert_string_equal(err.message, rows[i].message);
		}
		amax_stats_release(&one);
	}
}

static void kinds_must_agree(void **state)
{
	struct amax_stats one, other;
	struct err err = { 0 };

	(void)state;
	table(&one, "cpu", 1, 1);
	amax_stats_init(&other, "m", "bf16", "cpu", 4);
	amax_stats_site(&other, "s", AMAX_ATTENTION);
	assert_int_equal(merged(&one, &other, AMAX_APPEND, &err), -1);
	assert_string_equal(err.message,
			    "only one of 'b' and the earlier files has q, k, v for module 's'");
	amax_stats_release(&one);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(backends_are_united),
		cmocka_unit_test(sums_do_not_wrap),
		cmocka_unit_test(kinds_must_agree),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
