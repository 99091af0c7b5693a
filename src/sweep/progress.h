/* SPDX-License-Identifier: Apache-2.0
 *
 * The progress of a running sweep, which another thread may read.
 */
#ifndef FP8CONV_SWEEP_PROGRESS_H
#define FP8CONV_SWEEP_PROGRESS_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

struct sweep_progress {
	_Atomic uint64_t done;	 /* tokens times the work of stages, as sweep_plan_work() has it */
	_Atomic uint64_t total;	 /* 0: unknown */
	_Atomic uint64_t token;	 /* the work of a token in all stages */
	_Atomic uint64_t tokens; /* tokens whose loss is known */
	_Atomic double loss;	 /* the sum of their losses */
	_Atomic size_t layer;	 /* the current one, from 1; n_layers + 1: the head; 0: none */
	_Atomic size_t sweep;	 /* the current one, from 1 */
	_Atomic size_t n_sweeps; /* estimated from the length of the current one */
};

#endif
