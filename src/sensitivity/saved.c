/* SPDX-License-Identifier: Apache-2.0 */
#include "sensitivity/saved.h"

#include <stdlib.h>
#include <string.h>

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

int saved_open(struct saved *saved, struct sensitivity_plan *plan,
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

int saved_put(const struct saved *saved, const struct kld_table *table, struct err *err)
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

void saved_close(struct saved *saved)
{
	outfile_close(&saved->file);
	free(saved->name);
}
