/* SPDX-License-Identifier: Apache-2.0 */
#include "calibrate/weight_lookup.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "names/experts.h"
#include "names/role.h"

/* GPT-2's modules store [in, out]; other models give the same names to plain linear layers.  The
 * first layer of an attention or MLP has more outputs than inputs, which decides. */
static bool is_transposed(const struct checkpoint *checkpoint)
{
	for (size_t i = 0; i < checkpoint->n_tensors; i++) {
		const struct st_tensor *tensor = checkpoint->tensors[i].tensor;
		struct role_facts facts;

		role_of_name(&facts, tensor->name);
		if (facts.conv1d && facts.parallel != PARALLEL_ROW && tensor->n_dims == 2 &&
		    tensor->shape[0] > tensor->shape[1])
			return false;
	}
	return true;
}

int weight_lookup_open(struct weight_lookup *lookup, const struct checkpoint *checkpoint,
		       struct err *err)
{
	*lookup = (struct weight_lookup){ .checkpoint = checkpoint,
					  .transposed = is_transposed(checkpoint) };
	return model_config_read(&lookup->config, &checkpoint->config, err);
}

void weight_lookup_release(struct weight_lookup *lookup)
{
	model_config_release(&lookup->config);
	*lookup = (struct weight_lookup){ 0 };
}

static const struct tensor_ref *find(const struct weight_lookup *lookup, const char *prefix,
				     size_t n, const char *suffix)
{
	char *name = xasprintf("%.*s%s", (int)n, prefix, suffix);
	const struct tensor_ref *ref = checkpoint_find(lookup->checkpoint, name);

	free(name);
	return ref;
}

static int bad_shape(const struct tensor_ref *ref, const char *wanted, struct err *err)
{
	struct buf shape = { 0 };

	st_shape_format(&shape, ref->tensor->shape, ref->tensor->n_dims);
	err_set(err, ERR_INPUT, "tensor '%s' has shape %s, not that of %s", ref->tensor->name,
		shape.data, wanted);
	buf_release(&shape);
	return -1;
}

/* Takes a tensor of one matrix. */
static int take_matrix(const struct weight_lookup *lookup, const struct tensor_ref *weight,
		       const struct tensor_ref *bias, struct linear_ref *linear, struct err *err)
{
	const uint64_t *shape = weight->tensor->shape;
	struct role_facts facts;
	bool transposed;

	role_of_name(&facts, weight->tensor->name);
	if (weight->tensor->n_dims != 2 || !shape[0] || !shape[1])
		return bad_shape(weight, "a matrix", err);
	transposed = facts.conv1d && lookup->transposed;
	linear->weight = weight;
	linear->n = shape[transposed];
	linear->k = shape[!transposed];
	linear->slice = (struct slice){ .row_stride = transposed ? 1 : linear->k,
					.col_stride = transposed ? linear->n : 1 };
	if (!bias)
		return 1;
	if (bias->tensor->n_dims != 1 || bias->tensor->shape[0] != linear->n)
		return bad_shape(bias, "the bias of its module", err);
	linear->bias = bias;
	return 1;
}

/* The parts of "PREFIX.experts.3.up_proj". */
struct expert_name {
	size_t prefix; /* length of "PREFIX.experts." */
	unsigned long expert;
	const char *part; /* "up_proj" */
};

static bool parse_expert(const char *name, struct expert_name *parsed)
{
	char *end;

	parsed->prefix = experts_prefix_len(name);
	if (!parsed->prefix || !strchr("0123456789", name[parsed->prefix]))
		return false;
	if (name[parsed->prefix] == '0' && name[parsed->prefix + 1] != '.')
		return false;
	parsed->expert = strtoul(name + parsed->prefix, &end, 10);
	parsed->part = end + 1;
	return *end == '.';
}

/* Finds the tensor of all experts, under either of its names. */
static const struct tensor_ref *find_fused(const struct weight_lookup *lookup, const char *name,
					   size_t prefix, const char *part)
{
	char *path = xasprintf("%.*s%s", (int)prefix, name, part);
	const struct tensor_ref *ref = checkpoint_find(lookup->checkpoint, path);

	if (!ref)
		ref = find(lookup, path, strlen(path), ".weight");
	free(path);
	return ref;
}

static struct experts_tensor experts_tensor(const struct tensor_ref *ref)
{
	return ref ? (struct experts_tensor){ ref->tensor->name, ref->tensor->shape }
		   : (struct experts_tensor){ 0 };
}

