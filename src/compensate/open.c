/* SPDX-License-Identifier: Apache-2.0
 *
 * What is decided before the first product: the model, the data and its domains, the units, the
 * memory.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "compensate/jobs.h"
#include "compensate/memory.h"
#include "compensate/ranks.h"
#include "tokenizer/tokenizer.h"

#define DEFAULT_SEQ_LEN 512
#define DEFAULT_PASSES	64
#define ADVICE		": use '--rounding nearest'"
#define HELD_OUT	10 /* one of so many sequences is in no Hessian */

/* Opens the sequences of domain d: its share of the passes. */
static int open_domain(struct compensate_plan *plan, const struct tokenizer *tokenizer, size_t d,
		       struct err *err)
{
	const struct compensate_params *params = &plan->params;
	size_t passes = params->passes ? (size_t)params->passes : DEFAULT_PASSES;
	size_t n = passes / params->n_data + (d < passes % params->n_data);
	const struct dataset_params request = {
		.io = params->io,
		.paths = &params->data[d],
		.n_paths = 1,
		.tokenizer = tokenizer,
		.seq_len = params->seq_len ? (size_t)params->seq_len : DEFAULT_SEQ_LEN,
		.vocab_size = plan->model.vocab_size,
		.max_sequences = n,
		.stop = params->stop,
	};
	struct dataset data;

	if (!n)
		return err_set(err, ERR_USAGE,
			       "option '--passes': %zu sequences do not suffice for %zu files of "
			       "data",
			       passes, params->n_data);
	if (dataset_open(&data, &request, err))
		return -1;
	if (data.n > n) /* sequences of token ids are read file by file */
		data.n = n;
	if (dataset_append(&plan->data, &data, err))
		return -1;
	plan->domain_ends[plan->n_domains++] = plan->data.n;
	return 0;
}

/* Holds out a tenth of each domain, spread over it, at least one sequence. */
static void hold_out(struct compensate_plan *plan)
{
	size_t first = 0;

	plan->held_out = xcalloc(plan->data.n, sizeof *plan->held_out);
	plan->held = xcalloc(plan->data.n, sizeof *plan->held);
	for (size_t d = 0; d < plan->n_domains && plan->n_rhos > 1;
	     first = plan->domain_ends[d++]) {
		size_t n = plan->domain_ends[d] - first, step = n < HELD_OUT ? n : HELD_OUT;

		for (size_t i = first + step - 1; i < plan->domain_ends[d]; i += step) {
			plan->held_out[i] = true;
			plan->held[plan->n_held_out++] = i;
		}
	}
}

/* A Hessian needs a sequence that is not held out. */
static int check_data(const struct compensate_plan *plan, struct err *err)
{
	if (plan->data.n - plan->n_held_out >= plan->n_domains)
		return 0;
	return err_set(err, ERR_INPUT,
		       "option '--shrink auto' needs 2 sequences of each file, and has %zu in all: "
		       "give more text, more --passes, a shorter --seq-len, or '--shrink 0.8'",
		       plan->data.n);
}

static int open_data(struct compensate_plan *plan, struct err *err)
{
	const struct compensate_params *params = &plan->params;
	struct tokenizer *tokenizer = NULL;
	int rc = dataset_tokenizer(&tokenizer, params->io, params->checkpoint->directory, err);

	plan->domain_ends = xcalloc(params->n_data, sizeof *plan->domain_ends);
	for (size_t d = 0; d < params->n_data && !rc; d++)
		rc = open_domain(plan, tokenizer, d, err);
	tokenizer_free(tokenizer);
	if (rc)
		return -1;
	hold_out(plan);
	dataset_sha256(&plan->data, plan->data_sha256);
	for (size_t i = 0; i < plan->data.n; i++) {
		size_t len = plan->data.sequences[i].len;

		plan->n_tokens += len;
		plan->longest = len > plan->longest ? len : plan->longest;
	}
	return check_data(plan, err) || ranks_divide(plan, err) ? -1 : 0;
}

static void choose_rhos(struct compensate_plan *plan)
{
	static const float tried[STORE_RHOS] = { 0.3f, 0.6f, 0.8f };

	plan->n_rhos = plan->params.shrink < 0 ? STORE_RHOS : 1;
	for (size_t i = 0; i < plan->n_rhos; i++)
		plan->rhos[i] = plan->params.shrink < 0 ? tried[i] : plan->params.shrink;
}

static int make(struct compensate_plan *plan, struct err *err)
{
	choose_rhos(plan);
	if (model_open(&plan->model, plan->params.checkpoint, ADVICE, err) || open_data(plan, err))
		return -1;
	compensate_find_jobs(plan);
	if (!plan->n_units)
		return err_set(err, ERR_USAGE,
			       "option '--rounding compensated' has no effect: the forward pass "
			       "multiplies no weight that is quantized");
	for (size_t i = 0; i <= plan->model.n_layers; i++)
		plan->n_stages += plan->n_codes[i] > 0;
	for (size_t i = 0; i <= plan->model.n_layers; i++)
		plan->store_bytes += plan->n_codes[i] * plan->n_rhos;
	return compensate_plan_memory(plan, err);
}

int compensate_plan_make(struct compensate_plan *plan, const struct compensate_params *params,
			 const struct compensate_units *units, struct err *err)
{
	*plan = (struct compensate_plan){ .params = *params, .units = *units };
	return make(plan, err);
}

void compensate_plan_release(struct compensate_plan *plan)
{
	for (size_t i = 0; plan->stages && i <= plan->model.n_layers; i++) {
		for (size_t g = 0; g < plan->stages[i].n_groups; g++)
			free(plan->stages[i].groups[g].jobs);
		free(plan->stages[i].groups);
	}
	free(plan->stages);
	free(plan->n_codes);
	free(plan->places);
	free(plan->domain_ends);
	free(plan->held_out);
	free(plan->held);
	free(plan->own.sequences);
	free(plan->own_numbers);
	dataset_release(&plan->data);
	model_release(&plan->model);
	*plan = (struct compensate_plan){ 0 };
}
