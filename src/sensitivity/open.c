/* SPDX-License-Identifier: Apache-2.0
 *
 * The decisions before the first product: what is quantized, the data, the memory.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "sensitivity/groups.h"
#include "sensitivity/replace.h"
#include "source/fingerprint.h"
#include "sweep/weights.h"
#include "tokenizer/tokenizer.h"

#define DEFAULT_SEQ_LEN 512
#define DEFAULT_PASSES	4
#define DEFAULT_MEMORY	((uint64_t)1 << 30)

/* Groups per round.  A round's results are lost if the program dies in it; the pass of the
 * unquantized model, which each round repeats, is little beside so many. */
#define MAX_AT_ONCE 64

/* bf16 rounds on its own in every variant, which adds about 0.0001 to each divergence. */
static const char *precision_of(const struct sensitivity_params *params)
{
	return params->precision ? params->precision : "f32";
}

static int open_plans(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		      struct err *err)
{
	struct progress progress = { .stop = params->stop };

	plan->plans = xcalloc(params->n_recipes, sizeof *plan->plans);
	for (size_t r = 0; r < params->n_recipes; r++) {
		struct quantize_params quantize = params->quantize;

		quantize.recipe = params->recipes[r];
		if (quantize_plan_make(&plan->plans[r], &quantize, &progress, err))
			return -1;
		plan->n_plans++;
	}
	return weights_open_model(&plan->model, &plan->view, &plan->plans[0].source, "", err);
}

static int open_data(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		     struct err *err)
{
	struct dataset_params data = {
		.io = params->quantize.convert.io,
		.paths = params->data,
		.n_paths = params->n_data,
		.seq_len = params->seq_len ? (size_t)params->seq_len : DEFAULT_SEQ_LEN,
		.vocab_size = plan->model.head.n,
		.max_sequences = params->passes ? (size_t)params->passes : DEFAULT_PASSES,
		.stop = params->stop,
	};
	struct tokenizer *tokenizer;
	int rc = dataset_tokenizer(&tokenizer, data.io, plan->plans[0].source.directory, err);

	if (rc)
		return -1;
	data.tokenizer = tokenizer;
	rc = dataset_open(&plan->data, &data, err);
	tokenizer_free(tokenizer);
	return rc;
}

/* Finds how many groups fit into the memory beside the sequences. */
static int plan_memory(struct sensitivity_plan *plan, uint64_t memory, struct err *err)
{
	const struct sweep_plan *sweep = &plan->sweep;
	const struct sweep_params *params = &sweep->params;
	const struct weights_kind kind = { .executor = params->executor,
					   .dtype = params->is_f32
							    ? DT_F32
							    : params->executor->bf16_type() };
	uint64_t layer = weights_layer_size(&plan->model, &kind, params->n_threads, false);
	uint64_t used = sweep->memory_bytes - layer + variants_size(sweep, &plan->model) +
			replace_size(plan, params->n_threads);
	uint64_t group = variant_size(sweep, &plan->model, sweep->own_sequences) +
			 forward_heads_size((size_t)params->n_threads);
	uint64_t n;

	if (used + group > memory)
		return err_set(err, ERR_USAGE,
			       "option '--max-memory': %" PRIu64
			       " bytes cannot hold one group (%" PRIu64
			       "): reduce --threads, --passes or --seq-len",
			       memory, used + group);
	n = (memory - used) / group;
	n = n < MAX_AT_ONCE ? n : MAX_AT_ONCE;
	plan->n_at_once = n < plan->table.n_groups ? (size_t)n : plan->table.n_groups;
	plan->memory_bytes = used + plan->n_at_once * group + 2 * layer;
	return 0;
}

static int plan_sweep(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		      struct err *err)
{
	/* The unquantized model takes all rows of a sequence at once as well, so that sums differ
	 * in nothing but their terms. */
	const struct sweep_params sweep = {
		.io = params->quantize.convert.io,
		.models = { { .model = &plan->model, .casts = true } },
		.n_models = 1,
		.data = &plan->data,
		.executor = params->backend->executor,
		.is_f32 = !strcmp(precision_of(params), "f32"),
		.batch = 1,
		.n_threads = params->n_threads,
		.max_memory = UINT64_MAX, /* of all sequences at once; plan_memory() counts them */
		.lean = true,
		.group = params->group,
	};

	if (sweep_plan_make(&plan->sweep, &sweep, err))
		return -1;
	plan->sweep.first_passes = plan->sweep.n_passes;
	return plan_memory(plan, params->max_memory ? params->max_memory : DEFAULT_MEMORY, err);
}

/* Fills the facts of the table. */
static int describe(struct sensitivity_plan *plan, const struct sensitivity_params *params,
		    struct err *err)
{
	char fingerprint[FINGERPRINT_SIZE], sha256[SHA256_HEX];
	struct kld_table *table = &plan->table;
	struct source source;
	int rc;

	source_init(&source, params->quantize.convert.io, &plan->plans[0].source, NULL, -1);
	rc = fingerprint_make(&source, fingerprint, err);
	source_release(&source);
	if (rc)
		return -1;
	dataset_sha256(&plan->data, sha256);
	table->model = xstrdup(fingerprint);
	table->by = xstrdup(params->by_expert ? "expert" : "layer");
	table->precision = xstrdup(precision_of(params));
	table->backend = xstrdup(params->backend->executor->name);
	table->data_sha256 = xstrdup(sha256);
	table->n_sequences = plan->data.n;
	table->seq_len = plan->sweep.longest;
	table->n_tokens = plan->sweep.n_tokens;
	return 0;
}

int sensitivity_plan_make(struct sensitivity_plan *plan, const struct sensitivity_params *params,
			  struct err *err)
{
	*plan = (struct sensitivity_plan){ 0 };
	if (open_plans(plan, params, err) || open_data(plan, params, err) ||
	    groups_make(plan, params->by_expert, err) || plan_sweep(plan, params, err) ||
	    describe(plan, params, err)) {
		sensitivity_plan_release(plan);
		return -1;
	}
	return 0;
}

void sensitivity_plan_release(struct sensitivity_plan *plan)
{
	for (size_t i = 0; i < plan->table.n_groups; i++)
		free(plan->members[i].list);
	free(plan->members);
	kld_table_release(&plan->table);
	dataset_release(&plan->data);
	model_release(&plan->model);
	low_bit_view_release(&plan->view);
	for (size_t r = 0; r < plan->n_plans; r++)
		plan_release(&plan->plans[r]);
	free(plan->plans);
	*plan = (struct sensitivity_plan){ 0 };
}
