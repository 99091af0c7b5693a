/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/resume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "source/fingerprint.h"

static int differs(const struct history_file *file, const char *what, const char *there,
		   const char *here, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "'%s' was made with another %s (%s, now %s): repeat the options of "
		       "the first run, or use --restart to start over",
		       file->params->output, what, there, here);
}

/* Checks that a site of the file is one of the model's, has a row for each pass, and has histograms
 * if this run has. */
static int check_site(const struct history_file *file, const struct amax_stats *stats,
		      const struct amax_site *site, const struct amax_stats *expected,
		      struct err *err)
{
	uint64_t n = stats->n_passes < stats->history_len ? stats->n_passes : stats->history_len;
	bool histogram = file->params->histogram;
	const char *output = file->params->output;

	if (!amax_stats_find(expected, site->name, site->kind))
		return err_set(err, ERR_INPUT,
			       "'%s' in '%s' is not %s of this model: use --restart to start over",
			       site->name, output,
			       site->kind == AMAX_GEMM ? "a module" : "an attention");
	if (site->n_passes != n)
		return err_set(err, ERR_INPUT,
			       "'%s' in '%s' has %zu passes, not %" PRIu64
			       ": use --restart to start over",
			       site->name, output, site->n_passes, n);
	if (n && site->kind == AMAX_GEMM && !site->histogram != !histogram)
		return differs(file, "--histogram", histogram ? "none" : "given",
			       histogram ? "given" : "none", err);
	return 0;
}

static int check_sites(const struct history_file *file, const struct amax_stats *stats,
		       const struct amax_stats *expected, struct err *err)
{
	for (size_t i = 0; i < stats->n_sites; i++)
		if (check_site(file, stats, stats->sites[i], expected, err))
			return -1;
	for (size_t i = 0; stats->n_passes && i < expected->n_sites; i++)
		if (!amax_stats_find(stats, expected->sites[i]->name, expected->sites[i]->kind))
			return err_set(err, ERR_INPUT,
				       "'%s' is not in '%s', which holds %" PRIu64
				       " passes: use --restart to start over",
				       expected->sites[i]->name, file->params->output,
				       stats->n_passes);
	return 0;
}

int resume_check(const struct history_file *file, const struct amax_stats *stats,
		 const struct amax_stats *expected, struct err *err)
{
	if (memcmp(expected->data, stats->data, sizeof stats->data) != 0 ||
	    expected->n_tokens != stats->n_tokens)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %" PRIu64
			       " passes over data that differs from '%s': repeat the data and "
			       "options of the first run, or use --restart to start over",
			       file->params->output, stats->n_passes, file->data);
	return check_sites(file, stats, expected, err);
}

static int history_differs(const struct history_file *file, const struct amax_stats *stats,
			   struct err *err)
{
	char *there = xasprintf("%" PRIu64, stats->history_len);
	char *here = xasprintf("%" PRIu64, calibrate_history_len(file->params));
	int rc = differs(file, "--amax-history-len", there, here, err);

	free(there);
	free(here);
	return rc;
}

/* Checks that the history is of the same rank, with the same sequences in all ranks. */
static int check_rank(const struct history_file *file, const struct amax_rank *rank,
		      struct err *err)
{
	char *there = xasprintf("%" PRIu64 "/%" PRIu64, rank->index, rank->n);
	char *here = xasprintf("%" PRIu64 "/%" PRIu64, file->rank.index, file->rank.n);
	int rc = 0;

	if (strcmp(there, here) != 0)
		rc = differs(file, "--ranks", rank->n ? there : "none",
			     file->rank.n ? here : "none", err);
	else if (strcmp(rank->job, file->rank.job) != 0)
		rc = err_set(err, ERR_INPUT,
			     "'%s' was made with other data, --passes, --batch or "
			     "--amax-history-len, which all ranks share: repeat the options of the "
			     "first run, or use --restart to start over",
			     file->params->output);
	free(there);
	free(here);
	return rc;
}

/* Reads the history of the file; expected: an empty one with the metadata of this run. */
static int read_history(const struct history_file *file, const struct amax_stats *expected,
			struct amax_stats *stats, struct err *err)
{
	if (amax_stats_read(stats, file->params->io, file->params->output, err))
		return -1;
	if (strcmp(stats->model, expected->model) != 0)
		return differs(file, "model", stats->model, expected->model, err);
	if (strcmp(stats->precision, expected->precision) != 0)
		return differs(file, "precision", stats->precision, expected->precision, err);
	if (strcmp(stats->backend, expected->backend) != 0)
		return differs(file, "backend", stats->backend, expected->backend, err);
	if (stats->history_len != expected->history_len)
		return history_differs(file, stats, err);
	if (check_rank(file, &stats->rank, err))
		return -1;
	if (stats->n_passes > file->n_passes)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %" PRIu64
			       " passes, but only %zu are requested: use --restart to start over",
			       file->params->output, stats->n_passes, file->n_passes);
	return 0;
}

