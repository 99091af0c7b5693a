/* SPDX-License-Identifier: Apache-2.0
 *
 * The notes on what was decided: how much a recipe keeps that another would take, experts of an
 * unknown layout, what engines do not load, and what a user's pattern overrides.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "select/fp8_units.h"
#include "select/skip_list.h"
#include "select/steps.h"

/* The recipe that takes every shape. */
#define OTHER_RECIPE "channelwise"

const char *select_hint(const struct select *select)
{
	bool any = false;

	for (size_t i = 0; i < select->n && !any; i++)
		any = select->candidates[i].by_shape;
	if (!any)
		return NULL;
	if (select->options->recipe->weight.scale_type == SCALE_E8M0 ||
	    select->options->target == ENGINE_TRANSFORMERS)
		return "--recipe " OTHER_RECIPE " accepts any shape";
	return "--recipe " OTHER_RECIPE " accepts any shape, --ragged allows partial blocks";
}

/* --- what there is to say --- */

/* Candidates that a note is about. */
struct noted {
	size_t n;
	const struct candidate *first;
};

/* All that one pass over the candidates, perhaps a million, finds. */
struct survey {
	uint64_t whole, perhaps; /* bytes: that count, and of those that may be taken */
	struct noted experts, overridden, partial, small;
};

/* Embeddings and heads aside. */
static bool counts(const struct candidate *c)
{
	return c->linear && c->facts.role != ROLE_LM_HEAD && c->facts.role != ROLE_OUTPUT_HEAD;
}

static uint64_t bytes_of(const struct candidate *c)
{
	return st_tensor_size(c->source->tensor);
}

/* May another recipe take the kept candidate? */
static bool may_be_taken(const struct candidate *c)
{
	return !c->recipe && counts(c) && (c->by_shape || c->rule == RULE_ENGINE);
}

/* Does a pattern override the row of its family? */
static bool is_overridden(const struct candidate *c)
{
	const struct profile_row *row = c->profile.row;

	return c->recipe && c->rule == RULE_USER && row && !row->vendor && row->said;
}

static bool is_unknown_experts(const struct candidate *c)
{
	return c->facts.role == ROLE_EXPERTS_UNKNOWN && c->rule == RULE_GENERAL &&
	       skip_looks_like_experts(c->source->tensor, &c->facts);
}

static bool is_partial(const struct candidate *c)
{
	struct tile tile;

	if (!c->recipe || c->recipe->weight.scale_type == SCALE_E8M0)
		return false;
	tile = c->recipe->weight.tile;
	return (tile.rows != WHOLE && c->rows % tile.rows) ||
	       (tile.cols != WHOLE && c->cols % tile.cols);
}

/* MXFP8 kernels need this many rows and columns; files with smaller weights load, but not into
 * these kernels. */
#define MX_KERNEL_MIN 128

static bool is_small(const struct candidate *c)
{
	return c->recipe && c->recipe->weight.scale_type == SCALE_E8M0 &&
	       (c->rows < MX_KERNEL_MIN || c->cols < MX_KERNEL_MIN);
}

static void group_add(struct noted *group, const struct candidate *c)
{
	if (!group->n++)
		group->first = c;
}

static void survey_add(struct survey *survey, const struct candidate *c)
{
	if (counts(c))
		survey->whole += bytes_of(c);
	if (may_be_taken(c))
		survey->perhaps += bytes_of(c);
	if (is_unknown_experts(c))
		group_add(&survey->experts, c);
	if (is_overridden(c))
		group_add(&survey->overridden, c);
	if (is_partial(c))
		group_add(&survey->partial, c);
	if (is_small(c))
		group_add(&survey->small, c);
}

/* --- most bytes are kept --- */

/* What another recipe makes of the same checkpoint: bytes that it takes, and those that only it
 * takes. */
struct other {
	uint64_t taken, only_there;
	const struct candidate *first; /* that only the other recipe takes */
};

/* Units are in the order of candidates, several for a tensor that is split. */
static void compare(const struct select *select, const struct selection *there, struct other *other)
{
	size_t u = 0;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		bool taken = false;

		for (; u < there->n_units && there->units[u].source == c->source; u++)
			taken |= there->units[u].recipe != NULL;
		if (!taken || !counts(c))
			continue;
		other->taken += bytes_of(c);
		if (!may_be_taken(c))
			continue;
		other->only_there += bytes_of(c);
		other->first = other->first ? other->first : c;
	}
}

