/* SPDX-License-Identifier: Apache-2.0
 *
 * The states of TransformerEngine's modules in a checkpoint, as an amax history.
 */
#ifndef FP8CONV_SOURCE_STATES_H
#define FP8CONV_SOURCE_STATES_H

#include "amax/amax.h"
#include "source/source.h"

/* Adds the history of the states to an empty table, made by amax_stats_init().  ERR_INPUT for a
 * state that cannot be read. */
int states_read(struct source *source, struct amax_stats *stats, struct err *err);

#endif
