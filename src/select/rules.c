/* SPDX-License-Identifier: Apache-2.0
 *
 * Decides each tensor by itself, in this order: types and shapes that cannot be quantized, the list
 * of --tensors, --tensor (the last matching rule), --include and --exclude, the profile of its
 * family, its role.  The patterns that make a name a router, a norm or a head are rows in
 * names/role.c; a family's are rows in profile_rows.c.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/role.h"
#include "select/skip_list.h"
#include "select/steps.h"

struct pattern_list {
	struct pattern *list;
	size_t n;
};

struct patterns {
	struct pattern_list rules, include, exclude;
};

static int compile(struct pattern_list *patterns, const char *option, const char *text,
		   struct err *err)
{
	ARRAY_GROW(patterns->list, patterns->n);
	if (pattern_compile(&patterns->list[patterns->n], option, text, err))
		return -1;
	patterns->n++;
	return 0;
}

static int patterns_compile(struct patterns *patterns, const struct select_options *options,
			    struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < options->rules.n && !rc; i++)
		rc = compile(&patterns->rules, "--tensor", options->rules.list[i].pattern, err);
	for (size_t i = 0; i < options->include.n && !rc; i++)
		rc = compile(&patterns->include, "--include", options->include.list[i], err);
	for (size_t i = 0; i < options->exclude.n && !rc; i++)
		rc = compile(&patterns->exclude, "--exclude", options->exclude.list[i], err);
	return rc;
}

static void release_all(struct pattern_list *patterns)
{
	for (size_t i = 0; i < patterns->n; i++)
		pattern_release(&patterns->list[i]);
	free(patterns->list);
}

static void patterns_release(struct patterns *patterns)
{
	release_all(&patterns->rules);
	release_all(&patterns->include);
	release_all(&patterns->exclude);
}

/* Finds the last pattern that matches; *which is NONE if none does. */
static int match_last(const struct pattern_list *patterns, const char *name, size_t *which,
		      struct err *err)
{
	bool matches = false;

	*which = NONE;
	for (size_t n = patterns->n; n-- > 0 && *which == NONE;) {
		if (pattern_match(&patterns->list[n], name, &matches, err))
			return -1;
		if (matches)
			*which = n;
	}
	return 0;
}

/* Is it a type that recipes can read? */
static bool is_readable(enum dtype dtype)
{
	return dtype_is_float(dtype) || dtype_is_fp8(dtype) || dtype_is_low_bit(dtype);
}

static bool is_empty(const struct st_tensor *tensor)
{
	for (int i = 0; i < tensor->n_dims; i++)
		if (tensor->shape[i] == 0)
			return true;
	return false;
}

/* Keeps a tensor that the row of its family keeps.  Rows about sets and layouts of experts act in
 * later steps. */
static void keep_by_profile(struct candidate *c)
{
	const struct profile_row *row = c->profile.row;

	if (!row)
		return;
	c->rule = row->vendor ? RULE_VENDOR : RULE_ENGINE;
	if (row->action == PROFILE_KEEP || row->action == PROFILE_BARE)
		candidate_keep(c, "%s", row->said);
}

/* Keeps tensors that no option can change.  A role tells a reader more than a number of
 * dimensions. */
static void keep_impossible(struct candidate *c)
{
	const struct st_tensor *tensor = c->source->tensor;
	bool fused = candidate_is_fused(c);
	const char *role = role_reason(c->facts.role);

	if (!is_empty(tensor) && is_readable(tensor->dtype) && tensor->n_dims == (fused ? 3 : 2))
		return;
	if (skip_need(tensor, &c->facts) == SKIP_EXPERTS)
		keep_by_profile(c);
	if (!c->recipe)
		return;
	c->rule = RULE_GENERAL;
	if (role && c->facts.role != ROLE_PARAMETER && !is_empty(tensor))
		candidate_keep(c, "%s", role);
	else if (is_empty(tensor))
		candidate_keep(c, "empty tensor");
	else if (!is_readable(tensor->dtype))
		candidate_keep(c, "dtype %s", dtype_name(tensor->dtype));
	else if (tensor->n_dims == 0)
		candidate_keep(c, "scalar");
	else
		candidate_keep(c, "%d-D tensor", tensor->n_dims);
}

