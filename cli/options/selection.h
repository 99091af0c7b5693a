/* SPDX-License-Identifier: Apache-2.0
 *
 * The options that decide which tensors are quantized, and by which recipe.
 */
#ifndef FP8CONV_CLI_OPTIONS_SELECTION_H
#define FP8CONV_CLI_OPTIONS_SELECTION_H

#include "cli/options/option.h"
#include "cli/options/values.h"
#include "plan/quantize.h"

/* A shared table, for a struct quantize_params: profile, and members of select. */
extern const struct option_row selection_options[];

/* A shared table, for a struct texts: --rename. */
extern const struct option_row rename_options[];

/* A shared table, for a struct recipe_tuning. */
extern const struct option_row tuning_options[];

#endif
