/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/sensitivity.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "ckpt/outdir.h"
#include "sensitivity/round.h"
#include "sweep/length.h"

/* The output, and what an earlier run has left beside it. */
struct saved {
	struct outfile file;
	char *name;    /* of the unfinished table, beside the output */
	bool finished; /* the output is there, and of this plan */
};

/* Are two tables of the same measurement?  Compares all but divergences. */
static bool same_table(const struct kld_table *a, const struct kld_table *b)
{
	struct buf of_a = { 0 }, of_b = { 0 };
	bool same;

	kld_table_text(a, &of_a);
	kld_table_text(b, &of_b);
	same = of_a.len == of_b.len && !memcmp(of_a.data, of_b.data, of_a.len);
	buf_release(&of_a);
	buf_release(&of_b);
	return same;
}

/* Moves the divergences out of a table, so that it can be compared. */
static struct kld_group *strip(struct kld_table *table)
{
	struct kld_group *copies = xcalloc(table->n_groups + 1, sizeof *copies);

	for (size_t i = 0; i < table->n_groups; i++) {
		copies[i] = table->groups[i];
		table->groups[i].measured = false;
	}
	return copies;
}

/* Takes the divergences of another table into the plan's if it is of this plan, and returns
 * whether it is. */
static bool take(struct kld_table *to, struct kld_table *from)
{
	struct kld_group *groups = strip(from);
	bool same = same_table(from, to);

	for (size_t i = 0; i < to->n_groups && same; i++) {
		to->groups[i].measured = groups[i].measured;
		to->groups[i].mean = groups[i].mean;
		to->groups[i].se = groups[i].se;
	}
	free(groups);
	return same;
}

/* Checks an output that exists: with --restart it must be a table, else that of this plan. */
static int check_output(struct saved *saved, struct sensitivity_plan *plan,
			const struct sensitivity_params *params, struct err *err)
{
	const struct outdir *dir = &saved->file.dir;
	struct kld_table table;

	if (kld_table_read(&table, dir->io, dir->fd, saved->file.name, false, err)) {
		if (err->kind == ERR_SYSTEM)
			return -1;
		return err_set(err, ERR_USAGE,
			       "'%s' exists and is not a table of divergences: choose another "
			       "output or remove it",
			       params->output);
	}
	saved->finished = !params->restart && take(&plan->table, &table);
	kld_table_release(&table);
	if (params->restart || saved->finished)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' exists and is of another model, other data or other options: use "
		       "--restart to start over",
		       params->output);
}

/* Takes the divergences of the unfinished table. */
static int resume(const struct saved *saved, struct sensitivity_plan *plan,
		  const struct sensitivity_params *params, struct err *err)
{
	const struct outdir *dir = &saved->file.dir;
	struct kld_table table;
	bool same;

	if (kld_table_read(&table, dir->io, dir->fd, saved->name, true, err)) {
		if (err->kind == ERR_SYSTEM)
			return -1;
		return err_wrap(err, "use --restart to start over");
	}
	same = take(&plan->table, &table);
	kld_table_release(&table);
	if (same)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' was begun with another model, other data or other options: repeat "
		       "the first command, or use --restart to start over",
		       params->output);
}

/* Takes the divergences of earlier runs into the plan's table. */
static int saved_open(struct saved *saved, struct sensitivity_plan *plan,
		      const struct sensitivity_params *params, struct err *err)
{
	const struct outdir *dir = &saved->file.dir;

	*saved = (struct saved){ 0 };
	if (outfile_open(&saved->file, params->quantize.convert.io, params->output, err))
		return -1;
	saved->name = outdir_own_name(saved->file.name, "unfinished");
	if (outdir_has(dir, saved->file.name) && check_output(saved, plan, params, err))
		return -1;
	if (params->restart || saved->finished)
		return outdir_remove(dir, saved->name, err);
	return outdir_has(dir, saved->name) ? resume(saved, plan, params, err) : 0;
}