/* Keeps a tensor whose role is never quantized. */
static void keep_role(struct candidate *c)
{
	const char *role = role_reason(c->facts.role);

	if (!role || !c->recipe)
		return;
	c->rule = RULE_GENERAL;
	candidate_keep(c, "%s", role);
}

/* Does what an option says of a tensor.  It overrides a role, but never quantizes a table that is
 * not multiplied. */
static void obey(struct candidate *c, const struct recipe *recipe, const char *option)
{
	c->rule = RULE_USER;
	if (!recipe)
		candidate_keep(c, "skipped by %s", option);
	else if (c->facts.linear || candidate_is_fused(c))
		c->recipe = recipe;
	else
		keep_role(c);
}

/* Returns the number of its name in the list of --tensors, or SIZE_MAX. */
static size_t find_named(const struct candidate *c, const struct select_options *options)
{
	return options->named
		       ? named_find(options->named, c->source->tensor->name, candidate_is_fused(c))
		       : SIZE_MAX;
}

/* Applies --tensors and --tensor; sets *decided if one matches. */
static int apply_rules(struct candidate *c, const struct select_options *options,
		       const struct patterns *patterns, bool *decided, struct err *err)
{
	size_t named = find_named(c, options), rule;

	*decided = true;
	if (named != SIZE_MAX) {
		obey(c, options->named->lines[named].recipe, "--tensors");
		return 0;
	}
	if (match_last(&patterns->rules, c->source->tensor->name, &rule, err))
		return -1;
	*decided = rule != NONE;
	if (*decided)
		obey(c, options->rules.list[rule].recipe, "--tensor");
	return 0;
}

static int apply_lists(struct candidate *c, const struct patterns *patterns, struct err *err)
{
	const char *name = c->source->tensor->name;
	size_t which;

	if (patterns->include.n) {
		if (match_last(&patterns->include, name, &which, err))
			return -1;
		if (which == NONE)
			candidate_keep(c, NOT_INCLUDED);
	}
	if (match_last(&patterns->exclude, name, &which, err))
		return -1;
	if (which != NONE)
		candidate_keep(c, "excluded");
	if (!c->recipe)
		c->rule = RULE_USER;
	return 0;
}

static int decide(struct candidate *c, const struct select_options *options,
		  const struct patterns *patterns, struct err *err)
{
	const struct profile_row *row = c->profile.row;
	bool decided = false;

	keep_impossible(c);
	if (!c->recipe)
		return 0;
	if (apply_rules(c, options, patterns, &decided, err))
		return -1;
	if (decided)
		return 0;
	if (apply_lists(c, patterns, err))
		return -1;
	if (c->recipe)
		keep_by_profile(c);
	if (c->recipe && row && row->action == PROFILE_TABLE)
		c->recipe = recipe_of_scheme(GRANULARITY_TENSOR, false);
	else
		keep_role(c);
	return 0;
}

bool tensor_is_linear(const struct st_tensor *tensor, const struct role_facts *facts)
{
	if (!is_readable(tensor->dtype) && tensor->dtype != DT_F64)
		return false;
	switch (facts->role) {
	case ROLE_EXPERTS_GATE_UP:
	case ROLE_EXPERTS_DOWN:
	case ROLE_EXPERTS_UNKNOWN:
		return tensor->n_dims >= 2;
	default:
		return facts->linear && tensor->n_dims == 2;
	}
}

/* Without --requantize low-bit weights are passed on with all their tensors. */
static void keep_low_bit(struct candidate *c, const struct select *select, size_t i)
{
	const struct low_bit_weight *weight = low_bit_of(select->low_bit, i);

	if (!weight || select->options->requantize)
		return;
	candidate_keep(c, "%s, passed on", dtype_name(weight->tensor.dtype));
	c->passed = true;
	c->linear = false;
}

