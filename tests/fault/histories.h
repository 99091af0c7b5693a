/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs that make one file, an amax history or a table of divergences, and what they make it of.
 */
#ifndef FP8CONV_TESTS_FAULT_HISTORIES_H
#define FP8CONV_TESTS_FAULT_HISTORIES_H

#include "backend/backend.h"
#include "calibrate/calibrate.h"
#include "source/fingerprint.h"
#include "amax/merge.h"
#include "names/role.h"
#include "sensitivity/sensitivity.h"
#include "tests/fault/tree.h"

/* What lies in the output before the run. */
enum start {
	START_EMPTY,
	START_BASE,
	START_HALF,
	START_STOPPED,
	START_CUT,
	START_ROTTEN,
	START_OTHER
};

/* A job in some circumstances. */
struct place {
	const char *name;
	const char *input, *output;
	const char *preserve; /* where the command can */
	bool as_before;	      /* without preserve, this is the place before it */
	enum start start;
	bool restart, hashes;
	int part; /* of 2 */
	int n_threads;
};

/* A job that makes one file of a history.  half: the first of its passes alone. */
typedef int history_fn(const struct io *io, const struct place *place, bool other, bool half,
		       const atomic_int *stop, struct err *err);

#define N_PASSES  3
#define N_TOKENS  500 /* of a pass: two are a first sweep */
#define N_AT_ONCE 5   /* groups of a round, of eight */

static int run_merge(const struct io *io, const struct place *place, bool other, bool half,
		     const atomic_int *stop, struct err *err)
{
	const char *inputs[] = { "a.amax", "b.amax" };
	const struct amax_merge_params params = { .io = io,
						  .output = place->output,
						  .inputs = inputs,
						  .n_inputs = 2,
						  .how = other ? AMAX_RANKS : AMAX_APPEND };

	(void)half, (void)stop;
	return amax_merge_files(&params, &(struct amax_merged){ 0 }, err);
}

static struct calibrate_params history_params(const struct io *io, const struct place *place,
					      bool other, bool half)
{
	bool restart = place->restart && !other;

	return (struct calibrate_params){ .io = io,
					  .input = "llama",
					  .output = place->output,
					  .backend = backends[0],
					  .precision = other ? "f32" : "bf16",
					  .passes = half ? N_PASSES - 1 : N_PASSES,
					  .restart = restart,
					  .resume = !restart,
					  .histogram = true,
					  .n_threads = place->n_threads };
}

static int run_calibrate(const struct io *io, const struct place *place, bool other, bool half,
			 const atomic_int *stop, struct err *err)
{
	static const char *const data[] = { "ids.jsonl" };
	struct calibrate_params params = history_params(io, place, other, half);
	struct sweep_progress progress = { 0 };
	struct calibrate_result result = { 0 };
	struct amax_stats stats = { 0 };
	struct calibrate_plan plan;
	int rc;

	params.data = data;
	params.n_data = 1;
	params.stop = stop;
	rc = calibrate_plan_make(&plan, &params, err);
	if (!rc)
		rc = calibrate_run(&plan, &params, &progress, &result, &stats, err);
	free(result.nll);
	amax_stats_release(&stats);
	calibrate_plan_release(&plan);
	return rc;
}

static inline void history_die(const char *path, const struct err *err)
{
	fprintf(stderr, "%s: %s\n", path, err->message);
	exit(2);
}

/* Makes of a finished table what an interrupted job leaves: one round of its groups. */
static inline void table_halve(struct kld_table *table, const char *output)
{
	struct buf text = { 0 };

	for (size_t i = N_AT_ONCE; i < table->n_groups; i++)
		table->groups[i].measured = false;
	kld_table_text(table, &text);
	tree_write("out/.s.amax.unfinished", text.data, text.len);
	buf_release(&text);
	unlink(output);
}

static int run_sensitivity(const struct io *io, const struct place *place, bool other, bool half,
			   const atomic_int *stop, struct err *err)
{
	static const char *const data[] = { "few.jsonl" };
	static const char *include[] = { "layers\\.[23]\\." };
	static const char *const names[] = { "blockwise" };
	const struct sensitivity_params params = {
		.quantize = { .convert = { .io = io,
					   .input = "llama",
					   .backend = backends[0],
					   .n_threads = place->n_threads },
			      .select = { .include = { include, 1 } } },
		.recipes = names,
		.n_recipes = 1,
		.data = data,
		.n_data = 1,
		.passes = 1,
		.precision = other ? "bf16" : "f32",
		.output = place->output,
		.restart = place->restart && !other,
		.backend = backends[0],
		.n_threads = place->n_threads,
		.stop = stop,
	};
	struct sensitivity_progress progress = { 0 };
	struct sensitivity_plan plan;
	int rc = sensitivity_plan_make(&plan, &params, err);

	if (!rc) {
		plan.n_at_once = N_AT_ONCE;
		rc = sensitivity_run(&plan, &params, &progress, err);
	}
	if (!rc && half)
		table_halve(&plan.table, place->output);
	sensitivity_plan_release(&plan);
	return rc;
}

