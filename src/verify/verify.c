/* SPDX-License-Identifier: Apache-2.0
 *
 * Opens what can be opened, then runs one step after the other; each adds what it finds.
 */
#include "verify/verify.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "source/fp8_source.h"
#include "verify/caches.h"
#include "verify/config.h"
#include "verify/files.h"
#include "verify/values/identify.h"
#include "verify/lists.h"
#include "verify/manifest.h"
#include "verify/values/origin.h"
#include "verify/target.h"
#include "verify/tensors.h"
#include "verify/values/values.h"

#define A_SCREEN 24 /* lines */

/* Takes a "quantization" of params.json that names a quant_method: vLLM reads the configuration of
 * compressed-tensors in Mistral's own layout there. */
static int read_params(const struct verify *verify, struct buf *text, struct err *err)
{
	struct buf params = { 0 };
	struct json_text value = { 0 }, method = { 0 };
	struct err ignored;

	if (verify->result->checkpoint.config.len)
		return 0;
	if (fp8_source_params(&verify->result->checkpoint, verify->params->io, &params, err))
		return -1;
	if (params.len &&
	    !json_find((struct json_text){ params.data, params.len }, "quantization", &value,
		       &ignored) &&
	    value.len && *value.data == '{' &&
	    !json_find(value, "quant_method", &method, &ignored) && method.len)
		buf_add(text, value.data, value.len);
	buf_release(&params);
	return 0;
}

/* Detects the format.  An invalid configuration is a problem, and the detection stays empty. */
static int detect(struct verify *verify, struct err *err)
{
	struct verification *result = verify->result;
	struct buf text = { 0 };
	struct err bad = { 0 };
	bool usable;

	if (fp8_source_hf_quant_config(&result->checkpoint, verify->params->io, &text, err))
		return -1;
	if (text.len)
		verify->opened.hf_quant_config =
			json_decode_python((struct json_text){ text.data, text.len }, &bad);
	if (bad.kind)
		problem_add(&result->problems, PROBLEM_CONFIG_KEY, NULL, "hf_quant_config.json",
			    "%s", bad.message);
	bad = (struct err){ 0 };
	usable = verify->opened.hf_quant_config || !text.len;
	if (!text.len && read_params(verify, &text, err))
		return -1;
	if (detection_make(&result->detection, &result->checkpoint,
			   (struct json_text){ usable ? text.data : NULL, usable ? text.len : 0 },
			   &bad) ||
	    model_config_read(&verify->opened.model, &result->checkpoint.config, &bad))
		problem_add(&result->problems, PROBLEM_CONFIG_KEY, NULL, "config.json", "%s",
			    bad.message);
	buf_release(&text);
	return 0;
}

COMPARISON(by_sqnr, struct weight_report, ORDER(x->sqnr, y->sqnr) ?: strcmp(x->name, y->name))

static double sqnr(double signal, double noise)
{
	return noise > 0 ? 10 * log10(signal / noise) : INFINITY;
}

/* Computes the costs over the weights in which both arithmetics have an error. */
static void sum_costs(struct verification *result)
{
	double sum = 0;
	size_t n = 0;

	result->cost = result->worst_cost = NAN;
	for (size_t i = 0; i < result->n_reports; i++) {
		double cost = result->reports[i].own_sqnr - result->reports[i].sqnr;

		if (!isfinite(cost))
			continue;
		sum += cost;
		n++;
		result->worst_cost = fmax(result->worst_cost, cost);
	}
	if (n)
		result->cost = sum / (double)n;
}

static void list_reports(struct verify *verify)
{
	struct verification *result = verify->result;

	result->arithmetic = identify_names(verify);
	result->reports = xcalloc(verify->weights.n, sizeof *result->reports);
	for (size_t w = 0, n; w < verify->weights.n; w += n) {
		const struct verify_weight *weight = &verify->weights.list[w];
		struct scan scan = weight->scan;
		double own_noise;

		n = verify_weight_run(verify, w);
		if (!verify->params->sqnr || !weight->origin || !weight->scanned)
			continue;
		for (size_t i = 1; i < n; i++)
			scan_merge(&scan, &weight[i].scan);
		own_noise = weight->unit.table || (!verify->opened.compensated &&
						   identify_is_own(verify, weight->granularity))
				    ? scan.error.noise
				    : scan.own_noise;
		result->reports[result->n_reports++] =
			(struct weight_report){ weight->unit.name,
						sqnr(scan.error.signal, scan.error.noise),
						sqnr(scan.error.signal, own_noise) };
	}
	if (result->n_reports)
		qsort(result->reports, result->n_reports, sizeof *result->reports, by_sqnr);
	sum_costs(result);
}