/* Facts of names, each found once for all names that differ only in numbers. */
struct names {
	struct role_cache roles;
	struct profile_match *matches; /* by number in roles */
	size_t n;
};

static size_t names_find(struct names *names, const struct select *select, const char *name)
{
	size_t i = role_cache_add(&names->roles, name);

	if (i < names->n || !select->options->profile)
		return i;
	ARRAY_GROW(names->matches, names->n);
	names->matches[names->n++] = profile_find(select->options->profile, name, select->on);
	return i;
}

/* Takes experts for those that the family's row says they are. */
static void apply_layout(struct candidate *c)
{
	const struct profile_row *row = c->profile.row;

	if (row && row->action == PROFILE_STACK)
		candidate_stack(c, STACK_WHOLE);
	else if (row && row->action == PROFILE_SPLIT)
		candidate_stack(c, STACK_SPLIT);
}

static void candidate_init(struct candidate *c, const struct select *select, size_t i,
			   struct names *names)
{
	const struct low_bit_weight *weight =
		select->options->requantize ? low_bit_of(select->low_bit, i) : NULL;
	const struct tensor_ref *ref = weight ? &weight->ref : &select->checkpoint->tensors[i];
	size_t name = names_find(names, select, ref->tensor->name);

	*c = (struct candidate){
		.source = ref,
		.source_scale = select->scales ? &select->scales[i] : NULL,
		.low_bit = weight,
		.recipe = select->options->recipe,
		.facts = names->roles.facts[name],
		.profile = names->n ? names->matches[name] : (struct profile_match){ 0 },
		.ends_fused_set = true,
		.fused_set = NONE,
		.next_in_fused_set = NONE,
		.joint_set = NONE,
		.next_in_joint_set = NONE,
		.bias_of = NONE,
	};
	apply_layout(c);
	if (candidate_is_fused(c) ? ref->tensor->n_dims != 3
				  : skip_looks_like_experts(ref->tensor, &c->facts))
		c->facts.role = ROLE_EXPERTS_UNKNOWN;
	if (c->facts.role == ROLE_EXPERTS_UNKNOWN && ref->tensor->n_dims < 2)
		c->facts.role = ROLE_PARAMETER;
	c->linear = tensor_is_linear(ref->tensor, &c->facts);
	if (ref->tensor->n_dims == 2) {
		c->rows = ref->tensor->shape[0];
		c->cols = ref->tensor->shape[1];
	}
	keep_low_bit(c, select, i);
}

/* GPT-2's modules store [in, out]; other models give the same names to plain linear layers.  The
 * first layer of an attention or MLP has more outputs than inputs, which decides.  Without one, as
 * in EXAONE, the second layer of an MLP does, which has more inputs. */
static bool is_transposed_model(const struct select *select)
{
	bool first = false, second = false;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];

		if (!c->linear || !c->facts.conv1d)
			continue;
		if (c->facts.parallel == PARALLEL_ROW)
			second |= c->rows > c->cols;
		else if (c->rows > c->cols)
			return false;
		else
			first = true;
	}
	return first || second;
}

static void keep_transposed(struct select *select)
{
	bool transposed = is_transposed_model(select);

	for (size_t i = 0; transposed && i < select->n; i++) {
		struct candidate *c = &select->candidates[i];

		if (c->recipe && c->facts.conv1d)
			candidate_keep(c, "transposed weight (Conv1D)");
	}
}

/* A tied head has the weight of the embedding, which engines do not load in FP8. */
static int check_tied(const struct select *select, const struct candidate *c, struct err *err)
{
	if (!c->recipe || c->facts.role != ROLE_LM_HEAD || !select->config.tie_word_embeddings)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' is tied to the embedding, which no engine loads as FP8: keep it",
		       c->source->tensor->name);
}

