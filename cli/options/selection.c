/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/selection.h"

#include <stdlib.h>

#define PLACE(member) offsetof(struct selection_settings, member)

/* clang-format off */
const struct option_row selection_options[] = {
	{ SECTION_TENSORS, "include", 0, "RE", "Quantize only matching tensors", option_append,
	  PLACE(include) },
	{ SECTION_TENSORS, "exclude", 0, "RE", "Keep matching tensors in high precision",
	  option_append, PLACE(exclude) },
	{ SECTION_TENSORS, "tensor", 0, "RE=RECIPE",
	  "Set the recipe of matching tensors, or keep them (RE=skip); the last match wins",
	  option_append_rule, PLACE(rules) },
	{ SECTION_TENSORS, "profile", 0, PROFILE_WORDS,
	  "Follow the model family's release and engines (default), engines only, or no rule of a "
	  "family",
	  option_choice, PLACE(profile) },
	{ SECTION_TENSORS, "ragged", 0, NULL, "Allow partial blocks at the edges", option_flag,
	  PLACE(ragged) },
	{ SECTION_TENSORS, "requantize", 0, NULL, "Accept an FP8 or low-bit source", option_flag,
	  PLACE(requantize) },
	{ 0 },
};
/* clang-format on */

void selection_settings_take(const struct selection_settings *settings,
			     struct quantize_params *params)
{
	params->profile = (enum profile_level)settings->profile;
	params->select.include = settings->include.texts;
	params->select.n_include = settings->include.n;
	params->select.exclude = settings->exclude.texts;
	params->select.n_exclude = settings->exclude.n;
	params->select.rules = settings->rules.rules;
	params->select.n_rules = settings->rules.n;
	params->select.ragged = settings->ragged;
	params->select.requantize = settings->requantize;
}

void selection_settings_release(struct selection_settings *settings)
{
	for (size_t i = 0; i < settings->rules.n; i++)
		free((char *)settings->rules.rules[i].pattern);
	free(settings->rules.rules);
	free(settings->include.texts);
	free(settings->exclude.texts);
}
