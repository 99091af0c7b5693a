/* SPDX-License-Identifier: Apache-2.0
 *
 * Models that differ from a runner's model in the weights of some matrices.  A variant holds only
 * the residual streams of some sequences, so many may exist at once: it goes through the runner's
 * layers, and through layers in which some matrices are replaced.
 *
 * Order: variants_open() after runner_open(); variant_open(); in the stage in which a variant
 * begins, variant_begin() for each of its sequences, before the runner runs that sequence; from
 * this stage on, in every stage, variant_stage_begin(), variant_stage_replace() for each matrix
 * that differs, variant_run() for each sequence, or at the head variant_head() with
 * forward_heads(), variant_stage_end(); variant_release(), variants_release().
 */
#ifndef FP8CONV_SWEEP_VARIANT_H
#define FP8CONV_SWEEP_VARIANT_H

#include "sweep/runner.h"

/* What all variants of a runner share: a second workspace for each thread.  A zeroed struct is safe
 * to release. */
struct variants {
	const struct runner *runner;
	struct forward forward;	       /* the runner's, without its observer */
	struct workspace **workspaces; /* by thread */
	double *losses;		       /* by thread: (longest sequence) */
};

/* The streams of one variant.  A zeroed struct is safe to release. */
struct model_variant {
	struct variants *variants;
	size_t n;		    /* sequences */
	struct sequence *sequences; /* (n) */
	size_t *places; /* by sequence of the runner: its index in sequences; SIZE_MAX: none */
	float *residuals;
	struct value_stats *stats;
};

/* A stage of a variant: what is not replaced belongs to the runner.  A zeroed struct is safe to
 * end. */
struct variant_stage {
	const struct stage *from; /* the runner's */
	struct layer layer;	  /* ref NULL: this is the head */
	struct linear head;
};

/* Return the bytes: of what all variants share; of a variant of n sequences. */
uint64_t variants_size(const struct sweep_plan *plan, const struct model *model);
uint64_t variant_size(const struct sweep_plan *plan, const struct model *model, size_t n);

/* Allocates.  Inputs may be cast if the runner's may.  ERR_SYSTEM without memory. */
int variants_open(struct variants *variants, const struct runner *runner, struct err *err);
void variants_release(struct variants *variants);

/* Allocates the streams of n sequences of the runner, by their numbers in its current sweep.
 * ERR_SYSTEM without memory. */
int variant_open(struct model_variant *variant, struct variants *variants, const size_t *sequences,
		 size_t n, struct err *err);
void variant_release(struct model_variant *variant);

/* Does the variant have this sequence of the runner? */
static inline bool variant_has(const struct model_variant *variant, size_t sequence)
{
	return variant->places[sequence] != SIZE_MAX;
}

/* Copies the runner's residual stream of this sequence as it is now: the input of the current
 * stage, until the runner has run it. */
int variant_begin(struct model_variant *variant, int worker, size_t sequence, struct err *err);

/* Makes a stage with all matrices of the runner's current one, which must stay loaded. */
void variant_stage_begin(struct variant_stage *stage, const struct variants *variants);
void variant_stage_end(struct variant_stage *stage);

/* Replaces the matrix of this ref by values (n, k) of the host, rounded to the type of products; it
 * keeps its bias.  cast: as in struct linear.  Any thread, for another ref each.  ERR_SYSTEM
 * without memory. */
int variant_stage_replace(struct variant_stage *stage, const struct variants *variants,
			  const struct linear_ref *ref, const float *values,
			  const struct input_cast *cast, struct err *err);

/* The same by panels of rows, such as executor_weight_panels() counts them: variant_stage_take()
 * allocates the weight, and variants_panel_set() fills a panel of it from values (rows, k). */
int variant_stage_take(struct variant_stage *stage, const struct variants *variants,
		       const struct linear_ref *ref, const struct input_cast *cast,
		       struct linear **linear, struct err *err);
int variants_panel_set(const struct variants *variants, const struct linear *linear, size_t panel,
		       const float *values, struct err *err);

/* Runs a sequence through a layer. */
int variant_run(struct model_variant *variant, const struct variant_stage *stage, int worker,
		size_t sequence, struct err *err);

/* Returns the arguments of a sequence's pass through the head.  forward_heads() takes it as q
 * beside runner_head_pass() as p. */
struct head_pass variant_head(const struct model_variant *variant,
			      const struct variant_stage *stage, int worker, size_t sequence);

#endif
