/* SPDX-License-Identifier: Apache-2.0
 *
 * The steps of verify_run(), in their order:
 *
 *	recorded_read()		reads the recipe from the manifest or the options
 *	verify_files()		checks that there is FP8, and nothing else beside it
 *	verify_config()		checks the configuration
 *	verify_tensors()	checks names, types and shapes; lists the weights
 *	verify_missing()	checks that nothing is missing
 *	verify_caches()		checks the scales of KV caches
 *	verify_target()	checks what the target does not load
 *	verify_tp()		checks that the weights can be split as --tp or --target requires
 *	verify_values()		reads every value; with --source, compares; sums what a
 *				manifest records
 *	diagnose()		makes problems from the findings in the values
 *	verify_manifest()	checks files against the manifest
 *	verify_companions()	compares config.json and the copied files with the source's
 */
#ifndef FP8CONV_VERIFY_STEPS_H
#define FP8CONV_VERIFY_STEPS_H

#include <jansson.h>
#include <pthread.h>

#include "backend/backend.h"
#include "base/intern.h"
#include "format/part_set.h"
#include "format/low_bit.h"
#include "model/config.h"
#include "model/role_cache.h"
#include "select/profile.h"
#include "source/source.h"
#include "verify/arithmetic.h"
#include "verify/scan.h"
#include "verify/sums.h"
#include "verify/verify.h"
#include "verify/zeros.h"

/* The opened checkpoint, which does not change after recorded_read(). */
struct verify_opened {
	const struct checkpoint *checkpoint;
	const struct detection *detection;
	const struct format *format; /* of the detected name; NULL: not one of ours */
	bool declared;		     /* a configuration says FP8 */
	enum engine target;
	struct model_config model;
	json_t *hf_quant_config;    /* NULL: missing */
	json_t *manifest;	    /* fp8conv's; NULL: missing */
	bool compensated;	    /* the manifest says: codes are not the nearest */
	struct arithmetic recorded; /* in the manifest; no name: not recorded */
	struct arithmetic given;    /* by --recipe; no name: not given */
};

/* A group of modules with one scheme. */
struct verify_group {
	const json_t *group;
	struct skip_match *targets; /* names and patterns */
	bool all;		    /* has all modules that no other group names */
};

/* What the configuration says of modules.  lists_read() fills it. */
struct verify_lists {
	const json_t *kept;	    /* the list of modules in high precision; NULL: missing */
	struct skip_match *skipped; /* its entries */
	struct skip_match *renamed; /* the same, asked for names of engines */
	struct skip_match *bare; /* regular expressions without "re:", as transformers has them */
	char **bare_texts;
	size_t n_bare;
	struct skip_match *patterns; /* those that are regular expressions */
	struct part_set entries;     /* all, for whole names */
	struct skip_match *tables;   /* embeddings in FP8 */
	const json_t *layer_list;    /* all quantized modules, by name; NULL: missing */
	struct skip_match *layers;   /* these names */
	bool chosen;		     /* modules that no group has are in high precision */
	size_t n_groups;
	struct verify_group *groups;
	bool *fp8_groups;	 /* of each group: it has FP8 weights */
	struct intern conflicts; /* entries that are reported already */
	struct intern experts;	 /* prefixes of experts in high precision */
	/* what engines do by themselves with modules of the model's family */
	const struct format *format; /* of the configuration; NULL: not one of ours */
	struct profile profile;
	unsigned on; /* conditions that its rows may have */
};

/* An FP8 weight with its scale; of a tensor with several experts, one of them. */
struct verify_weight {
	struct unit unit;	      /* its slice begins where the matrix begins in its tensor */
	uint64_t first_scale;	      /* in the tensor of scales */
	enum granularity granularity; /* of its scale */
	size_t fused_set;	      /* SIZE_MAX: engines do not merge it */
	int fused_position;	      /* in the set, from 0 */
	bool scanned;		      /* its scale fits a tiling */
	struct scan scan;
	const struct unit *origin; /* in the source; NULL: not compared */
	bool unlike;		   /* the given recipe makes other tiles or types */
	float amax;		   /* of the source, for a weight with one scale */
};

/* The weights to read; verify_tensors() fills it. */
struct verify_weights {
	struct verify_weight *list; /* in the order of names */
	size_t n;
	struct intern fused_sets; /* names and numbers of fused sets */
};

struct origin;
struct skip_match;
struct verify_worker;

/* The means to read values. */
struct verify_run {
	const struct backend *backend;
	struct source files;   /* of the checkpoint */
	struct origin *origin; /* of --source; NULL: not given */
	pthread_mutex_t lock;  /* of scans */
	struct zero_scales zero_scales;
	struct sums sums; /* of the files */
	struct verify_worker *workers;
};

/* Scales that the target looks for under other names. */
struct verify_misnamed {
	size_t n;
	const struct tensor_ref *found; /* the first one */
	char *wanted;
};

struct verify {
	const struct verify_params *params;
	struct verification *result; /* problems are added to it */
	struct progress *progress;
	struct verify_opened opened;
	struct verify_lists lists;
	struct low_bit low_bit; /* weights of 4 bits */
	struct verify_weights weights;
	struct verify_run run;
	struct role_cache roles; /* of tensors */
	struct verify_misnamed misnamed;
};

/* Returns the number of weights of the same tensor from weight w on. */
size_t verify_weight_run(const struct verify *verify, size_t w);

/* Returns the name of the file that has the tensor. */
const char *verify_file(const struct verify *verify, const struct tensor_ref *ref);

/* Returns "X" for "X.weight", and a copy of other names.  The caller frees it. */
char *verify_module(const char *weight);