/* The parts of an expert: the tensor that holds each, and which part of the tensor it is. */
static const struct {
	const char *part, *tensor;
	enum expert_part which;
	bool both; /* gate and up together, in any order */
} expert_parts[] = {
	{ "gate_proj", "gate_up_proj", EXPERT_GATE, false },
	{ "up_proj", "gate_up_proj", EXPERT_UP, false },
	{ "gate_up_proj", "gate_up_proj", EXPERT_GATE, true },
	{ "down_proj", "down_proj", EXPERT_DOWN, false },
};

static int take_bias(const struct weight_lookup *lookup, const char *name,
		     const struct expert_name *parsed, size_t part, struct linear_ref *linear,
		     struct err *err)
{
	char *suffix = xasprintf("%s_bias", expert_parts[part].tensor);
	const struct tensor_ref *bias = find(lookup, name, parsed->prefix, suffix);

	free(suffix);
	if (!bias)
		return 1;
	/* Such experts may interleave gate and up. */
	if (!expert_parts[part].both && expert_parts[part].which != EXPERT_DOWN)
		return 0;
	if (bias->tensor->n_dims != 2 || bias->tensor->shape[0] <= parsed->expert ||
	    bias->tensor->shape[1] != linear->n)
		return bad_shape(bias, "the biases of its experts", err);
	linear->bias = bias;
	linear->bias_first = parsed->expert * linear->n;
	return 1;
}

static int find_expert(const struct weight_lookup *lookup, const char *name,
		       struct linear_ref *linear, struct err *err)
{
	const size_t n_parts = sizeof expert_parts / sizeof *expert_parts;
	const struct tensor_ref *gate_up, *down;
	struct experts_tensor tensors[2];
	struct experts_layout layout;
	struct expert_name parsed;
	size_t part = 0;

	if (!parse_expert(name, &parsed))
		return 0;
	while (part < n_parts && strcmp(expert_parts[part].part, parsed.part) != 0)
		part++;
	gate_up = find_fused(lookup, name, parsed.prefix, "gate_up_proj");
	down = find_fused(lookup, name, parsed.prefix, "down_proj");
	if (part == n_parts || (!gate_up && !down))
		return 0;
	linear->weight = expert_parts[part].which == EXPERT_DOWN ? down : gate_up;
	if (!linear->weight)
		return 0;
	for (int i = 0; i < 2; i++) {
		const struct tensor_ref *ref = i ? down : gate_up;

		tensors[i] = experts_tensor(ref);
		if (ref && (ref->tensor->n_dims != 3 || !st_n_elements(ref->tensor->shape, 3)))
			return bad_shape(ref, "all experts of a layer", err);
	}
	if (experts_layout_find(&layout, &tensors[0], &tensors[1], &lookup->config, err))
		return -1;
	if (parsed.expert >= layout.n_experts)
		return 0;
	experts_matrix(&layout, expert_parts[part].which, parsed.expert, &linear->n, &linear->k,
		       &linear->slice);
	if (expert_parts[part].both)
		linear->n *= 2;
	return take_bias(lookup, name, &parsed, part, linear, err);
}

/* Finds the embedding, if it is the head of a tied model. */
static const struct tensor_ref *find_tied(const struct weight_lookup *lookup, const char *name)
{
	static const char *const embeddings[] = { "model.embed_tokens.weight",
						  "model.language_model.embed_tokens.weight",
						  "language_model.model.embed_tokens.weight",
						  "transformer.wte.weight",
						  "model.decoder.embed_tokens.weight" };
	const char *last = strrchr(name, '.');

	for (size_t i = 0; !strcmp(last ? last + 1 : name, "lm_head") &&
			   i < sizeof embeddings / sizeof *embeddings;
	     i++) {
		const struct tensor_ref *ref = checkpoint_find(lookup->checkpoint, embeddings[i]);

		if (ref)
			return ref;
	}
	return NULL;
}

int weight_lookup_find(const struct weight_lookup *lookup, const char *name,
		       struct linear_ref *linear, struct err *err)
{
	size_t n = strlen(name);
	const struct tensor_ref *weight = find(lookup, name, n, ".weight");
	int rc;

	*linear = (struct linear_ref){ 0 };
	if (!weight)
		weight = find_tied(lookup, name);
	rc = weight ? take_matrix(lookup, weight, find(lookup, name, n, ".bias"), linear, err)
		    : find_expert(lookup, name, linear, err);
	if (rc == 1)
		linear->module = xstrdup(name);
	return rc;
}
