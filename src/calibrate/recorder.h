/* SPDX-License-Identifier: Apache-2.0
 *
 * The observer that gathers amax, tokens and histograms of a sweep, from the layer that is under
 * way, and makes rows of the history of them when the sweep is over.
 */
#ifndef FP8CONV_CALIBRATE_RECORDER_H
#define FP8CONV_CALIBRATE_RECORDER_H

#include "amax/amax.h"
#include "forward/forward.h"

struct recorder;

/* For sweeps of up to n_sequences sequences, `batch` of them a pass. */
struct recorder *recorder_new(const struct forward *forward, size_t n_sequences, size_t batch,
			      int n_lanes, bool histogram);
void recorder_free(struct recorder *recorder);

/* What the forward pass is given. */
struct observer recorder_observer(struct recorder *recorder);

/* A layer (NULL: the head) begins, with the matrices that are loaded, for the sequences from
 * `first` on. */
int recorder_begin(struct recorder *recorder, struct executor_stream *lane,
		   const struct layer *layer, const struct linear *head, size_t first,
		   struct err *err);
/* It ends: its rows for n_sequences sequences are kept.  stats: those of each, n_slots of them,
 * of the host.  ERR_INPUT where values are NaN or infinite, naming the first of them. */
int recorder_end(struct recorder *recorder, struct executor_stream *lane, size_t n_sequences,
		 const struct value_stats *stats, size_t n_slots, struct err *err);

/* The sweep is over: all rows kept go into the history.  Or it was broken off: they are dropped. */
void recorder_commit(struct recorder *recorder, struct amax_stats *stats);
void recorder_drop(struct recorder *recorder);

#endif