/* --- what they are made of --- */

/* Makes of a history of the first passes what an interrupted job leaves: it tells all its passes.
 * A merge has no passes of its own, and a table is no history. */
static inline void make_begun(const char *path)
{
	struct amax_stats stats;
	struct err err = { 0 };
	struct stat st;

	if (stat(path, &st))
		return;
	if (amax_stats_read(&stats, &io_system, path, &err))
		history_die(path, &err);
	if (stats.n_passes < N_PASSES) {
		stats.n_planned = N_PASSES;
		if (amax_stats_write(&stats, &io_system, path, &err))
			history_die(path, &err);
	}
	amax_stats_release(&stats);
}

/* A history of the matrices of a model, fused experts as experts. */
static inline void fill_history(struct amax_stats *stats, const struct checkpoint *checkpoint,
				float amax)
{
	const float row[3] = { amax, 1, 2 * amax };

	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct st_tensor *tensor = checkpoint->tensors[i].tensor;
		const char *dot = strrchr(tensor->name, '.');
		struct role_facts facts;

		role_of_name(&facts, tensor->name);
		for (uint64_t e = 0; tensor->n_dims == 3 && e < tensor->shape[0]; e++) {
			for (enum expert_part part = EXPERT_GATE; part <= EXPERT_DOWN; part++) {
				char *name = experts_part_name(tensor->name, part, e, "weight");

				*strrchr(name, '.') = '\0';
				if ((part == EXPERT_DOWN) == (facts.role == ROLE_EXPERTS_DOWN))
					amax_site_append(amax_stats_site(stats, name, AMAX_GEMM),
							 row, 1);
				free(name);
			}
		}
		if (tensor->n_dims == 2 && facts.role == ROLE_LINEAR) {
			char *name = xstrndup(tensor->name, (size_t)(dot - tensor->name));

			amax_site_append(amax_stats_site(stats, name, AMAX_GEMM), row, 1);
			free(name);
		}
	}
	stats->n_passes = 1;
	amax_stats_data(stats, &amax, sizeof amax, 1);
}

/* As file `to`. */
static inline void make_history(const char *model, const char *to, float amax)
{
	struct checkpoint checkpoint;
	struct source source;
	struct amax_stats stats;
	struct err err = { 0 };
	char fingerprint[FINGERPRINT_SIZE];

	if (checkpoint_open(&checkpoint, &io_system, model, 1, &err))
		history_die(model, &err);
	source_init(&source, &io_system, &checkpoint, NULL, -1);
	if (fingerprint_make(&source, fingerprint, &err))
		history_die(model, &err);
	amax_stats_init(&stats, fingerprint, "bf16", "cpu", AMAX_HISTORY_LEN);
	fill_history(&stats, &checkpoint, amax);
	if (amax_stats_write(&stats, &io_system, to, &err))
		history_die(to, &err);
	amax_stats_release(&stats);
	source_release(&source);
	checkpoint_release(&checkpoint);
}

/* Sequences of token ids, a line each. */
static inline void make_ids_of(const char *path, int n_tokens, int vocabulary)
{
	struct buf text = { 0 };

	for (int p = 0; p < N_PASSES; p++) {
		for (int t = 0; t < n_tokens; t++)
			buf_printf(&text, "%s%d", t ? ", " : "{\"input_ids\": [",
				   (p * 37 + t * 7) % vocabulary);
		buf_puts(&text, "]}\n");
	}
	tree_write(path, text.data, text.len);
	buf_release(&text);
}

static inline void make_ids(void)
{
	make_ids_of("ids.jsonl", N_TOKENS, 1000);
}

/* Of tokens that each sample knows: what is read does not depend on their number. */
static inline void make_few_ids(void)
{
	make_ids_of("few.jsonl", 32, 256);
}

static inline void make_history_inputs(const char *samples)
{
	char *llama = xasprintf("%s/tiny-llama", samples);

	tree_remove("llama");
	tree_copy(llama, "llama");
	make_history("llama", "a.amax", 1);
	make_history("llama", "b.amax", 2);
	make_ids();
	make_few_ids();
	free(llama);
}

#endif
