/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes units of candidates, one for each matrix of fused experts.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "select/skip_list.h"
#include "select/steps.h"
#include "names/experts.h"

/* Adds a unit; make_units() has allocated the array. */
static struct unit *add_unit(struct selection *selection, const struct candidate *c)
{
	struct unit *unit = &selection->units[selection->n_units++];

	*unit = (struct unit){
		.name = c->source->tensor->name,
		.source = c->source,
		.source_scale = c->source_scale ? *c->source_scale : (struct weight_scale){ 0 },
		.low_bit = c->low_bit,
		.recipe = c->recipe,
		.next_joint = c->joint_set, /* the number of its set, until close_rings() */
		.linear = c->linear,
		.table = candidate_is_table(c),
		.passed = c->passed,
		.skip = c->passed ? SKIP_FREE : skip_need(c->source->tensor, &c->facts),
		.rule = c->rule,
		.rule_source = c->rule == RULE_VENDOR || c->rule == RULE_ENGINE
				       ? c->profile.row->source
				       : NULL,
	};
	return unit;
}

static void add_kept(struct selection *selection, struct candidate *c)
{
	add_unit(selection, c)->reason = c->reason;
	c->reason = NULL;
}

/* number: the first scale group of the candidate's fused set; *number is NONE before the set's
 * first unit.  A stack has a group for each expert. */
static void add_quantized(struct selection *selection, const struct candidate *c, size_t *number)
{
	struct unit *unit = add_unit(selection, c);
	uint64_t n_matrices = c->stack == STACK_WHOLE ? c->source->tensor->shape[0] : 1;

	if (*number == NONE) {
		*number = selection->n_scale_groups;
		selection->n_scale_groups += n_matrices;
	}
	unit->rows = c->rows * n_matrices;
	unit->cols = c->cols;
	if (c->stack == STACK_WHOLE)
		unit->stack = c->rows;
	unit->slice = (struct slice){ .row_stride = c->cols, .col_stride = 1 };
	unit->scale_group = *number;
}

/* One matrix of fused experts. */
struct matrix_id {
	enum expert_part part;
	uint64_t expert;
};

static void add_matrix(struct selection *selection, const struct candidate *c, struct matrix_id id)
{
	struct unit *unit = add_unit(selection, c);

	unit->name = arena_take(&selection->names, experts_part_name(c->source->tensor->name,
								     id.part, id.expert, "weight"));
	experts_matrix(c->layout, id.part, id.expert, &unit->rows, &unit->cols, &unit->slice);
	unit->scale_group = selection->n_scale_groups;
}

/* Adds the bias of that matrix: c has the biases of all experts. */
static void add_bias(struct selection *selection, const struct candidate *c,
		     const struct candidate *experts, struct matrix_id id)
{
	struct unit *unit = add_unit(selection, c);

	unit->name = arena_take(&selection->names, experts_part_name(experts->source->tensor->name,
								     id.part, id.expert, "bias"));
	unit->reason = xstrdup(c->reason);
	unit->part = true;
	unit->skip = SKIP_FREE; /* a vector */
	unit->next_joint = experts->joint_set;
	experts_bias(experts->layout, id.part, id.expert, &unit->rows, &unit->slice);
	unit->cols = 1;
}

static void add_part(struct selection *selection, const struct candidate *c,
		     const struct candidate *experts, struct matrix_id id)
{
	if (c == experts)
		add_matrix(selection, c, id);
	else
		add_bias(selection, c, experts, id);
}

/* An expert's gate and up are a fused set. */
static void add_experts(struct selection *selection, const struct candidate *c,
			const struct candidate *experts)
{
	for (uint64_t e = 0; e < experts->layout->n_experts; e++) {
		if (experts->facts.role == ROLE_EXPERTS_DOWN) {
			add_part(selection, c, experts, (struct matrix_id){ EXPERT_DOWN, e });
		} else {
			add_part(selection, c, experts, (struct matrix_id){ EXPERT_GATE, e });
			add_part(selection, c, experts, (struct matrix_id){ EXPERT_UP, e });
		}
		selection->n_scale_groups += c == experts;
	}
}

/* A bias is in one piece again where its experts are kept. */
static bool in_joint_set(const struct unit *unit)
{
	return unit->next_joint != NONE && (unit->recipe || unit->part);
}

/* Turns the numbers of sets into rings of units. */
static void close_rings(struct selection *selection, size_t n_sets)
{
	uint32_t *first = xmalloc(n_sets * sizeof *first), *last = xmalloc(n_sets * sizeof *last);

	for (size_t b = 0; b < n_sets; b++)
		first[b] = NONE;
	for (uint32_t i = 0; i < selection->n_units; i++) {
		uint32_t joint_set = selection->units[i].next_joint;

		if (!in_joint_set(&selection->units[i])) {
			selection->units[i].next_joint = i;
			continue;
		}
		if (first[joint_set] == NONE)
			first[joint_set] = i;
		else
			selection->units[last[joint_set]].next_joint = i;
		last[joint_set] = i;
		selection->units[i].next_joint = first[joint_set];
	}
	free(first);
	free(last);
}

static void make_units(struct select *select, struct selection *selection)
{
	size_t *numbers = xmalloc(select->sets.n * sizeof *numbers);
	size_t alone, n = 0;

	for (size_t i = 0; i < select->sets.n; i++)
		numbers[i] = NONE;
	for (size_t i = 0; i < select->n; i++)
		n += candidate_n_units(select, &select->candidates[i]);
	selection->units = xreallocarray(NULL, n, sizeof *selection->units);
	for (size_t i = 0; i < select->n; i++) {
		struct candidate *c = &select->candidates[i];
		const struct candidate *experts = candidate_experts(select, c);

		alone = NONE;
		if (experts)
			add_experts(selection, c, experts);
		else if (!c->recipe)
			add_kept(selection, c);
		else
			add_quantized(selection, c,
				      c->fused_set == NONE ? &alone : &numbers[c->fused_set]);
	}
	free(numbers);
	close_rings(selection, select->sets.n);
}

int select_units(struct select *select, struct selection *selection, struct err *err)
{
	make_units(select, selection);
	return selection_check(selection, select_hint(select), err);
}
