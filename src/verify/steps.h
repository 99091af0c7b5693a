/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of verify_run(), in their order.
 */
#ifndef FP8CONV_VERIFY_STEPS_H
#define FP8CONV_VERIFY_STEPS_H

#include <jansson.h>
#include <pthread.h>

#include "backend/backend.h"
#include "verify/arithmetic.h"
#include "base/intern.h"
#include "source/cut.h"
#include "source/source.h"
#include "verify/verify.h"
#include "model/config.h"
#include "model/role.h"

/* What was found in a weight's values; positions are those of the first, by row and column in one
 * number. */
struct scan {
	uint64_t n_scales;
	uint64_t n_bad, first_bad; /* scales that are zero, negative or not finite */
	float bad;
	uint64_t n_not_pow2, first_not_pow2;
	float not_pow2;
	uint64_t n_large;	   /* scales of the size that an inverted one has */
	float largest, smallest;   /* scale */
	uint64_t n_nan, first_nan; /* codes that are NaN or inf */
	uint64_t n_low, first_low; /* tiles whose largest code is far below the format's */
	float low;
	float most;	 /* the largest code */
	float any_scale; /* one of them: of a tensor with one, that one */

	/* Against the source. */
	uint64_t n_codes_off, first_code_off;
	uint64_t n_scales_off, first_scale_off;
	double signal, noise;
	double own_noise; /* that our own arithmetic would have made */
};

/* An FP8 weight with its scale. */
struct checked {
	/* how source_read_bytes() and source_scales() read it: rows of all experts on top of each
	 * other */
	struct unit unit;
	enum granularity granularity; /* of its scale */
	size_t group;		      /* of those that engines merge; SIZE_MAX: alone */
	int position;		      /* among them, from 0 */
	bool scanned;		      /* its scale has a shape that says what belongs to what */
	struct scan scan;
	const struct unit *origin; /* in the source; NULL: not compared */
	bool unlike;		   /* the recipe that was given makes no such codes or scales */
	float amax;		   /* of the source, where one scale is a whole tensor's */
};

/* One worker's memory for a cut, whose weight is an index in verify.weights. */
struct desk {
	void *memory;
	uint8_t *codes, *expected;
	struct source_buffers source;
	char *expected_scales;
};

struct origins;

struct verify {
	const struct verify_params *params;
	struct verification *result;
	const struct checkpoint *checkpoint;
	const struct detection *detection;
	struct progress *progress;
	const struct backend *backend;
	enum engine target;
	const struct format *format; /* of the detected name; NULL: another tool's, or none */
	struct model_config model;
	json_t *hf_quant_config;    /* NULL: there is none */
	json_t *manifest;	    /* of ours; NULL: there is none */
	struct arithmetic recorded; /* what the manifest says; no name: nothing */
	struct arithmetic given;    /* --recipe; no name: none was */
	/* the list of modules that stay in high precision; NULL: the configuration has none */
	const json_t *skipped;
	struct checked *weights; /* in the order of names */
	size_t n_weights;
	struct intern groups;
	struct source files;	 /* of the checkpoint */
	struct origins *origins; /* of --source; NULL: none */
	pthread_mutex_t lock;	 /* of scans */
	float usual_scale;	 /* the median of the weights' largest ones */
	bool mostly_large;	 /* most weights have scales that look inverted */
	struct desk *desks;	 /* by worker */
};

/* The name of the file that a tensor lies in. */
const char *verify_file(const struct verify *verify, const struct tensor_ref *ref);

/* "X" of "X.weight", or the name itself: to be freed. */
char *verify_module(const char *weight);

/* verify_record.c: fills verify->manifest, verify->recorded and verify->given.  ERR_USAGE: no such
 * recipe, or not with such numbers. */
int verify_record(struct verify *verify, struct err *err);

/* verify_manifest.c: every file against the manifest.  ERR_INPUT where that has no SHA-256 of
 * them. */
int verify_manifest(struct verify *verify, struct err *err);

/* verify_config.c: the configuration by itself, and against the weights. */
void verify_config(struct verify *verify);

/* Whether the configuration says that a module stays in high precision. */
bool config_skips(const struct verify *verify, const char *module);

/* The entry of a list of modules is the module, one above it, a pattern, or (as transformers reads
 * it) the end of its path. */
bool config_entry_matches(const char *entry, const char *module);

/* verify_groups.c: what the configuration says of a module's weight; where it has not several
 * groups, what is detected. */
struct scheme verify_scheme(const struct verify *verify, const char *module);

/* verify_tensors.c: names, types and shapes; fills verify->weights. */
void verify_tensors(struct verify *verify);

/* verify_tp.c: whether weights can be cut as --tp asks. */
void verify_tp(struct verify *verify);

/* verify_pieces.c: all cuts of the weights, in their order; ERR_USAGE where --max-memory is too
 * little for them. */
void verify_cut(const struct verify *verify, struct cuts *cuts);
int desks_new(struct desk **desks, const struct verify *verify, struct err *err);
void desks_free(struct desk *desks, int n_workers);

/* verify_scan.c: what scales and codes show by themselves; found: added to. */
void scan_piece(const struct verify *verify, const struct cut *cut, const uint8_t *codes,
		const void *scales, struct scan *found);
void scan_merge(struct scan *into, const struct scan *from);

/* The largest magnitude of codes (n_rows, n_cols), stride apart. */
uint8_t codes_max(const uint8_t *codes, uint64_t n_rows, uint64_t n_cols, uint64_t stride);

/* verify_values.c: every scale and code; against the source where there is one. */
int verify_values(struct verify *verify, struct err *err);

/* The codes of a cut. */
int read_codes(struct verify *verify, const struct cut *cut, uint8_t *codes, struct err *err);

/* verify_tell.c: problems out of what was found. */
void verify_tell(struct verify *verify);
enum fp8_format weight_format(const struct checked *weight);

/* A tile whose largest code is below it wastes bits, unless its scale is not above a floor that
 * amax was raised to. */
float verify_low_code(const struct verify *verify, enum fp8_format format);
float verify_floor_scale(const struct verify *verify);

/* verify_source.c: finds what each weight was made from, which arithmetic made it, and compares
 * what was only copied. */
int verify_origins(struct verify *verify, const struct cuts *cuts, struct err *err);

/* Whether there is another arithmetic that fitted what was tried of such weights just as well; goes
 * on to it, and then to the best one: it is, or that of before. */
bool verify_has_trials(const struct verify *verify, enum granularity granularity);
void verify_next_trial(struct verify *verify, enum granularity granularity);
void verify_end_trial(struct verify *verify, enum granularity granularity, bool better);

/* Whether what made weights of that granularity is what fp8conv itself would have used. */
bool verify_is_own(const struct verify *verify, enum granularity granularity);

/* Whether an arithmetic is known that makes weights of that granularity. */
bool verify_knows_arithmetic(const struct verify *verify, enum granularity granularity);

/* The names of all that made weights, to be freed; NULL: some weights were made by none that is
 * known. */
char *verify_arithmetic_names(const struct verify *verify);

/* ERR_INPUT if the source was changed meanwhile. */
int verify_origins_close(struct verify *verify, struct err *err);
void verify_origins_release(struct verify *verify);

/* verify_compare.c: compares a cut, whose codes and scales were read; found: added to. */
int compare_piece(struct verify *verify, struct desk *desk, const struct cut *cut,
		  const void *scales, struct scan *found, struct err *err);

#endif
