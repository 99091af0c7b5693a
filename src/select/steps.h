/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of the selection, in the order of their calls in select.c.  Candidates are source
 * tensors.  Each step leaves a candidate to be quantized, or keeps it for good, with the reason.
 * The last step makes units of the candidates.
 */
#ifndef FP8CONV_SELECT_STEPS_H
#define FP8CONV_SELECT_STEPS_H

#include "base/intern.h"
#include "base/pattern.h"
#include "select/select.h"
#include "names/config.h"
#include "names/role.h"

/* Marks an index that is not set.  Indices have 32 bits: there may be a million candidates. */
#define NONE UINT32_MAX

/* The reason of tensors that no --include matches. */
#define NOT_INCLUDED "not included"

/* How the experts of a layer in one tensor are written. */
enum stack_mode {
	STACK_NONE,  /* not experts, or by the general rules: split where they are known */
	STACK_WHOLE, /* in one tensor of three dimensions again */
	STACK_SPLIT,
};

struct candidate {
	const struct tensor_ref *source;
	const struct weight_scale *source_scale; /* of an FP8 source; else NULL */
	const struct low_bit_weight *low_bit;	 /* of a low-bit source; else NULL */
	const struct recipe *recipe;		 /* NULL: kept */
	char *reason;				 /* kept: the reason */
	struct experts_layout *layout;		 /* of fused experts that are quantized */
	struct profile_match profile;		 /* the row of its family, if any */
	/* of the matrix, or of each expert's; set unless it is kept before shapes matter */
	uint64_t rows, cols;
	struct role_facts facts;
	enum unit_rule rule;
	enum stack_mode stack;
	bool by_shape;	     /* kept only because of its shape */
	bool linear;	     /* as in struct unit */
	bool passed;	     /* as in struct unit */
	bool ends_fused_set; /* the last of its fused set, or alone */
	int position;	     /* in its fused set */
	uint32_t bias_of;    /* the candidate of all experts whose bias it is; NONE: none */
	uint32_t fused_set, next_in_fused_set; /* weights that engines merge; NONE: in no set */
	/* units quantized together or not at all: a fused set, or the experts of a layer */
	uint32_t joint_set, next_in_joint_set;
};

struct select {
	const struct checkpoint *checkpoint;
	const struct select_options *options;
	struct model_config config;
	const struct low_bit *low_bit; /* the low-bit weights of the checkpoint */
	unsigned on;		       /* the conditions of profile rows */
	struct weight_scale *scales; /* of an FP8 source, by tensor of the checkpoint; else NULL */
	const struct tensor_ref *unread; /* as in struct detection */
	size_t n_unread;
	bool any_fused; /* any candidate_is_fused() */
	size_t n;
	/* in the order of the checkpoint's tensors; with --requantize a low-bit weight is in the
	 * place of the tensor that packs it */
	struct candidate *candidates;
	struct intern sets;	      /* numbers of fused and joint sets */
	uint32_t *first_in_fused_set; /* by number; NONE: not a fused set */
	uint32_t *first_in_joint_set;
};

/* Keeps a candidate that is not yet kept.  format is for the reason. */
void candidate_keep(struct candidate *candidate, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

/* Returns the candidate of a tensor, or of the weight that it packs; NULL: it became none. */
struct candidate *candidate_find(const struct select *select, const struct tensor_ref *ref);

/* Is the tensor all experts of a layer, or gate, up or down of all? */
bool candidate_is_fused(const struct candidate *candidate);

/* Is the tensor an embedding, or a part of one, that becomes FP8? */
bool candidate_is_table(const struct candidate *candidate);

/* Returns the fused experts that are quantized, one matrix by one, if the candidate holds them or
 * their biases; else NULL. */
const struct candidate *candidate_experts(const struct select *select,
					  const struct candidate *candidate);

/* Returns its number of units: of such experts, and of their biases, one for each matrix. */
size_t candidate_n_units(const struct select *select, const struct candidate *candidate);

/* requantize.c: refuses sources that are already quantized; with --requantize finds the scales of
 * FP8 tensors.  scales[i] is that of tensor i in the checkpoint's order; is_scale[i]: the tensor is
 * itself a scale.  Without FP8 both become NULL.  Leaves out low-bit weights and their scales. */
int select_fp8(struct select *select, struct weight_scale **scales, bool **is_scale,
	       struct err *err);

/* rules.c: makes the candidates, and applies types, patterns, the profile and roles to each by
 * itself. */
int select_gather(struct select *select, struct err *err);

/* rules.c: at the end, notes patterns that match nothing, and those with a recipe that take
 * nothing. */
int select_patterns(const struct select *select, struct notes *notes, struct err *err);

/* layers.c: keeps linear weights outside of the layers of the language model. */
void select_layers(struct select *select);

/* experts.c: finds the layouts of fused experts.  ERR_INPUT if shapes fit several. */
int select_experts(struct select *select, struct err *err);

/* experts.c: gives a tensor of all experts the role that its name has in a family where such
 * tensors are written in this mode. */
void candidate_stack(struct candidate *candidate, enum stack_mode mode);

/* experts.c: finds the sizes of stacks that stay whole.  ERR_INPUT if two stacks of a layer do
 * not fit each other, or one alone does not fit config. */
int select_stacks(struct select *select, struct err *err);

/* shape.c: finds fused and joint sets, and keeps what shapes forbid.  ERR_USAGE if rules give
 * different recipes to weights that engines merge. */
int select_shapes(struct select *select, struct err *err);

/* requantize.c: ERR_INPUT for the scale of a weight in high precision that is quantized: engines
 * could take it for a scale of the codes. */
int select_check_scales(const struct select *select, struct err *err);

/* tp.c: finds the tensor-parallel sizes that load.  ERR_USAGE if the required one does not. */
int select_tp(struct select *select, struct selection *selection, struct err *err);

/* advice.c: the notes on what was decided. */
void select_advice(const struct select *select, struct notes *notes);

/* advice.c: returns what quantizes the weights that shapes keep, or NULL if shapes keep none. */
const char *select_hint(const struct select *select);

/* units.c: makes the units. */
int select_units(struct select *select, struct selection *selection, struct err *err);

/* settle.c: counts units.  ERR_USAGE if none is quantized (hint: a suggestion for the message, or
 * NULL), or an FP8 tensor would be kept. */
int selection_check(struct selection *selection, const char *hint, struct err *err);

#endif