int select_gather(struct select *select, struct err *err)
{
	struct patterns patterns = { 0 };
	struct names names = { 0 };
	bool *is_scale = NULL;
	int rc = -1;

	if (patterns_compile(&patterns, select->options, err) ||
	    select_fp8(select, &select->scales, &is_scale, err))
		goto out;
	select->candidates = xcalloc(select->checkpoint->n_tensors, sizeof *select->candidates);
	for (size_t i = 0; i < select->checkpoint->n_tensors; i++) {
		struct candidate *c = &select->candidates[select->n];

		if ((is_scale && is_scale[i]) ||
		    (select->options->requantize && low_bit_is_dropped(select->low_bit, i)))
			continue;
		candidate_init(c, select, i, &names);
		select->n++;
		select->any_fused |= candidate_is_fused(c);
		if (decide(c, select->options, &patterns, err) || check_tied(select, c, err))
			goto out;
	}
	keep_transposed(select);
	rc = 0;
out:
	patterns_release(&patterns);
	role_cache_release(&names.roles);
	free(names.matches);
	free(is_scale);
	return rc;
}

/* Notes a pattern that matches no tensor, which is most often a typing error, and one with a recipe
 * whose tensors are all kept. */
static int note_pattern(const struct select *select, const struct pattern *pattern, bool quantizes,
			struct notes *notes, struct err *err)
{
	const struct candidate *first = NULL;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		bool matches = false;

		if (pattern_match(pattern, c->source->tensor->name, &matches, err))
			return -1;
		if (matches && (!quantizes || c->recipe))
			return 0;
		first = matches && !first ? c : first;
	}
	if (!first)
		notes_add(notes, NOTE_PATTERN_UNUSED, NULL, "%s '%s' matches no tensor",
			  pattern->option, pattern->text);
	else
		notes_add(notes, NOTE_PATTERN_UNUSED, first->source->tensor->name,
			  "%s '%s' quantizes nothing: '%s' is kept (%s)", pattern->option,
			  pattern->text, first->source->tensor->name, first->reason);
	return 0;
}

/* Refuses a name of the list that no tensor has, and notes those whose recipe no tensor takes. */
static int check_named(const struct select *select, struct notes *notes, struct err *err)
{
	const struct named *named = select->options->named;
	const struct candidate **first = xcalloc(named->names.n + 1, sizeof *first);
	int rc = 0;

	for (size_t i = 0; i < select->n; i++) {
		const struct candidate *c = &select->candidates[i];
		size_t name = find_named(c, select->options);

		if (name != SIZE_MAX && (!first[name] || c->recipe))
			first[name] = c;
	}
	for (size_t i = 0; i < named->names.n && !rc; i++) {
		const struct intern_entry *entry = &named->names.entries[i];

		if (!first[i])
			rc = err_set(err, ERR_INPUT,
				     "'%s' line %zu: '%.*s' is not a name of a tensor or a module "
				     "of '%s'",
				     named->path, named->lines[i].number, (int)entry->len,
				     named->names.keys.data + entry->offset,
				     select->checkpoint->path);
		else if (named->lines[i].recipe && !first[i]->recipe)
			notes_add(notes, NOTE_PATTERN_UNUSED, first[i]->source->tensor->name,
				  "line %zu of --tensors quantizes nothing: '%s' is kept (%s)",
				  named->lines[i].number, first[i]->source->tensor->name,
				  first[i]->reason);
	}
	free(first);
	return rc;
}

int select_patterns(const struct select *select, struct notes *notes, struct err *err)
{
	struct patterns patterns = { 0 };
	int rc = select->options->named ? check_named(select, notes, err) : 0;

	rc = rc ? rc : patterns_compile(&patterns, select->options, err);
	for (size_t p = 0; p < patterns.rules.n && !rc; p++)
		rc = note_pattern(select, &patterns.rules.list[p],
				  select->options->rules.list[p].recipe != NULL, notes, err);
	for (size_t p = 0; p < patterns.include.n && !rc; p++)
		rc = note_pattern(select, &patterns.include.list[p], true, notes, err);
	for (size_t p = 0; p < patterns.exclude.n && !rc; p++)
		rc = note_pattern(select, &patterns.exclude.list[p], false, notes, err);
	patterns_release(&patterns);
	return rc;
}
