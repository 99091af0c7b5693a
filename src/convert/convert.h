/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversion: plan, then execute.  Each command that writes a checkpoint makes its own plan
 * (quantize.h, dequantize.h, repack.h); --dry-run prints it.  convert_run() executes all plans, and
 * checks itself against the plan.
 *
 *    quantize_plan_make(&plan, ...)   or dequantize_plan_make(), repack_plan_make()
 *    convert_run(&plan, ...)
 *    plan_release(&plan)
 */
#ifndef FP8CONV_CONVERT_CONVERT_H
#define FP8CONV_CONVERT_CONVERT_H

#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "ckpt/manifest.h"
#include "convert/plan.h"
#include "quantizer/group.h"

enum on_nonfinite { NONFINITE_ERROR, NONFINITE_SATURATE, NONFINITE_SKIP };

#define NONFINITE_WORDS "error|saturate|skip"

/* Bytes for buffers without --max-memory. */
#define DEFAULT_MAX_MEMORY ((uint64_t)192 << 20)

/* The parameters of every conversion. */
struct convert_params {
	const struct io *io;
	const char *input;    /* MODEL, or "-" */
	const char *output;   /* OUT, or "-"; may be NULL for a dry run */
	const char *temp_dir; /* directory for spooled streams */
	const char *preserve; /* --preserve-high-precision DIR, or NULL */
	enum on_nonfinite on_nonfinite;

	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes for buffers; 0: the default, 192 MiB */
	uint64_t io_memory;  /* bytes of these that the I/O table uses */
	/* the ranks that share compensated rounding, of which the leading one writes; NULL: this
	 * process does all */
	const struct group *group;

	bool exact; /* --exact: change no value of a low-bit weight, or make nothing */
	bool restart;
	bool hashes; /* --manifest: SHA-256 of every input and output file */
	int part;    /* I of --part I/N, from 1; 0: everything */
	int n_parts;
	/* --part finish: write only index, config and auxiliary files, after every shard is
	 * there */
	bool part_finish;
};

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

/* The meanings of an output path: "-", a name that ends in .safetensors, or a directory. */
enum destination { DESTINATION_STREAM, DESTINATION_FILE, DESTINATION_DIRECTORY };
enum destination destination_of(const char *output);

/* Executes the plan: all or nothing for each file, index and config last.  *result also describes
 * the work done before a failure; figures.worst points into the plan.  Of several ranks all call
 * it; a failure is that of all, and *result is that of the leading one. */
int convert_run(const struct plan *plan, const struct convert_params *params,
		struct progress *progress, struct convert_result *result, struct err *err);

/* Adds notes on the place of an output directory to the plan's notes, before or after its
 * execution, and on files of the source that are not copied; all: names each of them. */
void output_notes_add(struct plan *plan, const struct convert_params *params, bool all);

#endif