/* Checks that the text is one that readers of safetensors accept. */
static int check_precision(const char *text, struct err *err)
{
	size_t n = strlen(text);

	if (text_control(text) != n || json_utf8_prefix((struct json_text){ text, n }) != n)
		return err_set(err, ERR_USAGE,
			       "invalid '--include' or '--exclude' in '%s': an amax history "
			       "records only UTF-8 without control characters",
			       text);
	return 0;
}

/* Makes an empty history with the metadata of this run. */
static int begin_history(const struct history_file *file, struct source *source,
			 const char *backend, struct amax_stats *stats, struct err *err)
{
	const struct calibrate_params *params = file->params;
	char *precision =
		fp8_select_precision(&params->fp8, params->precision ? params->precision : "bf16");
	char fingerprint[FINGERPRINT_SIZE];
	int rc = check_precision(precision, err);

	if (!rc)
		rc = fingerprint_make(source, fingerprint, err);
	if (!rc) {
		amax_stats_init(stats, fingerprint, precision, backend,
				calibrate_history_len(params));
		stats->rank = file->rank;
	}
	free(precision);
	return rc;
}

/* Begins a history, or reads the one to continue. */
static int open_history(const struct history_file *file, struct source *source, const char *backend,
			bool exists, struct amax_stats *stats, struct err *err)
{
	struct amax_stats expected;
	int rc;

	if (!exists || !file->params->resume)
		return begin_history(file, source, backend, stats, err);
	if (begin_history(file, source, backend, &expected, err))
		return -1;
	rc = read_history(file, &expected, stats, err);
	amax_stats_release(&expected);
	return rc;
}

/* Takes the place of the history, which one process does. */
static int open_place(struct history_file *file, bool *exists, struct err *err)
{
	const struct calibrate_params *params = file->params;
	struct stat status;

	if (group_leads(params->group) &&
	    outfile_open(&file->place, params->io, params->output, err))
		return -1;
	*exists = stat(params->output, &status) == 0;
	if (*exists && !params->resume && !params->restart)
		return err_set(err, ERR_USAGE,
			       "'%s' exists: use --resume to continue it, or --restart to start "
			       "over",
			       params->output);
	return params->restart && group_leads(params->group)
		       ? amax_outfile_check(&file->place, params->output, err)
		       : 0;
}

/* Have all ranks read the same passes? */
static int check_seen(const struct history_file *file, const struct amax_stats *stats,
		      struct err *err)
{
	uint64_t seen[2] = { stats->n_passes, ~stats->n_passes };

	if (group_reduce(file->params->group, GROUP_MIN, seen, 2, err))
		return -1;
	if (seen[0] == ~seen[1])
		return 0;
	return err_set(err, ERR_SYSTEM,
		       "the ranks see %" PRIu64 " and %" PRIu64
		       " passes in '%s': give an output on a file system that all of them share",
		       seen[0], ~seen[1], file->params->output);
}

int resume_open(struct history_file *file, struct source *source, const char *backend,
		struct amax_stats *stats, struct err *err)
{
	const struct group *group = file->params->group;
	bool exists = false;

	if (group_settle(group, open_place(file, &exists, err), err) ||
	    group_settle(group, open_history(file, source, backend, exists, stats, err), err))
		return -1;
	return group ? check_seen(file, stats, err) : 0;
}

int resume_failed(const struct history_file *file, const struct amax_stats *stats, size_t n_resumed,
		  double lost, struct err *err)
{
	struct err ignored;

	/* A history that began with bad input is no use for --resume. */
	if (err->kind == ERR_INPUT && stats->n_passes && !n_resumed &&
	    group_leads(file->params->group))
		outdir_remove(&file->place.dir, file->place.name, &ignored);
	if (err->kind != ERR_INTERRUPTED)
		return -1;
	if (stats->n_passes == 0)
		return err_set(err, ERR_INTERRUPTED,
			       "interrupted before the first sweep ended: nothing was kept "
			       "(lost: %.0f s of work)",
			       lost);
	return err_set(err, ERR_INTERRUPTED,
		       "interrupted after %" PRIu64
		       " of %zu passes, which are in '%s' (lost: %.0f s of work): run the "
		       "same command with --resume to continue",
		       stats->n_passes, file->n_passes, file->params->output, lost);
}
