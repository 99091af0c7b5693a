/* SPDX-License-Identifier: Apache-2.0
 *
 * The plan of `fp8conv quantize` for a caller in this process.
 */
#ifndef FP8CONV_CLI_QUANTIZE_H
#define FP8CONV_CLI_QUANTIZE_H

#include "plan/plan.h"

/* Makes the plan that the words of a command line ask for, as quantize_plan_make() does: argv[0] is
 * "quantize", options and one MODEL follow.  No option may be one of a run: --help, --dry-run.
 * params has the I/O table, backend and threads, and gets what the words say.  Texts of params
 * belong to argv. */
int quantize_plan_words(struct plan *plan, struct convert_params *params, int argc, char **argv,
			struct err *err);

#endif
