/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantities for people.
 */
#ifndef FP8CONV_CLI_PRINT_UNITS_H
#define FP8CONV_CLI_PRINT_UNITS_H

#include <stdint.h>

#include "base/buf.h"

/* Adds "512 B" or "1.77 MB": three digits, powers of 1000, as for disks and links. */
void units_size(struct buf *buf, uint64_t bytes);

/* Adds "1.40/5.24 GB": bytes of a total, in the unit of the total. */
void units_size_of(struct buf *buf, uint64_t bytes, uint64_t total);

/* Adds "64 MiB", rounded up: memory, in the units of --max-memory. */
void units_memory(struct buf *buf, uint64_t bytes);

/* Adds "0.4 s", "12 s", "3 min 20 s" or "2 h 05 min". */
void units_duration(struct buf *buf, double seconds);

/* Adds "0:03", "12:40" or "2:05:00". */
void units_clock(struct buf *buf, double seconds);

#endif
