/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a job: streams of all sequences, and as many Hessians at a time as there is room
 * for.
 */
#ifndef FP8CONV_COMPENSATE_MEMORY_H
#define FP8CONV_COMPENSATE_MEMORY_H

#include "backend/backend.h"
#include "backend/executor.h"
#include "compensate/compensate.h"

/* Chunks of sequences whose inputs are kept: one runs while the other is added to the Hessians. */
#define N_CHUNKS 2

/* Fills plan->sweep, room and memory_bytes. */
int compensate_plan_memory(struct compensate_plan *plan, struct err *err);

/* Returns the bytes that a group needs while its sums are made: on the executor, and its sum and
 * factor on the host. */
uint64_t compensate_group_size(const struct compensate_group *group);

/* Returns the bytes that the inputs of one kind take in a sequence. */
uint64_t compensate_region_size(const struct compensate_plan *plan, const struct input_group *input,
				enum dtype dtype);

/* Returns the bytes of the inputs of a sequence that groups [first, end) of a stage keep. */
uint64_t compensate_inputs_size(const struct compensate_plan *plan,
				const struct compensate_stage *stage, size_t first, size_t end);

/* Returns the type in which inputs are multiplied, and kept. */
static inline enum dtype compensate_input_type(const struct compensate_plan *plan)
{
	return plan->params.backend->executor->bf16_type();
}

#endif
