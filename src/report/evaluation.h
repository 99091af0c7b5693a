/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of `fp8conv eval --json`, read back, and the results that lm-evaluation-harness writes.
 */
#ifndef FP8CONV_REPORT_EVALUATION_H
#define FP8CONV_REPORT_EVALUATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/err.h"
#include "base/io.h"
#include "eval/quality.h"

/* The ratio of what a module of --by-layer makes of the source's input, or of the residual stream
 * behind a layer: dB; NAN where unknown. */
struct measured_module {
	const char *name; /* NULL: the residual stream */
	uint64_t layer;
	double sqnr;
};

#define EVALUATION_MAX_DATA 16

struct evaluation_file {
	bool compared; /* with the source; without it only the perplexity is known */
	struct estimate of[N_QUALITY]; /* NAN where the file does not have it */
	uint64_t tokens, sequences, seq_len;
	char data_sha256[65];
	/* texts of the file; NULL where missing */
	const char *precision, *activations, *model, *source;
	const char *data[EVALUATION_MAX_DATA]; /* names of files: the first ones */
	size_t n_data, n_more_data;
	size_t n_modules;
	struct measured_module *modules; /* by layer, as in the file */
	json_t *json;			 /* has the texts */
};

#define EVALUATION_LIMIT ((size_t)64 << 20) /* bytes of the file */

/* Reads the file.  ERR_INPUT where it is not of `fp8conv eval --json`.  The caller releases
 * evaluation, also on failure. */
int evaluation_read(struct evaluation_file *evaluation, const struct io *io, const char *path,
		    struct err *err);

/* The same for a text; path is for messages. */
int evaluation_parse(struct evaluation_file *evaluation, const char *text, size_t n,
		     const char *path, struct err *err);
void evaluation_release(struct evaluation_file *evaluation);

/* --- benchmarks --- */

/* A metric of a task.  The texts are of the files. */
struct benchmark {
	const char *task;
	const char *metric;	  /* with its filter: "exact_match,strict-match" */
	json_int_t shots;	  /* -1: unknown */
	double value, se;	  /* of the checkpoint; NAN: unknown */
	double source, source_se; /* of its source; NAN: unknown */
	double recovery;	  /* %; NAN: unknown */
};

#define BENCHMARKS_MAX 256

struct benchmarks {
	size_t n, n_more; /* the first ones, and how many are left out */
	struct benchmark *list;
	const char *model; /* that the first file is of; NULL: it does not say */
	size_t n_files;
	json_t **files; /* have the texts */
};

/* Paths of results_*.json of lm_eval: of a checkpoint, then of its source. */
struct benchmark_paths {
	const char *const *own, *const *source;
	size_t n_own, n_source;
};

/* Reads the files.  A task of a group with a mean of its own is left out.  ERR_INPUT where a file
 * is none of lm_eval, two have one task, or a task was not measured alike.  The caller releases
 * benchmarks, also on failure.  Source: lm_eval/loggers/evaluation_tracker.py of lm-eval 0.4.13. */
int benchmarks_read(struct benchmarks *benchmarks, const struct io *io,
		    const struct benchmark_paths *paths, struct err *err);
void benchmarks_release(struct benchmarks *benchmarks);

#endif