static int ask_other(const struct select *select, struct other *other, struct err *err)
{
	struct select_options options = *select->options;
	struct selection there;

	options.recipe = recipe_find(OTHER_RECIPE, err);
	options.format = NULL;
	options.tp = 0;
	options.advise = false;
	if (!options.recipe || selection_make(&there, select->checkpoint, &options, err))
		return -1;
	compare(select, &there, other);
	selection_release(&there);
	return 0;
}

static unsigned percent(uint64_t part, uint64_t whole)
{
	return (unsigned)(100.0 * (double)part / (double)whole + 0.5);
}

static void note_mostly_kept(const struct select *select, const struct survey *survey,
			     struct notes *notes)
{
	struct other other = { 0 };
	struct err ignored;

	if (2 * survey->perhaps <= survey->whole || ask_other(select, &other, &ignored) ||
	    2 * other.only_there <= survey->whole)
		return;
	notes_add(notes, NOTE_MOSTLY_KEPT, other.first->source->tensor->name,
		  "%s keeps %u %% of the weight bytes in high precision, as '%s': %s; "
		  "--recipe " OTHER_RECIPE " takes %u %%",
		  select->options->recipe->name, percent(other.only_there, survey->whole),
		  other.first->source->tensor->name, other.first->reason,
		  percent(other.taken, survey->whole));
}

/* --- experts of an unknown layout --- */

static void note_unknown_experts(const struct noted *experts, struct notes *notes)
{
	const struct candidate *first = experts->first;
	size_t n = experts->n;

	if (!n)
		return;
	notes_add(notes, NOTE_EXPERTS_UNKNOWN, first->source->tensor->name,
		  "%zu %s of an unknown layout, as '%s' %s: kept in high precision, and named in "
		  "the skip list",
		  n, n == 1 ? "tensor holds experts" : "tensors hold experts",
		  first->source->tensor->name, st_shape(first->source->tensor).text);
}

/* --- the profile --- */

/* One note for each row that a pattern overrides. */
static void note_overridden(const struct select *select, struct notes *notes)
{
	const struct profile_row *told = NULL;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		const struct profile_row *row = c->profile.row;

		if (!is_overridden(c) || row == told)
			continue;
		notes_add(notes, NOTE_OVERRIDES_ENGINE, c->source->tensor->name,
			  "--tensor quantizes '%s' against a rule for an engine: %s [%s]",
			  c->source->tensor->name, row->said, row->source);
		told = row;
	}
}

/* --- partial blocks --- */

static void note_partial(const struct select *select, const struct noted *partial,
			 struct notes *notes)
{
	const struct candidate *first = partial->first;
	size_t n = partial->n;

	if (n && select->options->target == ENGINE_ANY)
		notes_add(notes, NOTE_PARTIAL_BLOCKS, first->source->tensor->name,
			  "%zu %s in a partial block, as '%s' [%" PRIu64 ", %" PRIu64
			  "]: transformers reads such weights wrong where it dequantizes; "
			  "--target transformers%s keeps them",
			  n, n == 1 ? "weight ends" : "weights end", first->source->tensor->name,
			  first->rows, first->cols,
			  select->options->ragged ? " without --ragged" : "");
}

/* --- kernels --- */

static void note_small(const struct noted *small, struct notes *notes)
{
	const char *first;
	size_t n = small->n;

	if (!n)
		return;
	first = small->first->source->tensor->name;
	notes_add(notes, NOTE_SMALL_WEIGHTS, first,
		  "%zu weight%s fewer than %d rows or columns, as '%s', which engines' "
		  "MXFP8 kernels do not support: use --exclude to keep %s",
		  n, n == 1 ? " has" : "s have", MX_KERNEL_MIN, first, n == 1 ? "it" : "them");
}

void select_advice(const struct select *select, struct notes *notes)
{
	struct survey survey = { 0 };

	for (size_t i = 0; i < select->n; i++)
		survey_add(&survey, &select->candidates[i]);
	note_mostly_kept(select, &survey, notes);
	note_unknown_experts(&survey.experts, notes);
	if (survey.overridden.n)
		note_overridden(select, notes);
	note_partial(select, &survey.partial, notes);
	note_small(&survey.small, notes);
	fp8_units_note(notes, select->unread, select->n_unread);
}
