/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that change the numbers of a recipe.
 */
#ifndef FP8CONV_CLI_OPTIONS_RECIPE_H
#define FP8CONV_CLI_OPTIONS_RECIPE_H

#include "cli/options/option.h"

/* A shared table, for a struct recipe_tuning. */
extern const struct option_row tuning_options[];

#endif
