/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/selection.h"

#include "recipe/recipe.h"

#define PLACE(member) offsetof(struct recipe_tuning, member)

/* clang-format off */
const struct option_row rename_options[] = {
	{ SECTION_RUNNING, "rename", 0, "s/RE/NAME/[g]",
	  "Rename tensors of the source as sed does; may be repeated", option_append, 0 },
	{ 0 },
};

const struct option_row tuning_options[] = {
	{ SECTION_NUMBERS, "fp8-format", 0, FP8_FORMAT_WORDS,
	  "FP8 type of the codes (default e4m3)",
	  option_text, PLACE(fp8_format) },
	{ SECTION_NUMBERS, "scale-fmt", 0, "ue8m0|float", "Scales: powers of two, or any float",
	  option_text, PLACE(scale_fmt) },
	{ SECTION_NUMBERS, "scale-arith", 0, SCALE_ARITH_WORDS,
	  "Division rule for float scales (default te)", option_text, PLACE(scale_arith) },
	{ SECTION_NUMBERS, "mx-scale", 0, MX_RULE_WORDS,
	  "Rounding of MX exponents (default up)", option_text, PLACE(mx_scale) },
	{ SECTION_NUMBERS, "amax-epsilon", 0, "X", "Smallest amax (default 0)",
	  option_text, PLACE(amax_epsilon) },
	{ SECTION_NUMBERS, "margin", 0, "N", "Make scales 2^N smaller than necessary (default 0)",
	  option_text,
	  PLACE(margin) },
	{ 0 },
};

#undef PLACE
#define PLACE(member) offsetof(struct quantize_params, member)

const struct option_row selection_options[] = {
	{ SECTION_TENSORS, "include", 0, "RE", "Quantize only matching tensors", option_append,
	  PLACE(select.include) },
	{ SECTION_TENSORS, "exclude", 0, "RE", "Keep matching tensors in high precision",
	  option_append, PLACE(select.exclude) },
	{ SECTION_TENSORS, "tensor", 0, "RE=RECIPE",
	  "Set the recipe of matching tensors, or keep them (RE=skip); the last match wins",
	  option_append_rule, PLACE(select.rules) },
	{ SECTION_TENSORS, "profile", 0, PROFILE_WORDS,
	  "Follow the model family's release and engines (default), engines only, or no rule of a "
	  "family",
	  option_choice, PLACE(profile) },
	{ SECTION_TENSORS, "ragged", 0, NULL, "Allow partial blocks at the edges", option_flag,
	  PLACE(select.ragged) },
	{ SECTION_TENSORS, "requantize", 0, NULL, "Accept an FP8 or low-bit source", option_flag,
	  PLACE(select.requantize) },
	{ 0 },
};
/* clang-format on */
