/* SPDX-License-Identifier: Apache-2.0
 *
 * Evaluation: how well a checkpoint predicts text, and how far it is from the model that it was
 * made of.  Both models go through the layers at the same time, over the same sequences; nothing is
 * stored but a few numbers for each position.
 *
 * Order: eval_plan_make(); eval_run(); eval_plan_release(), also after a failure.
 */
#ifndef FP8CONV_EVAL_EVAL_H
#define FP8CONV_EVAL_EVAL_H

#include "dataset/dataset.h"
#include "eval/caches.h"
#include "eval/inputs.h"
#include "eval/layers.h"
#include "eval/quality.h"
#include "sweep/plan.h"
#include "sweep/progress.h"

struct eval_params {
	const struct io *io;
	const char *input;	 /* OUT: the checkpoint in question */
	const char *source;	 /* MODEL that it was made of; NULL: perplexity only */
	struct texts renames;	 /* of the source's tensors; without one, of the input's */
	const char *const *data; /* --data: files, directories, "-" */
	size_t n_data;
	int seq_len;		 /* 0: 512 */
	int stride;		 /* 0: seq_len, and every position counts */
	int passes;		 /* at most so many sequences; 0: all of the data */
	const char *activations; /* "engine" or "bf16"; NULL: engine */
	bool kv_cache;		 /* keys and values go through the checkpoint's scales */
	bool by_layer;		 /* with source */
	const char *precision;	 /* "bf16" or "f32"; NULL: bf16 */
	const struct backend *backend;
	int n_threads;		/* >= 1 */
	uint64_t max_memory;	/* bytes, besides one layer of each model; 0: 1 GiB */
	const char *resume;	/* file that keeps what is measured, to continue; NULL: none */
	const atomic_int *stop; /* NULL, or a signal number in it ends the job at the next step */
	double (*now)(void);	/* seconds, with any origin */
	/* ranks that share the sequences: all call eval_run(), and have the same result and
	 * failures; NULL: one process */
	const struct group *group;
};

/* A model that takes part. */
struct eval_model {
	struct checkpoint checkpoint;
	struct low_bit_view view; /* of the checkpoint, by the model */
	struct model model;
};

/* All decisions before the first product.  A zeroed struct is empty.  It must not move: its parts
 * point to each other. */
struct eval_plan {
	struct eval_model source; /* without --source empty */
	struct eval_model out;
	bool has_source;
	struct dataset data;
	size_t first_counted; /* position of all windows but the first from which they count */
	struct engine_inputs inputs; /* of OUT */
	struct cache_scales caches;  /* of OUT; empty without --kv-cache */
	struct sweep_plan sweep;
};

struct eval_result {
	struct quality quality;
	char data_sha256[SHA256_HEX]; /* of the token ids of the data, 4 bytes each */
	struct layer_quality *layers; /* (n_layers); NULL without --by-layer */
	size_t n_layers;
	size_t n_resumed; /* sequences that were in params->resume */
};

/* Opens the models and the data.  ERR_INPUT if one of them cannot be used, or if the models are not
 * of the same architecture and sizes; ERR_USAGE for options that do not fit to each other. */
int eval_plan_make(struct eval_plan *plan, const struct eval_params *params, struct err *err);
void eval_plan_release(struct eval_plan *plan);

/* Runs the plan, from what params->resume has on.  ERR_INTERRUPTED after a signal, with what is
 * kept.  ERR_USAGE where params->resume is of another evaluation.  ERR_INPUT with the first module
 * whose output is not finite. */
int eval_run(const struct eval_plan *plan, const struct eval_params *params,
	     struct sweep_progress *progress, struct eval_result *result, struct err *err);
void eval_result_release(struct eval_result *result);

#endif
