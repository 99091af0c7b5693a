/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/sensitivity.h"

#include <stdlib.h>

#include "base/mem.h"
#include "sensitivity/round.h"
#include "sensitivity/saved.h"

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

/* Sets the work that is left: the unquantized model goes through every stage in each round, a
 * variant through those from its own on. */
static void show_total(const struct round *round, size_t first)
{
	const struct sensitivity_plan *plan = round->plan;
	const struct kld_table *table = &plan->table;
	size_t left = table->n_groups - first, n_layers = plan->model.n_layers;
	size_t n_rounds = (left + plan->n_at_once - 1) / plan->n_at_once;
	uint64_t *from = xcalloc(n_layers + 1, sizeof *from), work;

	for (size_t i = n_layers + 1; i--;)
		from[i] = sweep_plan_work(&plan->sweep, i) + (i < n_layers ? from[i + 1] : 0);
	work = n_rounds * from[0];
	for (size_t i = first; i < table->n_groups; i++) {
		size_t layer = table->groups[i].layer;

		work += from[layer < n_layers ? layer : n_layers];
	}
	free(from);
	atomic_store(&round->progress->sweep.total, work * plan->sweep.n_tokens);
	atomic_store(&round->progress->n_left, left);
	atomic_store(&round->progress->n_rounds, n_rounds);
}

/* The leading rank saves the table. */
static int save(const struct round *round, const struct saved *saved, struct err *err)
{
	const struct group *group = round->params->group;
	int rc = group_leads(group) ? saved_put(saved, &round->plan->table, err) : 0;

	return group_settle(group, rc, err);
}

static int run_rounds(struct round *round, const struct saved *saved, struct err *err)
{
	const struct sensitivity_plan *plan = round->plan;
	struct sensitivity_progress *progress = round->progress;
	size_t first = n_measured(&plan->table), n;

	show_total(round, first);
	if (first == plan->table.n_groups) /* of a table that another program wrote */
		return save(round, saved, err);
	for (; first < plan->table.n_groups; first += n) {
		size_t left = plan->table.n_groups - first;

		n = left < plan->n_at_once ? left : plan->n_at_once;
		atomic_store(&progress->n_measured, first);
		atomic_store(&progress->n_groups, 0);
		atomic_fetch_add(&progress->round, 1);
		if (round_run(round, first, n, err))
			return -1;
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

	if (!n)
		return err_set(err, ERR_INTERRUPTED,
			       "interrupted before the first round ended: nothing was saved");
	return err_set(err, ERR_INTERRUPTED,
		       "interrupted after %zu of %zu groups, which are saved beside '%s': run the "
		       "same command again to continue",
		       n, round->plan->table.n_groups, params->output);
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
