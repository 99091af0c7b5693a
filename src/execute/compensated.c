/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/compensated.h"

#include <inttypes.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "ckpt/manifest.h"
#include "execute/resume.h"
#include "plan/rounding.h"

/* Returns all that decides the codes, as a digest. */
static void job_digest(const struct execution *execution, char text[SHA256_HEX])
{
	char *job = json_dumps(execution->identity, JSON_COMPACT | JSON_SORT_KEYS);
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)job, strlen(job), digest);
	text_hex(text, digest, sizeof digest);
	free(job);
}

static int check_space(const struct execution *execution, struct err *err)
{
	const struct compensate_plan *rounding = &execution->plan->rounding->plan;
	uint64_t bytes = rounding->store_bytes + execution->plan->totals.disk_bytes;

	for (size_t i = 0; i <= rounding->model.n_layers; i++)
		if (store_has(&execution->store, i))
			bytes -= rounding->n_codes[i] * rounding->n_rhos;
	for (size_t i = 0; i < execution->plan->n_shards; i++)
		if (execution->done[i])
			bytes -= output_shard_size(&execution->plan->shards[i]);
	return outdir_check_space(&execution->out, bytes, err);
}

/* Adds the divergences that decided. */
static void add_measured(json_t *json, const struct compensate_plan *rounding,
			 const struct store_outcome *outcome)
{
	json_t *tried = json_array();

	for (size_t i = 0; i < rounding->n_rhos; i++)
		json_array_append_new(tried, json_pack("{s:o, s:o, s:o}", "shrink",
						       rounding_shrink_json(rounding->rhos[i]),
						       "kld", json_finite(outcome->kld[i]), "se",
						       json_finite(outcome->se[i])));
	json_object_set_new(json, "held_out_sequences",
			    json_integer((json_int_t)rounding->n_held_out));
	json_object_set_new(json, "nearest_kld", json_finite(outcome->nearest_kld));
	json_object_set_new(json, "tried", tried);
}

/* Returns what the manifest says of the codes. */
static json_t *outcome_json(const struct compensate_plan *rounding,
			    const struct store_outcome *outcome)
{
	float shrink = rounding->rhos[outcome->rho];
	json_t *json = json_pack("{s:s, s:o, s:I, s:I, s:I, s:I}", "rounding",
				 outcome->is_nearest ? "nearest" : "compensated", "shrink",
				 outcome->is_nearest ? json_null() : rounding_shrink_json(shrink),
				 "matrices", (json_int_t)rounding->n_units, "outside",
				 (json_int_t)rounding->n_outside, "few_tokens",
				 (json_int_t)outcome->counts.n_few, "raised",
				 (json_int_t)outcome->counts.n_raised);

	if (outcome->measured)
		add_measured(json, rounding, outcome);
	return json;
}

int compensated_agree(const struct plan *plan, const struct group *group, struct err *err)
{
	char *options = json_dumps(plan->options, JSON_COMPACT | JSON_SORT_KEYS);
	struct buf text = { 0 };
	int rc;

	buf_puts(&text, options);
	for (size_t i = 0; i < plan->n_shards; i++)
		buf_printf(&text, " %s %" PRIu32, plan->shards[i].name, resume_plan(plan, i));
	rc = group_agree(group, text.data, text.len, err);
	buf_release(&text);
	free(options);
	return rc;
}

/* Opens the store. */
static int open_store(struct execution *execution, struct err *err)
{
	const struct compensate_plan *rounding = &execution->plan->rounding->plan;
	char digest[SHA256_HEX];
	struct store_shape shape = { .job = digest,
				     .n_stages = rounding->model.n_layers + 1,
				     .n_codes = rounding->n_codes,
				     .n_rhos = rounding->n_rhos };

	job_digest(execution, digest);
	if (store_open(&execution->store, &execution->out, &shape, execution->progress, err))
		return -1;
	return execution->store.has_outcome ? 0 : check_space(execution, err);
}

int compensated_run(struct execution *execution, bool needed, struct err *err)
{
	const struct compensate_plan *rounding = &execution->plan->rounding->plan;
	const struct group *group = execution->params->group;
	struct store *store = group_leads(group) ? &execution->store : NULL;
	int rc;

	if (group_reduce(group, GROUP_UNION, &needed, sizeof needed, err))
		return -1;
	if (!needed)
		return 0;
	if (group_settle(group, store ? open_store(execution, err) : 0, err))
		return -1;
	rc = compensate_run(rounding, store, execution->progress, err);
	if (!store)
		return rc;
	execution->result->stages_done = store_count(store);
	if (rc)
		return -1;
	execution->result->rounding = execution->store.outcome;
	if (!execution->store.outcome.is_nearest)
		pipeline_take_codes(execution->pipeline, &execution->store);
	return manifest_add_member(&execution->out, "rounding",
				   outcome_json(rounding, &execution->store.outcome), err);
}

/* Are codes of the source in the output? */
static bool has_codes_of_source(const struct plan *plan)
{
	if (plan->conversion != CONVERT_QUANTIZE)
		return plan->conversion == CONVERT_REPACK;
	for (size_t u = 0; u < plan->selection.n_units; u++)
		if (plan->units[u].same_codes)
			return true;
	return false;
}

int compensated_inherit(const struct execution *execution, struct err *err)
{
	const struct plan *plan = execution->plan;
	json_t *manifest, *rounding;
	int rc = 0;

	if (plan->rounding || !has_codes_of_source(plan))
		return 0;
	if (manifest_read(&manifest, &plan->source, err)) {
		if (err->kind == ERR_SYSTEM)
			return -1;
		*err = (struct err){ 0 }; /* `verify` of the source names what is wrong with it */
		return 0;
	}
	rounding = json_object_get(manifest, "rounding");
	if (manifest_is_compensated(manifest))
		rc = manifest_add_member(&execution->out, "rounding", json_incref(rounding), err);
	json_decref(manifest);
	return rc;
}