/* Writes the table: to the output if every group is measured, else beside it. */
static int saved_put(const struct saved *saved, const struct kld_table *table, struct err *err)
{
	const struct outdir *dir = &saved->file.dir;
	struct buf text = { 0 };
	bool finished = true;
	int rc;

	for (size_t i = 0; i < table->n_groups; i++)
		finished = finished && table->groups[i].measured;
	kld_table_text(table, &text);
	rc = outdir_put(dir, finished ? saved->file.name : saved->name, text.data, text.len, err);
	buf_release(&text);
	if (rc || !finished)
		return rc;
	if (outdir_sync(dir, err) || outdir_remove(dir, saved->name, err))
		return -1;
	return 0;
}

static void saved_close(struct saved *saved)
{
	outfile_close(&saved->file);
	free(saved->name);
}

#define N_FIRST 4 /* groups of the first round */

static size_t n_measured(const struct kld_table *table)
{
	size_t n = 0;

	while (n < table->n_groups && table->groups[n].measured)
		n++;
	return n;
}

/* Fails with ERR_USAGE where the ranks of a group do not measure the same, and lets as many groups
 * into a round as each of them has memory for. */
static int agree(struct sensitivity_plan *plan, const struct group *group, struct err *err)
{
	struct buf text = { 0 };
	int rc;

	kld_table_text(&plan->table, &text);
	rc = group_agree(group, text.data, text.len, err);
	buf_release(&text);
	return rc ? rc : group_least(group, &plan->n_at_once, err);
}

/* The divergence of a group in a message; all bytes are 0 on ranks that do not lead. */
struct divergence_sent {
	uint64_t measured;
	double mean, se;
};

/* Takes the divergences of the leading rank into the table. */
static int take_divergences(struct kld_table *table, const struct group *group, struct err *err)
{
	struct divergence_sent *sent = xcalloc(table->n_groups, sizeof *sent);
	int rc;

	for (size_t i = 0; i < table->n_groups && group_leads(group); i++) {
		const struct kld_group *from = &table->groups[i];

		sent[i] = (struct divergence_sent){ from->measured, from->mean, from->se };
	}
	rc = group_reduce(group, GROUP_UNION, sent, table->n_groups * sizeof *sent, err);
	for (size_t i = 0; i < table->n_groups && !rc; i++) {
		table->groups[i].measured = sent[i].measured;
		table->groups[i].mean = sent[i].mean;
		table->groups[i].se = sent[i].se;
	}
	free(sent);
	return rc;
}

/* Gives all ranks the divergences of the leading one, and whether its output is finished. */
static int take_leading(struct sensitivity_plan *plan, const struct group *group, bool *finished,
			struct err *err)
{
	unsigned char byte = group_leads(group) && *finished;

	if (group_size(group) == 1)
		return 0;
	if (group_reduce(group, GROUP_UNION, &byte, 1, err))
		return -1;
	*finished = byte;
	return take_divergences(&plan->table, group, err);
}

/* Shows a round of n groups, and the work that is left with rounds of n_later after it: the
 * unquantized model goes through every stage in each round, a variant through those from its own
 * on. */
static void show_round(const struct round *round, size_t first, size_t n, size_t n_later)
{
	struct sensitivity_progress *progress = round->progress;
	const struct sensitivity_plan *plan = round->plan;
	const struct kld_table *table = &plan->table;
	size_t left = table->n_groups - first, n_layers = plan->model.n_layers;
	size_t n_rounds = 1 + (left - n + n_later - 1) / n_later;
	uint64_t *from = xcalloc(n_layers + 1, sizeof *from), work;

	for (size_t i = n_layers + 1; i--;)
		from[i] = sweep_plan_work(&plan->sweep, i) + (i < n_layers ? from[i + 1] : 0);
	work = n_rounds * from[0];
	for (size_t i = first; i < table->n_groups; i++) {
		size_t layer = table->groups[i].layer;

		work += from[layer < n_layers ? layer : n_layers];
	}
	free(from);
	work = work * plan->sweep.n_tokens + atomic_load(&progress->sweep.done);
	if (!atomic_load(&progress->round))
		atomic_store(&progress->n_left, left);
	atomic_store(&progress->sweep.total, work);
	atomic_store(&progress->n_rounds, atomic_load(&progress->round) + n_rounds);
	atomic_store(&progress->n_measured, first);
	atomic_store(&progress->n_groups, 0);
	atomic_fetch_add(&progress->round, 1);
}

