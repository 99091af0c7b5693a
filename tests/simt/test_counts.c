/* SPDX-License-Identifier: Apache-2.0
 *
 * What a calibration asks of a GPU, with limits: launches, bytes that kernels move, copies, waits.
 * Two calibrations differ by one layer, or by one sequence, so their counts differ by what that
 * layer or sequence takes.
 */
#include "tests/simt/counted_job.h"

/* The most of one sequence more, in a layer of Llama's shape. */
#define MAX_LAUNCHES  20   /* with products */
#define MAX_MEGABYTES 0.45 /* of a token, at 4096 x 14336, that kernels read and write */

static double launches_of(const struct job *job)
{
	return (double)(job->counts.n_launches + job->n_products);
}

static double copies_of(const struct job *job)
{
	return (double)(job->counts.n_copies_in + job->counts.n_copies_out);
}

/* The megabytes that kernels move for a token of the sequence that one job has more. */
static double megabytes_between(const struct job *few, const struct job *more)
{
	const struct simt_counts *a = &few->counts, *b = &more->counts;

	return (double)(b->n_read + b->n_written - a->n_read - a->n_written) * SHARE / TOKENS / 1e6;
}

static void a_dense_layer_has_its_limits(void **state)
{
	struct folder folder = folder_new();
	const struct job few = layer_of(folder.path, 2, 0), more = layer_of(folder.path, 3, 0);

	(void)state;
	folder_remove(folder);
	at_most("launches of a layer and sequence", launches_of(&more) - launches_of(&few),
		MAX_LAUNCHES);
	at_most("megabytes of a token and layer", megabytes_between(&few, &more), MAX_MEGABYTES);
	at_most("waits of a layer and sequence", (double)(more.counts.n_waits - few.counts.n_waits),
		1);
	at_most("copies of a layer and sequence", copies_of(&more) - copies_of(&few), 0);
	at_most("descriptors of a layer more", (double)more.n_made, 0);
}

/* The same with --fp8-forward: the 4 inputs of a layer are cast where they are, each once.  Delayed
 * scaling has a step for each sequence: at its end the amaxes of inputs are copied to the host. */
static void a_layer_in_fp8_has_its_limits(void **state)
{
	static const struct {
		const char *recipe;
		double max_launches, max_megabytes, max_waits, max_copies;
	} rows[] = {
		{ "blockwise", MAX_LAUNCHES + 4, 0.67, 1, 0 },
		{ "current", MAX_LAUNCHES + 4 * 3, 0.83, 1, 0 },
		{ "delayed", MAX_LAUNCHES + 4 + 4 + 1, 0.84, 2, 1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct folder folder = folder_new();
		const struct job few = fp8_layer_of(folder.path, 2, 0, rows[i].recipe),
				 more = fp8_layer_of(folder.path, 3, 0, rows[i].recipe);

		folder_remove(folder);
		print_message("%s: ", rows[i].recipe);
		at_most("launches of a layer and sequence", launches_of(&more) - launches_of(&few),
			rows[i].max_launches);
		at_most("megabytes of a token and layer", megabytes_between(&few, &more),
			rows[i].max_megabytes);
		at_most("waits of a layer and sequence",
			(double)(more.counts.n_waits - few.counts.n_waits), rows[i].max_waits);
		at_most("copies of a layer and sequence", copies_of(&more) - copies_of(&few),
			rows[i].max_copies);
	}
}

/* The most of a layer of experts: of one sequence more, and of a group besides 3 products for each
 * expert: the choice, and batches, of which 2 TOP_K + 1 have room for all tokens. */
#define MAX_ROUTED_LAUNCHES 20
#define MAX_GROUP_LAUNCHES  (3 + 5 * (2 * TOP_K + 1))
#define GROUP		    8 /* sequences that go through experts together */

/* The launches of a sequence more do not depend on the number of experts; the experts' launches not
 * on the number of sequences.  A group waits to learn how many tokens each expert has, and at the
 * end. */
static void experts_take_all_sequences_at_once(void **state)
{
	struct folder folder = folder_new();
	const struct job two = layer_of(folder.path, 2, 8), four = layer_of(folder.path, 4, 8),
			 group = layer_of(folder.path, GROUP, 8),
			 wide = layer_of(folder.path, 2, 16),
			 groups = layer_of(folder.path, 2 * GROUP, 8);
	double each = (launches_of(&four) - launches_of(&two)) / 2;

	(void)state;
	folder_remove(folder);
	at_most("launches of a layer of experts and sequence", each, MAX_ROUTED_LAUNCHES);
	at_most("launches of a layer's 8 experts", launches_of(&group) - GROUP * each,
		MAX_GROUP_LAUNCHES + 3 * 8);
	at_most("launches of 8 experts more", launches_of(&wide) - launches_of(&two), 3 * 8);
	at_most("waits of sequences of a group",
		(double)(group.counts.n_waits - two.counts.n_waits), 0);
	at_most("copies of sequences of a group",
		(double)(group.counts.n_copies_in + group.counts.n_copies_out -
			 two.counts.n_copies_in - two.counts.n_copies_out),
		0);
	at_most("waits of a group", (double)(groups.counts.n_waits - group.counts.n_waits), 2);
}

/* The same with --fp8-forward: a sequence more has the casts of attention's inputs, and the
 * rounding of the router's; inputs of experts are cast for all sequences at once. */
static void experts_in_fp8_take_all_sequences_at_once(void **state)
{
	static const struct {
		const char *recipe;
		double max_launches;
	} rows[] = { { "blockwise", MAX_ROUTED_LAUNCHES + 2 + 1 },
		     { "current", MAX_ROUTED_LAUNCHES + 2 * 3 + 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct folder folder = folder_new();
		const struct job two = fp8_layer_of(folder.path, 2, 8, rows[i].recipe),
				 four = fp8_layer_of(folder.path, 4, 8, rows[i].recipe);

		folder_remove(folder);
		print_message("%s: ", rows[i].recipe);
		at_most("launches of a layer of experts and sequence",
			(launches_of(&four) - launches_of(&two)) / 2, rows[i].max_launches);
		at_most("waits of sequences of a group",
			(double)four.counts.n_waits - (double)two.counts.n_waits, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dense_layer_has_its_limits),
		cmocka_unit_test(a_layer_in_fp8_has_its_limits),
		cmocka_unit_test(experts_take_all_sequences_at_once),
		cmocka_unit_test(experts_in_fp8_take_all_sequences_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
