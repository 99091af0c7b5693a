/* SPDX-License-Identifier: Apache-2.0
 *
 * What shapes forbid, and the sets of tensors that belong together.
 *
 * A fused set is the weights that engines merge into one (q, k and v).  No tile may cross the
 * border between two members, so all members but the last must have whole tiles of rows.  A joint
 * set is quantized together or not at all: a fused set, or all experts of a layer.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "select/steps.h"
#include "names/experts.h"
#include "names/tensor_name.h"

static bool is_expert(const struct candidate *c)
{
	return c->facts.expert || candidate_is_fused(c);
}

/* Blocks may be ragged with --ragged; MX scales are bytes for whole blocks. */
static bool may_be_ragged(const struct select *select, const struct candidate *c)
{
	return select->options->ragged && c->recipe->weight.scale_type == SCALE_F32;
}

static bool whole(uint64_t n, size_t tile)
{
	return tile == WHOLE || n % tile == 0;
}

static void keep_ragged(struct candidate *c, char dimension, uint64_t n, size_t tile)
{
	candidate_keep(c, "%" PRIu64 " %s are not a multiple of %zu", n, dimension_noun(dimension),
		       tile);
	c->by_shape = true;
	c->rule = RULE_SHAPE;
}

/* Every kernel needs whole tiles of columns. */
static void check_columns(const struct select *select, struct candidate *c)
{
	size_t tile = c->recipe->weight.tile.cols;

	if (!may_be_ragged(select, c) && !whole(c->cols, tile))
		keep_ragged(c, 'K', c->cols, tile);
}

/* Loaders compute the rows of a tile as rows of the weight / rows of its scales, which is wrong
 * where the last tile is partial.  transformers reads no such weight; the other engines read the
 * ones that vendors release. */
static bool may_have_ragged_rows(const struct select *select, const struct candidate *c)
{
	const struct profile_row *row = c->profile.row;
	bool loads = c->facts.ragged_rows || (row && row->action == PROFILE_RAGGED);

	return may_be_ragged(select, c) ||
	       (loads && select->options->target != ENGINE_TRANSFORMERS);
}

static void check_rows(const struct select *select, struct candidate *c)
{
	size_t tile = c->recipe->weight.tile.rows;
	bool halves = c->stack == STACK_WHOLE && c->facts.parallel == PARALLEL_GATE_UP;
	uint64_t rows = halves ? c->rows / 2 : c->rows; /* gate and up of each expert */

	if (!may_have_ragged_rows(select, c) && !whole(rows, tile))
		keep_ragged(c, 'N', rows, tile);
}

/* Fused and joint sets. */

/* The common beginning of the names of all experts of a layer, and the number of their joint
 * set. */
struct joint_layer {
	const char *name;
	size_t n; /* bytes; 0: none yet */
	uint32_t joint_set;
};

static uint32_t set_number(struct select *select, struct buf *key, char kind, const char *prefix,
			   size_t n)
{
	key->len = 0;
	buf_putc(key, kind);
	buf_add(key, prefix, n);
	return (uint32_t)intern_add(&select->sets, key->data, key->len);
}

/* Returns the joint set of an expert.  It is mostly that of the candidate before it, whose layer is
 * *layer. */
static uint32_t experts_number(struct select *select, struct buf *key, const char *name,
			       struct joint_layer *layer)
{
	if (!layer->n || strncmp(name, layer->name, layer->n) != 0) {
		layer->name = name;
		layer->n = experts_layer_len(name);
		layer->joint_set = set_number(select, key, 'E', name, layer->n);
	}
	return layer->joint_set;
}

/* Finds what the candidate is fused with: linear weights, and the parts of a table, which share a
 * scale. */
static bool find_fusion(const struct candidate *c, struct fusion *fusion)
{
	const struct profile_row *row = c->profile.row;

	return (c->facts.linear || (row && row->action == PROFILE_TABLE)) &&
	       profile_fusion(&c->profile, c->source->tensor->name, fusion);
}

static void number_sets(struct select *select)
{
	struct joint_layer layer = { 0 };
	struct buf key = { 0 };

	for (size_t i = 0; i < select->n; i++) {
		struct candidate *c = &select->candidates[i];
		const char *name = c->source->tensor->name;
		struct fusion fusion;

		if (find_fusion(c, &fusion)) {
			c->fused_set =
				set_number(select, &key, fusion.kind, name, fusion.parent_len);
			c->position = fusion.position;
		}
		c->joint_set = c->fused_set;
		if (candidate_is_fused(c) ||
		    (c->facts.role == ROLE_EXPERTS_UNKNOWN && c->facts.in_experts) ||
		    (c->facts.expert && c->facts.linear))
			c->joint_set = experts_number(select, &key, name, &layer);
	}
	buf_release(&key);
}

static uint32_t *new_heads(size_t n)
{
	uint32_t *heads = xmalloc(n * sizeof *heads);

	for (size_t i = 0; i < n; i++)
		heads[i] = NONE;
	return heads;
}