static void report_low_bit(struct verify *verify)
{
	struct low_bit_report *report = &verify->result->low_bit;

	for (size_t w = 0; w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (!weight->origin || !weight->origin->low_bit || !weight->scanned)
			continue;
		report->kind = low_bit_kind(&verify->run.origin->selection.low_bit);
		report->n++;
		report->n_exact += !weight->scan.n_changed;
		report->n_values += weight->unit.rows * weight->unit.cols;
		report->n_changed += weight->scan.n_changed;
		if (weight->scan.n_changed && !report->first)
			report->first = weight->unit.name;
	}
}

static void report_compensated(struct verify *verify)
{
	struct compensated_report *report = &verify->result->compensated;
	struct error_stats stored = { 0 };
	double own_noise = 0;

	for (size_t w = 0; w < verify->weights.n && verify->opened.compensated; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];

		if (!weight->origin || !weight->scanned || weight->unlike || weight->unit.table)
			continue;
		report->n_codes += weight->unit.rows * weight->unit.cols;
		report->n_moved += weight->scan.moved.n;
		stored.signal += weight->scan.error.signal;
		stored.noise += weight->scan.error.noise;
		own_noise += weight->scan.own_noise;
	}
	report->sqnr = sqnr(stored.signal, stored.noise);
	report->own_sqnr = sqnr(stored.signal, own_noise);
}

/* Of a source that is another model, each tensor would be a problem, more than a screen of them. */
static int check_source(const struct verify *verify, struct err *err)
{
	const struct verification *result = verify->result;
	const size_t *n_of = result->problems.n_of;
	size_t n = n_of[PROBLEM_TENSOR_MISSING] + n_of[PROBLEM_TENSOR_CHANGED];
	const json_t *options = json_object_get(verify->opened.manifest, "options");
	bool renamed = json_object_get(options, "rename") && !verify->params->renames.n;

	if (!verify->params->source || n < A_SCREEN || 2 * n <= result->n_tensors)
		return 0;
	return err_set(
		err, ERR_INPUT,
		"'%s' is not the source of '%s': %zu tensors are in one of them alone, or have "
		"another type or shape%s",
		verify->params->source, verify->params->input, n,
		!result->detection.n_weights ? " (are they swapped?)"
		: renamed		     ? ": give the options '--rename' of its manifest"
					     : "");
}

static int check(struct verify *verify, struct err *err)
{
	if (verify_files(verify, err))
		return -1;
	verify_config(verify);
	verify_tensors(verify);
	verify_missing(verify);
	if (verify_caches(verify, err))
		return -1;
	verify_target(verify);
	verify_tp(verify);
	if (verify_values(verify, err) ||
	    (verify->params->hashes && verify_manifest(verify, err)) ||
	    (verify->params->key && verify_signature(verify, err)) ||
	    verify_companions(verify, err))
		return -1;
	if (check_source(verify, err))
		return -1;
	list_reports(verify);
	report_low_bit(verify);
	report_compensated(verify);
	return 0;
}

int verify_run(struct verification *verification, const struct verify_params *params,
	       struct progress *progress, struct err *err)
{
	struct verify verify = { .params = params,
				 .result = verification,
				 .progress = progress,
				 .opened.checkpoint = &verification->checkpoint,
				 .opened.detection = &verification->detection,
				 .run.backend = params->backend,
				 .run.lock = PTHREAD_MUTEX_INITIALIZER };
	struct defects defects = { .add = problem_add_defect, .context = &verification->problems };
	int rc = -1;

	*verification = (struct verification){ 0 };
	if (engine_find(params->target, &verify.opened.target, err) ||
	    checkpoint_survey(&verification->checkpoint, params->io, params->input, &defects, err))
		goto out;
	problems_count_defects(&verification->problems, &defects);
	verification->n_tensors = verification->checkpoint.n_tensors;
	source_init(&verify.run.files, params->io, &verification->checkpoint, verify.run.backend,
		    -1);
	if (detect(&verify, err) || config_declares(&verify, err) || recorded_read(&verify, err))
		goto out;
	verify.opened.format = format_find(verification->detection.format);
	if (verify.opened.format && !verify.opened.format->configure)
		verify.opened.format = NULL; /* it is only read */
	rc = check(&verify, err);
out:
	origin_release(&verify);
	sums_release(&verify.run.sums, &verify);
	source_release(&verify.run.files);
	model_config_release(&verify.opened.model);
	json_decref(verify.opened.hf_quant_config);
	json_decref(verify.opened.manifest);
	lists_release(&verify);
	low_bit_release(&verify.low_bit);
	intern_release(&verify.weights.fused_sets);
	role_cache_release(&verify.roles);
	free(verify.misnamed.wanted);
	free(verify.weights.list);
	return rc;
}

void verification_release(struct verification *verification)
{
	detection_release(&verification->detection);
	checkpoint_release(&verification->checkpoint);
	problems_release(&verification->problems);
	free(verification->arithmetic);
	free(verification->reports);
	*verification = (struct verification){ 0 };
}
