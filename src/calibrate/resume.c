/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a calibration begins: with an empty history, or behind the passes that a file holds
 * already.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/json.h"
#include "base/mem.h"
#include "calibrate/steps.h"
#include "source/fingerprint.h"

static int differs(const struct beginning *beginning, const char *what, const char *there,
		   const char *here, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "'%s' was made with another %s (%s, now %s): --resume wants the options of "
		       "the run that began it, --restart begins anew",
		       beginning->params->output, what, there, here);
}

/* A site of the file is one of the model's, has a row for each pass, and counts what is counted
 * now. */
static int check_site(const struct beginning *beginning, const struct amax_stats *stats,
		      const struct amax_site *site, const struct amax_stats *wanted,
		      struct err *err)
{
	uint64_t n = stats->n_passes < stats->history_len ? stats->n_passes : stats->history_len;
	bool histogram = beginning->params->histogram;
	const char *output = beginning->params->output;

	if (!amax_stats_find(wanted, site->name, site->kind))
		return err_set(err, ERR_INPUT,
			       "'%s' in '%s' is no %s that is seen now: --restart begins anew",
			       site->name, output,
			       site->kind == AMAX_GEMM ? "module" : "attention");
	if (site->n_passes != n)
		return err_set(err, ERR_INPUT,
			       "'%s' in '%s' has %zu passes, not %llu: --restart begins anew",
			       site->name, output, site->n_passes, (unsigned long long)n);
	if (n && site->kind == AMAX_GEMM && !site->histogram != !histogram)
		return differs(beginning, "--histogram", histogram ? "none" : "given",
			       histogram ? "given" : "none", err);
	return 0;
}

/* wanted: those that are seen now. */
static int check_sites(const struct beginning *beginning, const struct amax_stats *stats,
		       const struct amax_stats *wanted, struct err *err)
{
	for (size_t i = 0; i < stats->n_sites; i++)
		if (check_site(beginning, stats, stats->sites[i], wanted, err))
			return -1;
	for (size_t i = 0; stats->n_passes && i < wanted->n_sites; i++)
		if (!amax_stats_find(stats, wanted->sites[i]->name, wanted->sites[i]->kind))
			return err_set(err, ERR_INPUT,
				       "'%s' is not in '%s', which holds %llu passes: --restart "
				       "begins anew",
				       wanted->sites[i]->name, beginning->params->output,
				       (unsigned long long)stats->n_passes);
	return 0;
}

/* The passes that the file holds are those that would be run first. */
static int check_data(const struct beginning *beginning, const struct amax_stats *stats,
		      struct err *err)
{
	const char *output = beginning->params->output;
	struct amax_stats wanted;
	int rc;

	if (stats->n_passes > beginning->n_passes)
		return err_set(
			err, ERR_INPUT,
			"'%s' holds %llu passes, and %zu are asked for: --restart begins anew",
			output, (unsigned long long)stats->n_passes, beginning->n_passes);
	amax_stats_init(&wanted, stats->model, stats->precision, stats->backend,
			stats->history_len);
	rc = beginning->count(beginning->context, &wanted, stats->n_passes, err);
	if (!rc && (memcmp(wanted.data, stats->data, sizeof wanted.data) != 0 ||
		    wanted.n_tokens != stats->n_tokens))
		rc = err_set(err, ERR_INPUT,
			     "'%s' holds %llu passes over other data than the first of '%s': "
			     "--resume wants the data and options of the run that began it, "
			     "--restart begins anew",
			     output, (unsigned long long)stats->n_passes, beginning->data);
	if (!rc)
		rc = check_sites(beginning, stats, &wanted, err);
	amax_stats_release(&wanted);
	return rc;
}

static uint64_t history_len(const struct calibrate_params *params)
{
	return params->history_len ? (uint64_t)params->history_len : AMAX_HISTORY_LEN;
}

static int history_differs(const struct beginning *beginning, const struct amax_stats *stats,
			   struct err *err)
{
	char *there = xasprintf("%llu", (unsigned long long)stats->history_len);
	char *here = xasprintf("%llu", (unsigned long long)history_len(beginning->params));
	int rc = differs(beginning, "--amax-history-len", there, here, err);

	free(there);
	free(here);
	return rc;
}

static int resume(const struct beginning *beginning, const char *fingerprint, const char *precision,
		  struct amax_stats *stats, struct err *err)
{
	if (amax_stats_read(stats, beginning->params->io, beginning->params->output, err))
		return -1;
	if (strcmp(stats->model, fingerprint) != 0)
		return differs(beginning, "model", stats->model, fingerprint, err);
	if (strcmp(stats->precision, precision) != 0)
		return differs(beginning, "precision", stats->precision, precision, err);
	if (strcmp(stats->backend, beginning->backend) != 0)
		return differs(beginning, "backend", stats->backend, beginning->backend, err);
	if (stats->history_len != history_len(beginning->params))
		return history_differs(beginning, stats, err);
	return check_data(beginning, stats, err);
}

/* An empty history, or the one to go on with. */
static int begin(const struct beginning *beginning, const char *precision, bool exists,
		 struct amax_stats *stats, struct err *err)
{
	const struct calibrate_params *params = beginning->params;
	char fingerprint[FINGERPRINT_SIZE];

	if (fingerprint_make(beginning->source, fingerprint, err))
		return -1;
	if (exists && params->resume)
		return resume(beginning, fingerprint, precision, stats, err);
	amax_stats_init(stats, fingerprint, precision, beginning->backend, history_len(params));
	return 0;
}

/* What no reader of safetensors would read. */
static bool can_be_kept(const char *text)
{
	size_t n = strlen(text);

	return text_control(text) == n && json_utf8_prefix((struct json_text){ text, n }) == n;
}

int calibrate_begin(const struct beginning *beginning, struct amax_stats *stats, struct err *err)
{
	const struct calibrate_params *params = beginning->params;
	struct stat status;
	char *precision;
	bool exists;
	int rc;

	if (amax_place_open(beginning->place, params->io, params->output, err))
		return -1;
	exists = stat(params->output, &status) == 0;
	if (exists && !params->resume && !params->restart)
		return err_set(err, ERR_USAGE,
			       "'%s' exists: --resume goes on with it, --restart begins anew",
			       params->output);
	if (params->restart && amax_place_check(beginning->place, params->output, err))
		return -1;
	precision =
		fp8_select_precision(&params->fp8, params->precision ? params->precision : "bf16");
	rc = !can_be_kept(precision) ? err_set(err, ERR_USAGE,
					       "--include and --exclude: the history keeps UTF-8 "
					       "without control characters, not ('%s')",
					       precision)
				     : begin(beginning, precision, exists, stats, err);
	free(precision);
	return rc;
}

int calibrate_failed(const struct beginning *beginning, const struct amax_stats *stats,
		     size_t n_resumed, struct err *err)
{
	struct err ignored;

	/* What bad input was found in holds nothing to go on with. */
	if (err->kind == ERR_INPUT && stats->n_passes && !n_resumed)
		outdir_remove(&beginning->place->dir, beginning->place->name, &ignored);
	if (err->kind != ERR_INTERRUPTED)
		return -1;
	if (stats->n_passes == 0)
		return err_set(
			err, ERR_INTERRUPTED,
			"interrupted before the first passes were done: nothing was written");
	return err_set(err, ERR_INTERRUPTED,
		       "interrupted after %llu of %zu passes, which '%s' holds: the same command "
		       "with --resume goes on",
		       (unsigned long long)stats->n_passes, beginning->n_passes,
		       beginning->params->output);
}
