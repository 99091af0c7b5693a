/* SPDX-License-Identifier: Apache-2.0 */
#include "report/kept.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/words.h"
#include "names/role.h"
#include "select/select.h"
#include "source/fp8_source.h"

/* Reasons of tensors that `quantize` would have taken: by its manifest, or without one. */
static const char unrecorded[] = "kept for a reason that the manifest does not record";
static const char listed[] = "by its author's list";
static const char foreign[] = "chosen by its author";
static const char passed[] = "in 4 bits, as in the source";

/* The options of a manifest, for the selection. */
struct recorded_options {
	struct select_options select;
	struct profile profile;
};

static void take_texts(struct texts *texts, const json_t *list)
{
	const json_t *item;
	size_t i;

	texts->list = xcalloc(json_array_size(list), sizeof *texts->list);
	json_array_foreach(list, i, item)
	{
		if (json_string_value(item))
			texts->list[texts->n++] = json_string_value(item);
	}
}

/* Takes rules "RE=RECIPE" and "RE=skip". */
static void take_rules(struct select_rules *rules, const json_t *list, struct arena *texts)
{
	struct err ignored;
	const json_t *item;
	size_t i;

	rules->list = xcalloc(json_array_size(list), sizeof *rules->list);
	json_array_foreach(list, i, item)
	{
		const char *text = json_string_value(item);
		const char *equals = text ? strrchr(text, '=') : NULL;

		if (!equals)
			continue;
		rules->list[rules->n++] = (struct select_rule){
			.pattern = arena_text(texts, text, (size_t)(equals - text)),
			.recipe = strcmp(equals + 1, "skip") != 0
					  ? recipe_find(equals + 1, &ignored)
					  : NULL,
		};
	}
}

static void take_options(struct recorded_options *recorded, const json_t *options,
			 struct arena *texts)
{
	struct select_options *select = &recorded->select;
	struct err ignored;

	take_texts(&select->include, json_object_get(options, "include"));
	take_texts(&select->exclude, json_object_get(options, "exclude"));
	take_rules(&select->rules, json_object_get(options, "tensor"), texts);
	select->ragged = json_is_true(json_object_get(options, "ragged"));
	if (engine_find(json_member_text(options, "target"), &select->target, &ignored))
		select->target = ENGINE_ANY;
	select->format = format_find(json_member_text(options, "format"));
}

static void take_profile(struct recorded_options *recorded, const struct checkpoint *checkpoint,
			 const json_t *options)
{
	int level = words_find(PROFILE_WORDS, json_member_text(options, "profile"));
	struct model_config config;
	struct err ignored;

	if (model_config_read(&config, &checkpoint->config, &ignored))
		return;
	profile_make(&recorded->profile, &config,
		     level < 0 ? PROFILE_VENDOR : (enum profile_level)level);
	recorded->select.profile = &recorded->profile;
	model_config_release(&config);
}

/* --- reasons --- */

/* Gives each tensor the reason of its unit. */
static void take_reasons(struct kept_reasons *kept, const struct checkpoint *checkpoint,
			 const struct selection *selection, const char *otherwise)
{
	for (size_t u = 0; u < selection->n_units; u++) {
		const struct unit *unit = &selection->units[u];
		const struct tensor_ref *ref = unit->low_bit ? unit->low_bit->packed : unit->source;
		size_t t = low_bit_index(checkpoint, ref);
		const char *reason = unit->low_bit  ? passed
				     : unit->reason ? arena_text(&kept->texts, unit->reason,
								 strlen(unit->reason))
						    : otherwise;

		if (!kept->reasons[t] && !dtype_is_any_fp8(ref->tensor->dtype))
			kept->reasons[t] = reason;
	}
}

/* Finds an FP8 weight that the engines do not load even on one device. */
static void take_obstacle(struct kept_reasons *kept, const struct selection *selection)
{
	struct buf said = { 0 };

	for (size_t u = 0; u < selection->n_units && !kept->obstacle; u++) {
		const struct unit *unit = &selection->units[u];

		if (!unit->recipe || !unit->obstacle ||
		    !dtype_is_any_fp8(unit->source->tensor->dtype))
			continue;
		buf_printf(&said, "%s: ", unit->name);
		selection_put_obstacle(&said, unit);
		kept->obstacle = arena_text(&kept->texts, said.data, said.len);
	}
	buf_release(&said);
}

/* For a checkpoint of which no selection can be made. */
static void take_roles(struct kept_reasons *kept, const struct checkpoint *checkpoint,
		       const struct detection *detection)
{
	struct role_cache roles = { 0 };

	for (size_t t = 0; t < checkpoint->n_tensors; t++) {
		const struct tensor_ref *ref = &checkpoint->tensors[t];

		if (!detection_is_scale(detection, ref) && !detection_is_weight(ref))
			kept->reasons[t] =
				role_reason(role_cache_find(&roles, ref->tensor->name).role);
	}
	role_cache_release(&roles);
}

/* Has the job a list of --tensors, or a choice by the option --keep of earlier versions? */
static bool is_listed(const json_t *options)
{
	return json_object_get(options, "tensors") || json_object_get(options, "keep");
}

void kept_find(struct kept_reasons *kept, const struct checkpoint *checkpoint,
	       const struct detection *detection, const json_t *options)
{
	const char *name =
		options ? json_member_text(options, "recipe") : fp8_source_recipe(detection);
	struct recorded_options recorded = { .select.requantize = true };
	struct selection selection = { 0 };
	struct err ignored;

	*kept = (struct kept_reasons){ .reasons = xcalloc(checkpoint->n_tensors,
							  sizeof *kept->reasons) };
	recorded.select.recipe = name ? recipe_find(name, &ignored) : NULL;
	take_options(&recorded, options, &kept->texts);
	take_profile(&recorded, checkpoint, options);
	if (recorded.select.recipe &&
	    !selection_make(&selection, checkpoint, &recorded.select, &ignored)) {
		take_reasons(kept, checkpoint, &selection,
			     !options		  ? foreign
			     : is_listed(options) ? listed
						  : unrecorded);
		take_obstacle(kept, &selection);
	} else {
		take_roles(kept, checkpoint, detection);
	}
	selection_release(&selection);
	profile_release(&recorded.profile);
	free(recorded.select.include.list);
	free(recorded.select.exclude.list);
	free(recorded.select.rules.list);
}

void kept_release(struct kept_reasons *kept)
{
	free(kept->reasons);
	arena_release(&kept->texts);
	*kept = (struct kept_reasons){ 0 };
}