/* Fills opened.manifest, .recorded and .given.  ERR_USAGE for an unknown recipe or tuning that it
 * does not support. */
int recorded_read(struct verify *verify, struct err *err);

/* Reports a checkpoint without FP8 weights, and weight files beside it. */
int verify_files(struct verify *verify, struct err *err);

/* Sets opened.declared: from the detection, or from params.json, which Mistral's own files have. */
int config_declares(struct verify *verify, struct err *err);

/* Checks the configuration by itself and against the weights. */
void verify_config(struct verify *verify);

/* Reads the lists of the configuration, which verify_config() does first. */
void lists_read(struct verify *verify);
void lists_release(struct verify *verify);

/* Is there a row of how the engine matches entries with such a module? */
bool matchers_know(const struct verify *verify, enum engine engine, const char *module);

/* Returns the entry by which the engine leaves out the module, or NULL. */
const char *matchers_find(const struct verify *verify, enum engine engine, const char *module);

/* Does the list of modules in high precision have the module: by its name, that of one above it,
 * the end of its path or a pattern? */
bool lists_skip(const struct verify *verify, const char *module);

/* The same by the name under which engines ask for the module (select/engine_names.h): the target,
 * or without one vLLM or SGLang. */
bool lists_skip_engine(const struct verify *verify, const char *module);

/* Returns the name by which the target asks for the module, where a row of its family gives one,
 * else a copy.  The caller frees it. */
char *lists_engine_name(const struct verify *verify, const char *module);

/* Does a regular expression of the list match the module? */
bool lists_skip_by_pattern(const struct verify *verify, const char *module);

/* The same as the target matches entries, where that is known. */
bool lists_skip_target(const struct verify *verify, const char *module);

/* Does the configuration say that an embedding is FP8? */
bool lists_table(const struct verify *verify, const char *module);

/* Whether engines load an output head in FP8, as the configuration names it. */
bool lists_head(const struct verify *verify, const char *module);

/* Does the configuration quantize the module, unless lists_skip()? */
bool lists_quantize(const struct verify *verify, const char *module);

/* Returns the group of a module, or NULL. */
const struct verify_group *lists_group(const struct verify *verify, const char *module);

/* Reports, once an entry, one that matches an FP8 module by the matcher of some engine. */
void lists_check_conflict(struct verify *verify, const struct tensor_ref *ref, const char *module);

/* Reports entries of the list of modules in high precision that name nothing. */
void verify_entries(struct verify *verify);

/* Returns the scheme that the configuration states for a module's weight, or the detected scheme
 * where the configuration does not have several groups. */
struct scheme verify_scheme(const struct verify *verify, const char *module);

/* Reports a tensor that is neither FP8 nor a scale, if engines expect codes. */
void verify_kept(struct verify *verify, const struct tensor_ref *ref,
		 const struct role_facts *facts, const char *module);

/* Checks names, types and shapes of tensors, and fills verify->weights. */
void verify_tensors(struct verify *verify);

/* Checks the name, type and shape of a weight's scale, and the name of its input's. */
void verify_scale(struct verify *verify, const struct tensor_ref *ref,
		  const struct weight_scale *of, const struct scheme *scheme);

/* Reports, once, the scales that the target looks for under other names. */
void verify_scale_names(struct verify *verify);

/* Reports layers, tensors, experts and shapes that config.json and the other layers ask for. */
void verify_missing(struct verify *verify);

/* Checks names, shapes and values of the scales of KV caches, and whether one is missing.
 * ERR_INPUT where a file is truncated or changed. */
int verify_caches(struct verify *verify, struct err *err);

/* Checks that the weights can be split as --tp requires, or the target on one device. */
void verify_tp(struct verify *verify);

/* Reports what the target reads wrong or not at all: weights that end in partial blocks, and those
 * of a family's row. */
void verify_target(struct verify *verify);

/* Reads every value of kept tensors, and every scale and code once, or several times to identify an
 * arithmetic, and compares them with the source if the user gave one.  ERR_INPUT where a file is
 * truncated or changed. */
int verify_values(struct verify *verify, struct err *err);

/* Reads the codes of a rect of an FP8 unit, row by row. */
int values_read_codes(struct source *files, const struct unit *unit, const struct rect *rect,
		      uint8_t *codes, struct err *err);

/* Reads the static input scales, judges each, and compares those of the first and third matrix of
 * each expert.  ERR_INPUT where a file is truncated or changed. */
int verify_inputs(struct verify *verify, struct err *err);

/* Is the weight what it was made from, by a manifest or by the source?  Then its values may be as
 * odd as those of the source. */
bool verify_is_proven(const struct verify *verify, const struct verify_weight *weight);

/* Adds problems from the findings in the values of each weight. */
void diagnose(struct verify *verify);

/* Notes scales that are far above those beside them. */
void verify_outliers(struct verify *verify);

/* Two limits.  A tile whose largest code is below diagnose_low_code() wastes bits, unless its scale
 * is at most diagnose_floor_scale(), because its amax was raised to a floor. */
float diagnose_low_code(const struct verify *verify, enum fp8_format format);
float diagnose_floor_scale(const struct verify *verify);

/* Returns the FP8 format of the weight's codes. */
enum fp8_format verify_weight_format(const struct verify_weight *weight);

/* Reports files beside the weights that loaders cannot read, and with a source every key of
 * config.json and every copied file that is not the source's.  ERR_INPUT where the source's files
 * cannot be read. */
int verify_companions(struct verify *verify, struct err *err);

/* Checks the size and SHA-256 of every file against the manifest.  ERR_INPUT where the manifest has
 * no SHA-256. */
int verify_manifest(struct verify *verify, struct err *err);

#endif
