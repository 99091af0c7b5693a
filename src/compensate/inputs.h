/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs that a turn keeps.  Sequences run a chunk at a time; meanwhile an observer keeps the
 * inputs of the turn's groups, in the type of products.
 */
#ifndef FP8CONV_COMPENSATE_INPUTS_H
#define FP8CONV_COMPENSATE_INPUTS_H

#include "compensate/steps.h"

/* Sequences of all ranks that run together.  The inputs of sequences[i] have place
 * first_place + i. */
struct sequence_chunk {
	const size_t *sequences;
	size_t n, first_place;
};

/* The kept rows of a group, in the region of its kind, and the slot of their value stats. */
struct kept {
	size_t first, n, slot;
};

struct inputs {
	struct compensation *job;
	const struct turn *turn;
	size_t n; /* groups of the turn */
	struct observer observer;
	int32_t *groups;  /* by matrix of the stage: the group whose input it shows; -1: none */
	enum dtype dtype; /* of kept values */
	size_t max_chunk; /* sequences */
	struct sequence_chunk running, adding; /* n is 0: none */
	size_t *own; /* (n_own): of plan->own, the sequences in `running` */
	size_t n_own;
	size_t *places; /* by sequence of plan->own; SIZE_MAX: its inputs are not kept */
	uint64_t offsets[N_INPUT_KINDS]; /* of the region of a kind, in bytes */
	uint64_t sequence_size;		 /* bytes of all regions */
	char *memory;			 /* (places, sequence_size); the job's */
	struct kept *kept;		 /* (places, n) */
	size_t (*used)[N_INPUT_KINDS];	 /* (places): rows of the regions */
	float **sums;			 /* (n): (k, k); the executor's */
	float **streams; /* by thread: (longest, hidden), unless the turn is the last; likewise */
};

static inline const struct compensate_group *inputs_group(const struct inputs *inputs, size_t i)
{
	return &inputs->turn->stage->groups[inputs->turn->first + i];
}

static inline struct executor *inputs_executor(const struct inputs *inputs)
{
	return inputs->job->runner.forward.executor;
}

/* Takes memory for two chunks and the sums; sets running and adding to none.  inputs_release() may
 * be called after a failure. */
int inputs_open(struct inputs *inputs, struct compensation *job, const struct turn *turn,
		struct err *err);
void inputs_release(struct inputs *inputs);

/* Frees the memory of kept inputs, which the turns of a job share. */
void kept_inputs_release(struct compensation *job);

/* Keeps the inputs of n sequences from the next run on; the chunk is running.  inputs_skip() sets
 * the chunk alone. */
void inputs_begin(struct inputs *inputs, const size_t *sequences, size_t n);
void inputs_skip(struct inputs *inputs, const size_t *sequences, size_t n);

/* ERR_INPUT where inputs of the chunk that ran are NaN or infinite.  Else takes the other ranks'
 * inputs, counts its tokens, and keeps no further ones. */
int inputs_end(struct inputs *inputs, struct err *err);

/* Returns the kept rows of a sequence of the chunk, and in *m their number. */
const void *inputs_rows(const struct inputs *inputs, const struct sequence_chunk *chunk, size_t i,
			size_t group, size_t *m);

#endif
