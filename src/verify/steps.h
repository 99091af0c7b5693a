/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of verify_run(), in their order:
 *
 *	recorded_read()		what the manifest, or the user, says of the numbers
 *	verify_config()		the configuration
 *	verify_tensors()	names, types, shapes; lists the weights
 *	verify_tp()		whether they can be cut as --tp asks
 *	verify_values()		every scale and code; with --source, against it
 *	diagnose()		problems out of what the values showed
 *	verify_manifest()	files against the manifest
 */
#ifndef FP8CONV_VERIFY_STEPS_H
#define FP8CONV_VERIFY_STEPS_H

#include <jansson.h>
#include <pthread.h>

#include "backend/backend.h"
#include "base/intern.h"
#include "model/config.h"
#include "model/role.h"
#include "source/source.h"
#include "verify/arithmetic.h"
#include "verify/scan.h"
#include "verify/verify.h"

/* What was opened, and does not change after recorded_read(). */
struct verify_opened {
	const struct checkpoint *checkpoint;
	const struct detection *detection;
	const struct format *format; /* of the detected name; NULL: another tool's, or none */
	enum engine target;
	struct model_config model;
	json_t *hf_quant_config;    /* NULL: there is none */
	json_t *manifest;	    /* of ours; NULL: there is none */
	const json_t *kept;	    /* the list of modules in high precision; NULL: there is none */
	struct arithmetic recorded; /* what the manifest says; no name: nothing */
	struct arithmetic given;    /* --recipe; no name: none was */
};

/* An FP8 weight with its scale. */
struct verify_weight {
	/* How source_read_bytes() and source_scales() read it: rows of all experts on top of each
	 * other. */
	struct unit unit;
	enum granularity granularity; /* of its scale */
	size_t fused_set;	      /* SIZE_MAX: engines do not merge it */
	int fused_position;	      /* in the set, from 0 */
	bool scanned;		      /* its scale has a shape that says what belongs to what */
	struct scan scan;
	const struct unit *origin; /* in the source; NULL: not compared */
	bool unlike;		   /* the recipe that was given makes no such codes or scales */
	float amax;		   /* of the source, where one scale is a whole tensor's */
};

/* What is to be read; filled by verify_tensors(). */
struct verify_weights {
	struct verify_weight *list; /* in the order of names */
	size_t n;
	struct intern fused_sets; /* names and numbers of what engines merge */
};

struct origin;
struct verify_worker;

/* What reading values takes. */
struct verify_run {
	const struct backend *backend;
	struct source files;   /* of the checkpoint */
	struct origin *origin; /* of --source; NULL: none */
	pthread_mutex_t lock;  /* of scans */
	struct verify_worker *workers;
};

struct verify {
	const struct verify_params *params;
	struct verification *result; /* problems are added to it */
	struct progress *progress;
	struct verify_opened opened;
	struct verify_weights weights;
	struct verify_run run;
};

/* The name of the file that a tensor lies in. */
const char *verify_file(const struct verify *verify, const struct tensor_ref *ref);

/* "X" of "X.weight", or the name itself: to be freed. */
char *verify_module(const char *weight);

/* Fills opened.manifest, .recorded and .given.  ERR_USAGE: no such recipe, or not with such
 * numbers. */
int recorded_read(struct verify *verify, struct err *err);

/* The configuration by itself, and against the weights. */
void verify_config(struct verify *verify);

/* Whether the configuration says that a module stays in high precision. */
bool config_skips(const struct verify *verify, const char *module);

/* Whether an entry of a list of modules names this one: it is the module, one above it, a pattern,
 * or (as transformers reads it) the end of its path. */
bool config_entry_matches(const char *entry, const char *module);

/* What the configuration says of a module's weight; where it has not several groups, what is
 * detected. */
struct scheme verify_scheme(const struct verify *verify, const char *module);

/* Names, types and shapes; fills verify->weights. */
void verify_tensors(struct verify *verify);

/* Whether weights can be cut as --tp asks. */
void verify_tp(struct verify *verify);

/* Every scale and code; against the source where there is one. */
int verify_values(struct verify *verify, struct err *err);

/* Reads the codes of a cut. */
int values_read_codes(struct verify *verify, const struct cut *cut, uint8_t *codes,
		      struct err *err);

/* Static scales of inputs: those of the first and third matrix of an expert. */
int verify_inputs(struct verify *verify, struct err *err);

/* Adds problems out of what the values of each weight showed. */
void diagnose(struct verify *verify);

/* A tile whose largest code is below the first value wastes bits, unless its scale is not above the
 * second, a floor that its amax was raised to. */
float diagnose_low_code(const struct verify *verify, enum fp8_format format);
float diagnose_floor_scale(const struct verify *verify);

enum fp8_format verify_weight_format(const struct verify_weight *weight);

/* Every file against the manifest.  ERR_INPUT where that has no SHA-256 of them. */
int verify_manifest(struct verify *verify, struct err *err);

#endif
