/* SPDX-License-Identifier: Apache-2.0
 *
 * Error-compensated rounding: the codes of each weight are chosen so that the errors of its columns
 * cancel on the inputs that calibration data give.  Scales stay the recipe's.
 *
 * Source: GPTQ (arXiv 2210.17323) as Babai's nearest plane (2507.18553), with the Hessian of the
 * unquantized model, shrunk towards its diagonal: H_ij becomes (1 - rho) H_ij, i != j.  Without a
 * given rho, several are tried, and the one whose model diverges least from the source on sequences
 * that no Hessian has seen wins.  If rounding to nearest diverges less than all, it is kept.
 *
 * Order: compensate_plan_make(); compensate_run(), into a store of codes; store_open() by whoever
 * writes them; compensate_plan_release().
 */
#ifndef FP8CONV_COMPENSATE_COMPENSATE_H
#define FP8CONV_COMPENSATE_COMPENSATE_H

#include "base/progress.h"
#include "ckpt/checksum.h"
#include "compensate/store.h"
#include "model/input_groups.h"
#include "num/qspec.h"
#include "select/select.h"
#include "sweep/plan.h"

struct compensate_params {
	const struct io *io;
	const struct checkpoint *checkpoint; /* the source; outlives the plan */
	const struct backend *backend;	     /* of the forward pass */
	const struct backend *cast;	     /* of the codes that are rounded to nearest */
	const char *const *data;	     /* each path is a domain */
	size_t n_data;
	int seq_len;	     /* tokens; 0: 512 */
	int passes;	     /* sequences; 0: 64 */
	float shrink;	     /* rho, 0 to 1; less than 0: STORE_RHOS are tried */
	uint64_t max_memory; /* bytes, besides a layer; 0: 4 GiB, or what the largest input needs */
	int n_threads;
	const atomic_int *stop;
	const struct group *group; /* the ranks that share the work; NULL: this process does all */
};

/* What is rounded: all of the selection that has a spec.  All outlive the plan. */
struct compensate_units {
	const struct selection *selection;
	const struct qspec *const *specs; /* by unit; NULL: its codes are not computed, or kept */
	/* by scale group: the amax that a calibration has; NaN: that of the weights */
	const float *group_amax;
};

/* Rows of a unit that one matrix of the forward pass multiplies. */
struct compensate_job {
	size_t unit;
	uint64_t first_row, n_rows; /* of the unit */
	const struct linear_ref *linear;
	uint64_t linear_row, linear_step; /* the row of the matrix that is row 0; then each step */
};

/* The jobs that share an input. */
struct compensate_group {
	struct input_group input;
	size_t n_jobs;
	struct compensate_job *jobs;
};

/* A layer, or the head. */
struct compensate_stage {
	size_t n_groups;
	struct compensate_group *groups;
};

struct compensate_plan {
	struct compensate_params params;
	struct compensate_units units;
	struct low_bit_view view; /* of the checkpoint, by the model */
	struct model model;
	struct dataset data; /* by domain */
	size_t n_domains;
	size_t *domain_ends; /* (n_domains): sequences */
	uint64_t n_tokens;
	size_t longest;	       /* tokens of the longest sequence */
	bool *held_out;	       /* by sequence: in no Hessian */
	size_t n_held_out;     /* 0 with a given rho */
	size_t *held;	       /* (n_held_out): the sequences */
	struct dataset own;    /* the sequences of this rank; the token ids belong to data */
	size_t *own_numbers;   /* by sequence: its number in own; SIZE_MAX: of another rank */
	size_t n_own_held_out; /* in own */
	char data_sha256[SHA256_HEX];
	size_t n_rhos;
	float rhos[STORE_RHOS];
	size_t n_stages;		 /* that have units */
	struct compensate_stage *stages; /* (model.n_layers + 1) */
	uint64_t *n_codes;		 /* by stage: of all its units */
	struct store_place *places;	 /* by unit: its codes in the store */
	size_t n_units;			 /* that are compensated */
	size_t n_outside;		 /* quantized units that no matrix of the pass multiplies */
	struct sweep_plan sweep;
	uint64_t room;	       /* bytes for Hessians, factors and kept inputs */
	uint64_t memory_bytes; /* of all that this rank needs */
	uint64_t store_bytes;  /* on disk, until the shards are written */
};

/* Opens model and data, and decides all of that.  ERR_USAGE where nothing can be compensated or the
 * memory is too small; ERR_INPUT as model_open() and dataset_open() fail.  The caller releases the
 * plan, also after a failure. */
int compensate_plan_make(struct compensate_plan *plan, const struct compensate_params *params,
			 const struct compensate_units *units, struct err *err);
void compensate_plan_release(struct compensate_plan *plan);

/* Computes the codes of all units with every rho into the store, layer by layer, and chooses
 * (store->outcome).  Continues where an earlier run with the same store stopped.  ERR_INPUT for
 * inputs that are not finite, with the module; ERR_SYSTEM; ERR_INTERRUPTED.  Of several ranks all
 * call it, with plans that differ in nothing but memory and threads; the leading one has the store,
 * the others give NULL.  The bytes are as by one process, and a failure is everybody's. */
int compensate_run(const struct compensate_plan *plan, struct store *store,
		   struct progress *progress, struct err *err);

#endif
