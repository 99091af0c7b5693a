/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out a plan.  Each command that writes a checkpoint makes its own (plan/quantize.h,
 * dequantize.h, repack.h); --dry-run prints it.  execute_plan() carries out all of them, and checks
 * itself against the plan.
 *
 *    quantize_plan_make(&plan, ...)   or dequantize_plan_make(), repack_plan_make()
 *    execute_plan(&plan, ...)
 *    plan_release(&plan)
 */
#ifndef FP8CONV_EXECUTE_EXECUTE_H
#define FP8CONV_EXECUTE_EXECUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "ckpt/manifest.h"
#include "plan/plan.h"
#include "ranks/group.h"

/* The effect of rounding on the weights of a shard, or of several. */
struct figures {
	uint64_t saturated; /* values beyond the largest code */
	uint64_t nonfinite; /* values that are NaN or inf */
	const char *worst; /* tensor with the lowest SQNR, in the plan; NULL: nothing was rounded */
	double worst_sqnr; /* dB */

	/* Of low-bit weights (exactness.h). */
	uint64_t n_changed;  /* elements whose code times scale is another value */
	size_t n_inexact;    /* weights that have some */
	const char *inexact; /* the first of them, in the plan; NULL: none */

	/* Of compensated rounding. */
	uint64_t n_compensated; /* codes */
	uint64_t n_moved;	/* of these, codes that are not the nearest */
};

/* Adds the figures of a shard to the sum. */
void figures_add(struct figures *sum, const struct figures *figures);

struct convert_result {
	/* figures are of the whole output; false if earlier runs or other parts wrote some of its
	 * files */
	bool has_figures;
	struct figures figures;
	/* of compensated rounding, if the plan asks for it and this run had shards to write */
	struct store_outcome rounding;
	uint64_t bytes;	     /* source bytes that this run converted */
	size_t stages_done;  /* of compensated rounding, whose codes are kept for the next run */
	size_t shards_done;  /* written by this run */
	size_t shards_found; /* finished by earlier runs */
	/* index and config are written: always, except for a part that was not the last one */
	bool complete;
};

/* Keeps the units of an unfinished plan that have non-finite values (NONFINITE_SKIP): one pass over
 * the weights.  Its caller settles the selection again. */
int execute_skip_nonfinite(struct plan *plan, const struct convert_params *params,
			   struct progress *progress, struct err *err);

/* Executes the plan: all or nothing for each file, index and config last.  *result also describes
 * the work done before a failure; figures.worst points into the plan.  Of several ranks all call
 * it; a failure is that of all, and *result is that of the leading one. */
int execute_plan(const struct plan *plan, const struct convert_params *params,
		 struct progress *progress, struct convert_result *result, struct err *err);

/* The loss of one quantized weight, over all of its values; zeroed where nothing was rounded. */
struct unit_loss {
	uint64_t n;	    /* values */
	uint64_t underflow; /* values other than zero whose code is zero */
	uint64_t overflow;  /* values beyond the largest code, as in struct quant_stats */
	struct error_stats error;
};

/* What a plan loses by rounding, weight by weight, without writing its output (TransformerEngine's
 * debug statistics, of weights): sets *losses to an array with one element for each of
 * plan.selection.units, which the caller frees.  Reads all weights that are quantized.  Else as
 * execute_plan(). */
int execute_losses(const struct plan *plan, const struct convert_params *params,
		   struct progress *progress, struct unit_loss **losses, struct err *err);

/* Adds notes on the place of an output directory to the plan's notes, before or after its
 * execution, and on files of the source that are not copied; all: names each of them. */
void output_notes_add(struct plan *plan, const struct convert_params *params, bool all);

#endif
