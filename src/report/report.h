/* SPDX-License-Identifier: Apache-2.0
 *
 * The job `report`: what a release of a checkpoint says of itself, besides the values of its
 * tensors: the card of its source, the record of its conversion, the numbers of an evaluation and
 * of a calibration, and the directory that the report goes to.
 *
 * Order: report_open(); report_write(); report_release(), also after a failure.
 */
#ifndef FP8CONV_REPORT_REPORT_H
#define FP8CONV_REPORT_REPORT_H

#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "format/detect.h"
#include "report/card.h"
#include "report/evaluation.h"
#include "report/curves.h"
#include "report/kept.h"
#include "ckpt/outdir.h"

struct report_place {
	struct outdir dir;
	bool restart; /* replace files of others too */
};

struct report_params {
	const struct io *io;
	const char *source;   /* MODEL that the checkpoint was made of; NULL: not given */
	struct texts renames; /* of its tensors */
	const char *eval;     /* file of `eval --json`; NULL: none */
	struct benchmark_paths benchmarks;
	const char *calibration; /* amax file; NULL: none */
	const char *output;	 /* directory; NULL: nothing is written */
	const char *base_model;	 /* its name on a hub; NULL: found */
	bool restart;		 /* replace files of others */
	int n_threads;		 /* >= 1 */
};

struct report {
	struct report_place place; /* without output: not open */
	json_t *manifest;	   /* of the checkpoint's directory; NULL: none, or not readable */
	struct card card;	   /* of the source, as far as it is known */
	char *name;		   /* of the checkpoint: that of its directory */
	char *base_model;	   /* NULL: unknown */
	bool has_evaluation, has_curves;
	struct evaluation_file evaluation;
	struct benchmarks benchmarks; /* n 0: none */
	struct curves curves;
	struct kept_reasons kept;
};

/* Reads all files and checks that the output's may be written.  checkpoint and detection are
 * of the checkpoint to report on, and outlive report.  ERR_USAGE where the output has files of
 * others; ERR_INPUT for a file that is not what the option is for, and for an amax file of another
 * model than the source. */
int report_open(struct report *report, const struct report_params *params,
		const struct checkpoint *checkpoint, const struct detection *detection,
		struct err *err);

/* The two files. */
struct report_files {
	struct buf card, page;
};

/* Writes them, the card last. */
int report_write(const struct report *report, struct report_files *files, struct progress *progress,
		 struct err *err);
void report_release(struct report *report);

/* Returns the last part of a path that names something: "b" of "a/b/".  The caller frees it. */
char *report_base_name(const char *path);

#endif