/* Links the members of each set in the order of the candidates. */
static void link_sets(struct select *select)
{
	select->first_in_fused_set = new_heads(select->sets.n);
	select->first_in_joint_set = new_heads(select->sets.n);
	for (size_t i = select->n; i-- > 0;) {
		struct candidate *c = &select->candidates[i];

		if (c->fused_set != NONE) {
			c->next_in_fused_set = select->first_in_fused_set[c->fused_set];
			select->first_in_fused_set[c->fused_set] = (uint32_t)i;
		}
		if (c->joint_set != NONE) {
			c->next_in_joint_set = select->first_in_joint_set[c->joint_set];
			select->first_in_joint_set[c->joint_set] = (uint32_t)i;
		}
	}
}

/* Borders between the members of fused sets. */

static struct candidate *member_after(const struct select *select, const struct candidate *c)
{
	struct candidate *after = NULL;

	if (c->fused_set == NONE)
		return NULL;
	for (size_t i = select->first_in_fused_set[c->fused_set]; i != NONE;
	     i = select->candidates[i].next_in_fused_set) {
		struct candidate *other = &select->candidates[i];

		if (other->position > c->position && (!after || other->position < after->position))
			after = other;
	}
	return after;
}

static struct segment module_name(const struct candidate *c)
{
	struct path path;

	path_split(&path, c->source->tensor->name);
	return path.segments[path.owner];
}

/* Keeps a weight that is fused of parts if a tile would cross a border between two of them. */
static void check_parts(const struct select *select, struct candidate *c)
{
	size_t tile = c->recipe->weight.tile.rows;
	struct section sections[MAX_SECTIONS];
	int n = parallel_sections(c->facts.parallel, &select->config, c->rows, sections);

	if (n == 0 && tile > 1) {
		candidate_keep(c, "%" PRIu64 " rows are fused of parts of unknown sizes", c->rows);
		c->by_shape = true;
		c->rule = RULE_SHAPE;
		return;
	}
	for (int i = 0; i < n - 1; i++) {
		if (whole(sections[i].rows, tile))
			continue;
		candidate_keep(c,
			       "%" PRIu64 " rows are fused of parts, and %" PRIu64
			       " are not a multiple of %zu",
			       c->rows, sections[i].rows, tile);
		c->by_shape = true;
		c->rule = RULE_SHAPE;
		return;
	}
}

static void check_seams(const struct select *select, struct candidate *c,
			const struct candidate *after)
{
	size_t tile = c->recipe->weight.tile.rows;
	struct section sections[MAX_SECTIONS];
	struct segment name;
	int n;

	if (may_be_ragged(select, c) || is_expert(c))
		return;
	check_parts(select, c);
	n = parallel_sections(c->facts.parallel, &select->config, c->rows, sections);
	if (!c->recipe || !after || n == 0 || whole(sections[n - 1].rows, tile))
		return;
	name = module_name(after);
	candidate_keep(
		c, "%" PRIu64 " rows are not a multiple of %zu, and engines fuse them with %.*s",
		c->rows, tile, (int)name.n, name.text);
	c->by_shape = true;
	c->rule = RULE_SHAPE;
}

/* One recipe for a joint set, or none. */

static int check_one_recipe(const struct select *select, size_t joint_set, struct err *err)
{
	const struct candidate *first = NULL;

	for (size_t i = select->first_in_joint_set[joint_set]; i != NONE;
	     i = select->candidates[i].next_in_joint_set) {
		const struct candidate *c = &select->candidates[i];

		if (!c->recipe)
			continue;
		if (!first)
			first = c;
		if (c->recipe != first->recipe)
			return err_set(
				err, ERR_USAGE,
				"engines fuse '%s' (%s) with '%s' (%s), which needs one recipe: "
				"use --tensor to give both one recipe",
				first->source->tensor->name, first->recipe->name,
				c->source->tensor->name, c->recipe->name);
	}
	return 0;
}

static const struct candidate *first_kept(const struct select *select, size_t joint_set)
{
	size_t i = select->first_in_joint_set[joint_set];

	while (i != NONE && select->candidates[i].recipe)
		i = select->candidates[i].next_in_joint_set;
	return i == NONE ? NULL : &select->candidates[i];
}

static void keep_all(struct select *select, size_t joint_set)
{
	const struct candidate *kept = first_kept(select, joint_set);

	if (!kept)
		return;
	for (size_t i = select->first_in_joint_set[joint_set]; i != NONE;
	     i = select->candidates[i].next_in_joint_set) {
		struct candidate *c = &select->candidates[i];

		if (!c->recipe)
			continue;
		if (kept->by_shape && is_expert(kept))
			candidate_keep(c, "%s", kept->reason);
		else
			candidate_keep(c, "fused with '%s', which is kept",
				       kept->source->tensor->name);
		c->by_shape = kept->by_shape;
		c->rule = kept->rule;
	}
}

int select_shapes(struct select *select, struct err *err)
{
	number_sets(select);
	link_sets(select);
	for (size_t b = 0; b < select->sets.n; b++)
		if (check_one_recipe(select, b, err))
			return -1;
	for (size_t i = 0; i < select->n; i++) {
		struct candidate *c = &select->candidates[i];
		const struct candidate *after;

		if (c->recipe)
			check_columns(select, c);
		if (!c->recipe)
			continue;
		after = member_after(select, c);
		c->ends_fused_set = !after;
		check_seams(select, c, after);
		if (c->recipe)
			check_rows(select, c);
	}
	for (size_t b = 0; b < select->sets.n; b++)
		keep_all(select, b);
	return 0;
}
