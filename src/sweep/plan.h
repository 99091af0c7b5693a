/* SPDX-License-Identifier: Apache-2.0
 *
 * How the sequences of a data set go through one or two models: how many at once, whether the next
 * layer is loaded meanwhile, and the memory for that.
 */
#ifndef FP8CONV_SWEEP_PLAN_H
#define FP8CONV_SWEEP_PLAN_H

#include "backend/executor.h"
#include "dataset/dataset.h"
#include "forward/forward.h"
#include "model/model.h"
#include "ranks/group.h"
#include "sweep/fp8_select.h"

/* A model that the sequences go through. */
struct sweep_model {
	const struct model *model;
	const struct fp8_selection *fp8; /* the first model only; NULL: no FP8 forward pass */
	bool casts;			 /* without fp8: as in struct forward */
};

/* Models that go in step: a checkpoint, and the source that it was made of. */
#define SWEEP_MODELS 2

/* The request.  All that it points to must outlive the plan. */
struct sweep_params {
	const struct io *io;
	struct sweep_model models[SWEEP_MODELS]; /* with the same number of layers */
	size_t n_models;			 /* at least 1 */
	const struct dataset *data;
	const struct executor_ops *executor;
	bool is_f32;  /* products take fp32, not bf16 */
	size_t batch; /* sequences of a pass */
	/* of the executor: they take the threads in turn, with sequences of their own; 0 as 1 */
	size_t n_devices;
	int n_threads; /* at least n_devices */
	/* bytes, besides one layer, on each device; 0: 1 GiB, or what the threads need, or on a
	 * device what is free there */
	uint64_t max_memory;
	/* memory is for other work: no next layer is loaded beside the current one, and sequences
	 * go through it one by one */
	bool lean;
	double (*now)(void); /* seconds, for the length of sweeps; NULL: always the first length */
	/* the ranks that share the sequences of each step; NULL: this process runs all */
	const struct group *group;
};

struct sweep_plan {
	struct sweep_params params;
	size_t n_passes; /* the last one may have fewer sequences */
	size_t longest;	 /* tokens of the longest sequence */
	uint64_t n_tokens;
	/* for weights and sequences, of the device that has least; 0: no limit but params' */
	uint64_t device_memory;
	size_t max_sequences; /* that go through the model at once, on all ranks: whole passes */
	size_t own_sequences; /* of them on one device of this rank, at most */
	size_t first_passes;  /* of the first sweep */
	size_t step_passes;   /* whose multiples give every thread as many sequences */
	bool ahead;	      /* the next layer is loaded beside the passes through one */
	bool resident;	      /* all layers stay loaded, from the first sweep on */
	size_t max_group; /* sequences that a thread takes through a layer of experts together */
	/* of the sequences, of what threads and FP8 work with, and of the largest layer or two, on
	 * all devices together */
	uint64_t memory_bytes;
};

/* ERR_USAGE where the memory does not hold one pass. */
int sweep_plan_make(struct sweep_plan *plan, const struct sweep_params *params, struct err *err);

/* Sequences [first, first + n) of a sweep. */
struct span {
	size_t first, n;
};

/* Returns the sequences that go through a stage in one step, from `first` on, of n in a sweep: all,
 * or with delayed scaling a pass. */
struct span sweep_plan_step(const struct sweep_plan *plan, size_t first, size_t n);

/* Returns the part of a step that a device of this rank runs, the same in each stage. */
struct span sweep_plan_part(const struct sweep_plan *plan, struct span step, size_t device);

/* Returns the threads of a device, at most. */
static inline size_t sweep_plan_lanes(const struct sweep_plan *plan)
{
	size_t n = plan->params.n_devices;

	return ((size_t)plan->params.n_threads + n - 1) / n;
}

/* Returns the work of a token in a stage, a layer or the head, of the first model: multiply-adds of
 * matrices, and of attention in a sequence of the longest length, divided by the model's width. */
uint64_t sweep_plan_work(const struct sweep_plan *plan, size_t stage);

/* Returns its work in all stages. */
uint64_t sweep_plan_token_work(const struct sweep_plan *plan);

/* Makes a plan that needs less memory on a device that has less than it reported: without layers
 * that stay, then with half of the sequences or threads.  Returns false if it cannot be less. */
bool sweep_plan_reduce(struct sweep_plan *plan);

/* Lets at most so many sequences, of whole passes, go through the model at once. */
void sweep_plan_limit(struct sweep_plan *plan, size_t max_sequences);

/* The tokens of a sequence of the data. */
static inline const uint32_t *sweep_plan_tokens(const struct sweep_plan *plan, size_t sequence)
{
	const struct dataset *data = plan->params.data;

	return data->ids.ids + data->sequences[sequence].begin;
}

#endif
