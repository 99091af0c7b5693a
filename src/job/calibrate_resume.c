/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a calibration begins: with an empty history, or behind the passes that a file holds already.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "job/calibrate_internal.h"
#include "job/fingerprint.h"

static int differs(const struct run *run, const char *what, const char *there, const char *here, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "'%s' was made with another %s (%s, now %s): the same command goes on with it, --restart begins anew",
		       run->params->output, what, there, here);
}

/* The passes that the file holds are those that would be run first. */
static int check_data(struct run *run, struct err *err)
{
	const struct calibrate_plan *plan = run->plan;
	const struct amax_stats *stats = run->stats;
	struct amax_stats wanted;
	size_t n = stats->n_passes * plan->batch;
	int rc = 0;

	if (stats->n_passes > plan->n_passes)
		return err_set(err, ERR_INPUT, "'%s' holds %llu passes, and %zu are asked for: --restart begins anew",
			       run->params->output, (unsigned long long)stats->n_passes, plan->n_passes);
	if (n > plan->n_sequences)
		n = plan->n_sequences;
	amax_stats_init(&wanted, stats->model, stats->precision, stats->backend, stats->history_len);
	calibrate_count_data(&wanted, plan, 0, n);
	if (memcmp(wanted.data, stats->data, sizeof wanted.data) != 0 || wanted.n_tokens != stats->n_tokens)
		rc = err_set(err, ERR_INPUT,
			     "'%s' holds %llu passes over other data than the first %zu sequences of '%s': --restart begins anew",
			     run->params->output, (unsigned long long)stats->n_passes, n, run->params->data);
	run->first = n;
	run->n_tokens_before = wanted.n_tokens;
	amax_stats_release(&wanted);
	return rc;
}

static int resume_fp8(struct run *run, struct err *err)
{
	const struct amax_stats *stats = run->stats;

	if (!run->fp8 || !run->plan->fp8.recipe.needs_history)
		return 0;
	if (stats->n_passes > stats->history_len)
		return err_set(err, ERR_INPUT,
			       "'%s' holds %llu of %llu passes, and delayed scaling needs all to go on: --restart begins anew",
			       run->params->output, (unsigned long long)stats->history_len,
			       (unsigned long long)stats->n_passes);
	fp8_forward_replay(run->fp8, &run->plan->model, stats);
	return 0;
}

static int resume(struct run *run, const char *fingerprint, const char *precision, struct err *err)
{
	struct amax_stats *stats = run->stats;

	if (amax_stats_read(stats, run->params->io, run->params->output, err))
		return -1;
	if (strcmp(stats->model, fingerprint) != 0)
		return differs(run, "model", stats->model, fingerprint, err);
	if (strcmp(stats->precision, precision) != 0)
		return differs(run, "precision", stats->precision, precision, err);
	if (check_data(run, err) || resume_fp8(run, err))
		return -1;
	run->result->n_resumed = stats->n_passes;
	return 0;
}

/* An empty history, or the one to go on with. */
static int begin(struct run *run, const char *precision, bool exists, struct err *err)
{
	const struct calibrate_params *params = run->params;
	uint64_t history_len = params->history_len ? (uint64_t)params->history_len : AMAX_HISTORY_LEN;
	char fingerprint[FINGERPRINT_SIZE];

	if (fingerprint_make(&run->weights.source, fingerprint, err))
		return -1;
	if (exists && params->resume)
		return resume(run, fingerprint, precision, err);
	amax_stats_init(run->stats, fingerprint, precision, "cpu", history_len);
	return 0;
}

int calibrate_begin(struct run *run, struct err *err)
{
	const struct calibrate_params *params = run->params;
	struct stat status;
	bool exists = stat(params->output, &status) == 0;
	char *precision;
	int rc;

	if (exists && !params->resume && !params->restart)
		return err_set(err, ERR_USAGE, "'%s' exists: --resume goes on with it, --restart begins anew",
			       params->output);
	precision = fp8_params_precision(&params->fp8, params->precision ? params->precision : "bf16");
	rc = begin(run, precision, exists, err);
	free(precision);
	return rc;
}
