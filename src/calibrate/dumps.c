/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/dumps.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "base/sort.h"
#include "base/intern.h"
#include "calibrate/dump_file.h"
#include "names/experts.h"
#include "sweep/weights.h"

/* The modules found so far: entry i of names is plan->linears[i] until they are sorted. */
struct gathering {
	struct dumps_plan *plan;
	struct intern names, siblings;
};

/* Adds a module.  Returns 1, 0 if the checkpoint lacks it, or -1. */
static int add_module(struct gathering *gathering, const char *module, size_t *number,
		      struct err *err)
{
	struct dumps_plan *plan = gathering->plan;
	struct linear_ref linear;
	int rc;

	*number = intern_add(&gathering->names, module, strlen(module));
	if (*number < plan->n_linears)
		return 1;
	rc = weight_lookup_find(&plan->lookup, module, &linear, err);
	if (rc != 1)
		return rc;
	ARRAY_GROW(plan->linears, plan->n_linears);
	plan->linears[plan->n_linears++] = linear;
	return 1;
}

/* Adds the other experts of a layer: an expert without tokens is in no dump, but has a row in the
 * history. */
static int add_siblings(struct gathering *gathering, const char *module, struct err *err)
{
	size_t prefix = experts_prefix_len(module), before = gathering->siblings.n, number;
	const char *part = module + prefix + strspn(module + prefix, "0123456789");
	char *kind;
	int rc = 1;

	if (!prefix || part == module + prefix)
		return 0;
	kind = xasprintf("%.*s%s", (int)prefix, module, part);
	if (intern_add(&gathering->siblings, kind, strlen(kind)) == before) {
		for (size_t e = 0; rc == 1; e++) {
			char *sibling = xasprintf("%.*s%zu%s", (int)prefix, module, e, part);
			struct linear_ref linear;

			rc = weight_lookup_find(&gathering->plan->lookup, sibling, &linear, err);
			if (rc == 1) {
				free(linear.module);
				rc = add_module(gathering, sibling, &number, err);
			}
			free(sibling);
		}
	}
	free(kind);
	if (rc < 0)
		return -1;
	return 0;
}

int dumps_check_input(const struct linear_ref *linear, const struct tensor_ref *input,
		      const char *path, struct err *err)
{
	if (input->tensor->shape[1] == linear->k)
		return 0;
	return err_set(err, ERR_INPUT,
		       "tensor '%s' in '%s' has %" PRIu64 " features, but '%s' takes %zu",
		       input->tensor->name, path, input->tensor->shape[1],
		       linear->weight->tensor->name, linear->k);
}

static int gather_input(struct gathering *gathering, const struct tensor_ref *input,
			const char *path, struct err *err)
{
	const struct dumps_plan *plan = gathering->plan;
	char *module = dump_module(input);
	size_t number;
	int rc = add_module(gathering, module, &number, err);

	if (rc == 0)
		rc = err_set(err, ERR_INPUT, "tensor '%s' in '%s': '%s' has no '%s.weight'",
			     input->tensor->name, path, plan->checkpoint.path, module);
	else if (rc == 1)
		rc = dumps_check_input(&plan->linears[number], input, path, err) ||
				     add_siblings(gathering, module, err)
			     ? -1
			     : 0;
	free(module);
	return rc;
}

static int gather_dump(struct gathering *gathering, const struct io *io, size_t pass,
		       struct err *err)
{
	struct dumps_plan *plan = gathering->plan;
	struct dump dump;
	int rc = 0;

	if (dump_open(&dump, io, plan->dumps.items[pass], err))
		return -1;
	for (size_t i = 0; !rc && i < dump.checkpoint.n_tensors; i++)
		rc = gather_input(gathering, &dump.checkpoint.by_name[i], plan->dumps.items[pass],
				  err);
	plan->n_tokens[pass] = dump.n_tokens;
	plan->n_all_tokens += dump.n_tokens;
	dump_release(&dump);
	return rc;
}

static int compare_modules(const void *a, const void *b)
{
	return strcmp(((const struct linear_ref *)a)->module,
		      ((const struct linear_ref *)b)->module);
}

static int gather(struct dumps_plan *plan, const struct calibrate_params *params, struct err *err)
{
	struct gathering gathering = { .plan = plan };
	size_t max = params->passes ? (size_t)params->passes : plan->dumps.n;
	int rc = 0;

	while (plan->dumps.n > max)
		free(plan->dumps.items[--plan->dumps.n]);
	plan->n_tokens = xcalloc(plan->dumps.n, sizeof *plan->n_tokens);
	for (size_t i = 0; !rc && i < plan->dumps.n; i++)
		rc = gather_dump(&gathering, params->io, i, err);
	if (!rc)
		sort(plan->linears, plan->n_linears, sizeof *plan->linears, compare_modules);
	intern_release(&gathering.names);
	intern_release(&gathering.siblings);
	return rc;
}

/* Rows are multiplied in blocks of 16 MiB of values, within these limits. */
#define ROWS_SIZE ((size_t)16 << 20)
#define MIN_ROWS  16
#define MAX_ROWS  256

size_t dumps_block_rows(const struct linear_ref *linear)
{
	size_t n = ROWS_SIZE / sizeof(float) / (linear->n + linear->k);

	return n < MIN_ROWS ? MIN_ROWS : n > MAX_ROWS ? MAX_ROWS : n;
}

static uint64_t memory_needed(const struct dumps_plan *plan, const struct calibrate_params *params)
{
	const struct executor_ops *executor = params->backend->executor;
	const struct weights_kind kind = { .executor = executor,
					   .dtype = calibrate_is_f32(params)
							    ? DT_F32
							    : executor->bf16_type() };
	uint64_t max = 0, size;

	for (size_t i = 0; i < plan->n_linears; i++) {
		const struct linear_ref *linear = &plan->linears[i];

		size = weights_linear_size(linear, &kind) + weights_piece_size(linear, &kind) +
		       dumps_block_rows(linear) *
			       (linear->n * sizeof(float) +
				linear->k * (2 * sizeof(float) + sizeof(uint16_t)));
		max = size > max ? size : max;
	}
	return max * (uint64_t)params->n_threads;
}

int dumps_plan_make(struct dumps_plan *plan, const struct calibrate_params *params, struct err *err)
{
	*plan = (struct dumps_plan){ 0 };
	if (checkpoint_open(&plan->checkpoint, params->io, params->input, params->n_threads, err) ||
	    weight_lookup_open(&plan->lookup, &plan->checkpoint, err) ||
	    dumps_list(params->io, params->activations, &plan->dumps, err) ||
	    gather(plan, params, err)) {
		dumps_plan_release(plan);
		return -1;
	}
	plan->memory_bytes = memory_needed(plan, params);
	return 0;
}

void dumps_plan_release(struct dumps_plan *plan)
{
	for (size_t i = 0; i < plan->n_linears; i++)
		free(plan->linears[i].module);
	free(plan->linears);
	free(plan->n_tokens);
	listing_release(&plan->dumps);
	weight_lookup_release(&plan->lookup);
	checkpoint_release(&plan->checkpoint);
	*plan = (struct dumps_plan){ 0 };
}
