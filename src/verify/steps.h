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
#include "names/config.h"
#include "names/role.h"
#include "select/profile.h"
#include "source/source.h"
#include "verify/values/arithmetic.h"
#include "verify/values/scan.h"
#include "verify/values/sums.h"
#include "verify/verify.h"
#include "verify/values/zeros.h"

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
	struct part_set undotted;    /* those that end in dots, without them */
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

#endif
