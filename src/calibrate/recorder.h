/* SPDX-License-Identifier: Apache-2.0
 *
 * The observer of a calibration: gathers amax, tokens and histograms of each layer in a sweep, and
 * adds them as rows to the history after the sweep.
 *
 * Order: recorder_new(); for each stage recorder_begin(), the passes with recorder_observer(),
 * recorder_end(); for each sweep recorder_commit(); recorder_free(), also after a failed sweep.
 */
#ifndef FP8CONV_CALIBRATE_RECORDER_H
#define FP8CONV_CALIBRATE_RECORDER_H

#include "amax/amax.h"
#include "calibrate/share.h"
#include "sweep/runner.h"

struct recorder;

/* Makes a recorder for the sweeps of this open runner over the sequences of the share; both outlive
 * it. */
struct recorder *recorder_new(const struct runner *runner, const struct share *share,
			      bool histogram);
void recorder_free(struct recorder *recorder);

/* Returns the observer for the forward pass. */
struct observer recorder_observer(struct recorder *recorder);

/* Begins a layer (NULL: the head), whose matrices are loaded, for the sequences from `first` on.
 * ERR_SYSTEM without memory. */
int recorder_begin(struct recorder *recorder, const struct layer *layer, const struct linear *head,
		   size_t first, struct err *err);
/* Ends the layer, and keeps its rows for n_sequences sequences, of all ranks of the plan's group.
 * stats: (n_sequences, n_slots), on the host, complete.  ERR_INPUT for NaN or infinite values,
 * naming the first. */
int recorder_end(struct recorder *recorder, size_t n_sequences, const struct value_stats *stats,
		 size_t n_slots, struct err *err);

/* Ends a sweep: adds all kept rows to the history. */
void recorder_commit(struct recorder *recorder, struct amax_stats *stats);

#endif
