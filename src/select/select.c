/* SPDX-License-Identifier: Apache-2.0 */
#include "select/select.h"

#include <stdlib.h>

#include "base/sort.h"
#include "select/steps.h"

#define NAME(kind, name) [kind] = (name),

static const char *const names[N_NOTE_KINDS] = { NOTES(NAME) };

const char *note_kind_name(enum note_kind kind)
{
	return names[kind];
}

void notes_add(struct notes *notes, enum note_kind kind, const char *tensor, const char *format,
	       ...)
{
	struct note note = { .kind = kind, .tensor = tensor ? xstrdup(tensor) : NULL };
	size_t at = notes->n;
	va_list args;

	va_start(args, format);
	note.message = xvasprintf(format, args);
	va_end(args);
	text_sanitize(note.message);
	ARRAY_GROW(notes->list, notes->n);
	for (; at && notes->list[at - 1].kind > kind; at--)
		notes->list[at] = notes->list[at - 1];
	notes->list[at] = note;
	notes->n++;
}

void notes_release(struct notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		free(notes->list[i].tensor);
		free(notes->list[i].message);
	}
	free(notes->list);
	*notes = (struct notes){ 0 };
}

void candidate_keep(struct candidate *candidate, const char *format, ...)
{
	va_list args;

	if (!candidate->recipe)
		return;
	candidate->recipe = NULL;
	va_start(args, format);
	candidate->reason = xvasprintf(format, args);
	va_end(args);
}

COMPARISON(compare_places, struct candidate,
	   ORDER(x->source->shard, y->source->shard)
		   ?: ORDER(x->source->tensor->begin, y->source->tensor->begin)
		   ?: ORDER(x->source->tensor->end, y->source->tensor->end))

struct candidate *candidate_find(const struct select *select, const struct tensor_ref *ref)
{
	const struct candidate key = { .source = ref };

	return bsearch(&key, select->candidates, select->n, sizeof key, compare_places);
}

bool candidate_is_fused(const struct candidate *candidate)
{
	enum role role = candidate->facts.role;

	return role == ROLE_EXPERTS_GATE_UP || role == ROLE_EXPERTS_DOWN;
}

bool candidate_is_table(const struct candidate *candidate)
{
	const struct profile_row *row = candidate->profile.row;

	return candidate->recipe && row && row->action == PROFILE_TABLE;
}

const struct candidate *candidate_experts(const struct select *select, const struct candidate *c)
{
	if (c->bias_of != NONE)
		c = &select->candidates[c->bias_of];
	return c->recipe && c->layout ? c : NULL;
}

size_t candidate_n_units(const struct select *select, const struct candidate *c)
{
	const struct candidate *experts = candidate_experts(select, c);

	if (!experts)
		return 1;
	return experts->layout->n_experts * (experts->facts.role == ROLE_EXPERTS_DOWN ? 1 : 2);
}

static void select_release(struct select *select)
{
	for (size_t i = 0; i < select->n; i++) {
		free(select->candidates[i].reason);
		free(select->candidates[i].layout);
	}
	free(select->candidates);
	free(select->scales);
	free(select->first_in_fused_set);
	free(select->first_in_joint_set);
	intern_release(&select->sets);
	model_config_release(&select->config);
}

/* Returns the conditions that the rows of a profile ask for. */
static unsigned conditions(const struct select_options *options)
{
	struct scheme scheme = scheme_from_qspec(&options->recipe->weight, false);
	const struct format *format = options->format;
	struct err ignored;

	if (!format)
		format = format_select(NULL, options->target, &scheme, options->recipe->name,
				       &ignored);
	return format ? profile_conditions(format, &scheme, options->target) : 0;
}

int selection_make(struct selection *selection, const struct checkpoint *checkpoint,
		   const struct select_options *options, struct err *err)
{
	struct select select = { .checkpoint = checkpoint,
				 .options = options,
				 .low_bit = &selection->low_bit };
	int rc = -1;

	*selection = (struct selection){ .writes_nothing = options->writes_nothing };
	if (model_config_read(&select.config, &checkpoint->config, err)) {
		err_wrap(err, "'%s'", checkpoint->path);
		goto out;
	}
	select.on = conditions(options);
	if (low_bit_find(&selection->low_bit, checkpoint, err) || select_gather(&select, err))
		goto out;
	select_layers(&select);
	if (select_experts(&select, err) || select_stacks(&select, err) ||
	    select_shapes(&select, err) || select_check_scales(&select, err) ||
	    select_patterns(&select, &selection->notes, err))
		goto out;
	if (options->advise)
		select_advice(&select, &selection->notes);
	if (select_units(&select, selection, err) || select_tp(&select, selection, err))
		goto out;
	rc = 0;
out:
	select_release(&select);
	if (rc)
		selection_release(selection);
	return rc;
}

void selection_make_all(struct selection *selection, const struct checkpoint *checkpoint)
{
	struct err ignored;
	struct model_config config;
	struct profile profile;
	struct select_options options = { .recipe = recipe_find("channelwise", &ignored),
					  .requantize = true,
					  .profile = &profile };

	*selection = (struct selection){ 0 };
	if (model_config_read(&config, &checkpoint->config, &ignored))
		return;
	profile_make(&profile, &config, PROFILE_ENGINE);
	if (selection_make(selection, checkpoint, &options, &ignored))
		*selection = (struct selection){ 0 };
	profile_release(&profile);
	model_config_release(&config);
}

size_t selection_shard_begin(const struct selection *selection, size_t shard)
{
	size_t begin;

	SEARCH(begin, selection->n_units, selection->units[begin].source->shard < shard);
	return begin;
}
