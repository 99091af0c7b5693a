/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversion: plan, then execute.  Each command that writes a checkpoint makes a plan in its own
 * way (quantize.h, dequantize.h, repack.h); --dry-run prints it; all are executed here, and the
 * execution checks itself against the plan.
 *
 *     quantize_plan_make(&plan, ...)   or dequantize_plan_make(), repack_plan_make()
 *     convert_run(&plan, ...)
 *     plan_release(&plan)
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

enum on_nonfinite { NONFINITE_ERROR, NONFINITE_SATURATE, NONFINITE_SKIP };

#define NONFINITE_WORDS "error|saturate|skip"

/* What all conversions are asked. */
struct convert_params {
	const struct io *io;
	const char *input;    /* MODEL, or "-" */
	const char *output;   /* OUT, or "-"; NULL with dry_run is allowed */
	const char *temp_dir; /* where streams are spooled */
	const char *preserve; /* --preserve-high-precision DIR, or NULL */
	enum on_nonfinite on_nonfinite;

	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes for buffers; 0 is the default, 192 MiB */

	bool restart;
	bool hashes; /* --manifest: SHA-256 of every input and output file */
	int part;    /* I of --part I/N, from 1; 0: everything */
	int n_parts;
	/* --part finish: only index, config and auxiliary files, once every shard is there */
	bool part_finish;
};

/* What rounding did to the weights of a shard, or of several. */
struct figures {
	uint64_t saturated; /* values */
	uint64_t nonfinite;
	const char *worst; /* tensor of the lowest SQNR, its owner's; NULL: nothing was rounded */
	double worst_sqnr; /* dB */
};

struct convert_result {
	/* whether figures are of the whole output: not if earlier runs, or other parts, wrote some
	 * of its files */
	bool has_figures;
	struct figures figures;
	uint64_t bytes;	     /* of the source, that this run went through */
	size_t shards_done;  /* written by this run */
	size_t shards_found; /* finished before */
	/* index and config are there: always, except for a part that was not the last */
	bool complete;
};

/* What an output path means: "-", a name that ends in .safetensors, or a directory. */
enum destination { DESTINATION_STREAM, DESTINATION_FILE, DESTINATION_DIRECTORY };
enum destination destination_of(const char *output);

/* Executes the plan: all or nothing per file, index and config last.  *result is as far as the run
 * came, also on failure; figures.worst is the plan's. */
int convert_run(const struct plan *plan, const struct convert_params *params,
		struct progress *progress, struct convert_result *result, struct err *err);

#endif
