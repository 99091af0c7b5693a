/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that decide which tensors are quantized, and by which recipe.
 */
#ifndef FP8CONV_CLI_OPTIONS_SELECTION_H
#define FP8CONV_CLI_OPTIONS_SELECTION_H

#include "cli/options/option.h"
#include "cli/options/values.h"
#include "plan/quantize.h"

/* The values of these options.  Begins zeroed.  Texts belong to argv. */
struct selection_settings {
	struct option_list include, exclude;
	struct option_rules rules;
	int profile; /* enum profile_level, in the order of the option's values */
	bool ragged, requantize;
};

/* A shared table, for a struct selection_settings. */
extern const struct option_row selection_options[];

/* Sets profile and the members of select that the options decide; both refer to settings. */
void selection_settings_take(const struct selection_settings *settings,
			     struct quantize_params *params);
void selection_settings_release(struct selection_settings *settings);

/* A shared table, for a struct recipe_tuning. */
extern const struct option_row tuning_options[];

#endif
