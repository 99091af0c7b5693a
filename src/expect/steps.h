/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of expect_find(), in their order:
 *
 *	expect_read_config()	what config.json counts, and what it says of each layer
 *	expect_layers()		cells, layers and stacks out of the names
 *	expect_judge()		which stacks the steps below look at
 *	expect_wrapped()	names that no loader has
 *	expect_numbers()	layer numbers of each stack
 *	expect_kinds()		names of layers of one kind
 *	expect_parts()		what engines merge, and what follows it
 *	expect_shapes()		shapes of layers of one kind
 *	expect_sizes()		sizes against config.json
 *	expect_experts()	experts of each layer
 *	expect_ends()		embedding, last norm, head, multi-token prediction
 *	expect_model()		what the forward pass of its architecture needs, if there is one
 */
#ifndef FP8CONV_EXPECT_STEPS_H
#define FP8CONV_EXPECT_STEPS_H

#include <jansson.h>

#include "base/intern.h"
#include "expect/expect.h"
#include "expect/name.h"
#include "names/config.h"
#include "names/role.h"

/* Marks what is not set: tensors, templates and layers are counted in 32 bits. */
#define EXPECT_NONE UINT32_MAX

/* A name in its layer, with the number of an expert cut out: "mlp.experts.*.up_proj.weight". */
struct template
{
	bool ignored;	   /* scales and buffers, which layers of one kind may or may not have */
	bool expert;	   /* of one numbered expert */
	bool routed;	   /* below a segment that is "experts" and no more */
	uint32_t parts[2]; /* experts in one tensor: what it holds of each; else EXPECT_NONE */
	struct role_facts facts;
};

/* A tensor in a layer, or what a tensor of all experts holds of them. */
struct cell {
	uint32_t layer, template;
	uint32_t tensor; /* in checkpoint.by_name */
	uint32_t expert; /* EXPECT_NONE: of no expert */
};

/* The cells of one template in a layer; for numbered experts, one of each. */
struct expect_member {
	uint32_t template;
	uint32_t cell; /* the first one */
	uint32_t n;    /* distinct experts, or 1 */
	uint32_t end;  /* above the highest number of an expert, or 1 */
};

struct expect_layer {
	uint32_t stack, number;
	uint32_t declared; /* what config.json says of it: equal numbers are equal kinds */
	uint32_t class;	   /* layers of equal kind and equal templates */
	size_t first, n;   /* members, by template */
};

struct stack {
	const char *name; /* "model.layers." with its length; in a tensor's name */
	size_t len;
	bool tower;
	bool is_layers;	 /* each layer has enough names to be one, and they are all expected */
	bool is_uniform; /* the layers are copies of a few kinds */
	bool is_normed;	 /* each layer has a norm of its own */
	uint64_t bytes;
	size_t first, n; /* layers, by number */
};

struct expect {
	const struct checkpoint *checkpoint;
	struct expect_gaps *gaps;
	struct model_config config;
	json_t *root;
	const json_t *level; /* of the language model, in root */
	size_t n_lists;
	const json_t *lists[32]; /* of level: what they say differs from layer to layer */
	struct intern kinds;	 /* what the lists say of a layer */
	struct intern names;	 /* of templates */
	struct template *templates;
	size_t n_cells;
	struct cell *cells; /* by layer and template */
	struct expect_member *members;
	size_t n_layers;
	struct expect_layer *layers; /* by stack and number */
	size_t n_stacks;
	struct stack *stacks;
	const struct stack *main; /* of the language model; NULL: none */
	size_t n_outside;
	uint32_t *outside; /* tensors in no layer */
	size_t n_outline;
	struct tensor_ref *outline; /* all tensors but of experts after the first, by name */
	bool predicts;		    /* there is multi-token prediction */
};

/* Adds a gap of n tensors; format is for its message. */
void expect_add(struct expect *expect, enum expect_kind kind, const char *tensor, size_t n,
		const char *format, ...) __attribute__((format(printf, 5, 6)));

/* Does the model's family lack the tensor whose name ends so, or the norm after the last layer? */
#define EXPECT_LAST_NORM "last norm"
bool expect_may_lack(const struct expect *expect, const char *name);

/* Has the model an encoder and a decoder, of which each has its number of layers? */
static inline bool expect_has_pairs(const struct expect *expect)
{
	return json_is_true(json_object_get(expect->root, "is_encoder_decoder"));
}

int expect_read_config(struct expect *expect, struct err *err);

/* Returns the number of what config.json says of layer i of the language model. */
uint32_t expect_declared(struct expect *expect, uint64_t i);

/* Returns the number of layers of multi-token prediction that config.json counts, and its key. */
uint64_t expect_n_mtp(const struct expect *expect, const char **key);

void expect_layers(struct expect *expect);
void expect_judge(struct expect *expect);
void expect_wrapped(struct expect *expect);
void expect_numbers(struct expect *expect);
void expect_kinds(struct expect *expect);
void expect_parts(struct expect *expect);
void expect_shapes(struct expect *expect);
void expect_sizes(struct expect *expect);
void expect_experts(struct expect *expect);
void expect_ends(struct expect *expect);
void expect_model(struct expect *expect);

/* Returns the number of a template's name, which is new at most once. */
uint32_t expect_template(struct expect *expect, const char *name, size_t len);

/* Returns a template's name, which is not terminated, and its length. */
const char *expect_template_name(const struct expect *expect, uint32_t template, size_t *len);

/* Finds out about a template by its first tensor. */
void expect_template_learn(struct expect *expect, uint32_t template, const struct st_tensor *tensor,
			   const struct layer_name *split);

/* Returns the layer's member of a template, or NULL. */
const struct expect_member *expect_member(const struct expect *expect,
					  const struct expect_layer *layer, uint32_t template);

static inline const struct st_tensor *expect_tensor(const struct expect *expect,
						    const struct expect_member *member)
{
	return expect->checkpoint->by_name[expect->cells[member->cell].tensor].tensor;
}

/* Is the tensor as the model has it, neither packed nor of integers? */
static inline bool expect_is_plain(const struct st_tensor *tensor)
{
	return dtype_is_float(tensor->dtype) || dtype_is_fp8(tensor->dtype);
}

/* Returns the length of the parent's path, with its dot, where name is "PARENT.word.weight"; 0
 * where it is not. */
size_t expect_parent_len(const char *name, size_t len, const char *word);

/* Returns the layer's member PARENT.word.weight, or NULL; n is the length of the parent's path. */
const struct expect_member *expect_sibling(struct expect *expect, const struct expect_layer *layer,
					   const char *parent, size_t n, const char *word);

#endif