/* The leading rank saves the table. */
static int save(const struct round *round, const struct saved *saved, struct err *err)
{
	const struct group *group = round->params->group;
	int rc = group_leads(group) ? saved_put(saved, &round->plan->table, err) : 0;

	return group_settle(group, rc, err);
}

/* Returns the groups of the first round: few, but enough for all threads; without a clock as many
 * as fit. */
static size_t rounds_begin(struct round *round)
{
	struct sweep_length *length = &round->length;
	const struct sensitivity_plan *plan = round->plan;
	size_t n_threads = (size_t)round->params->n_threads;
	size_t shared = (n_threads + plan->data.n - 1) / plan->data.n;

	*length = (struct sweep_length){ .now = round->params->now, .step = shared };
	length->first = !length->now ? plan->n_at_once : shared > N_FIRST ? shared : N_FIRST;
	return sweep_length_begin(length, plan->n_at_once);
}

/* Returns the groups of the round after one of n. */
static size_t rounds_next(struct round *round, size_t n)
{
	struct sweep_length *length = &round->length;
	int n_threads = round->params->n_threads;

	sweep_length_loaded(length, length->began + round->seconds, n_threads);
	return sweep_length_next(length, n, n_threads);
}

static int run_rounds(struct round *round, const struct saved *saved, struct err *err)
{
	const struct sensitivity_plan *plan = round->plan;
	size_t first = n_measured(&plan->table), n, next = rounds_begin(round);
	size_t later = plan->n_at_once;

	if (first == plan->table.n_groups) /* of a table that another program wrote */
		return save(round, saved, err);
	for (; first < plan->table.n_groups; first += n) {
		size_t left = plan->table.n_groups - first;

		if (group_least(round->params->group, &next, err))
			return -1;
		n = left < next ? left : next;
		show_round(round, first, n, later);
		if (round_run(round, first, n, err))
			return -1;
		later = next = rounds_next(round, n);
		if (first + n == plan->table.n_groups && sweep_close(&round->sweep, err))
			return -1;
		if (save(round, saved, err))
			return -1;
	}
	return 0;
}

static int interrupted(const struct round *round, const struct sensitivity_params *params,
		       struct err *err)
{
	size_t n = n_measured(&round->plan->table);
	double lost = sweep_length_taken(&round->length);

	if (!n)
		return err_set(
			err, ERR_INTERRUPTED,
			"interrupted before the first round of groups ended: nothing was kept "
			"(lost: %.0f s of work)",
			lost);
	return err_set(err, ERR_INTERRUPTED,
		       "interrupted after %zu of %zu groups, which are saved beside '%s' "
		       "(lost: %.0f s of work): run the same command again to continue",
		       n, round->plan->table.n_groups, params->output, lost);
}

/* The leading rank opens the output; all go on from what it has. */
static int open_saved(struct saved *saved, const struct round *round, struct err *err)
{
	const struct sensitivity_params *params = round->params;
	int rc = group_leads(params->group) ? saved_open(saved, round->plan, params, err) : 0;

	if (group_settle(params->group, rc, err))
		return -1;
	return take_leading(round->plan, params->group, &saved->finished, err);
}

int sensitivity_run(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		    struct sensitivity_progress *progress, struct err *err)
{
	struct round round = { .plan = plan, .params = params, .progress = progress };
	struct saved saved = { 0 };
	int rc = -1;

	if (agree(plan, params->group, err) || round_open(&round, err) ||
	    open_saved(&saved, &round, err))
		goto out;
	rc = saved.finished ? 0 : run_rounds(&round, &saved, err);
	if (rc && err->kind == ERR_INTERRUPTED)
		rc = interrupted(&round, params, err);
out:
	round_release(&round);
	saved_close(&saved);
	return rc;
}
