/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantities for people.
 */
#ifndef FP8CONV_CLI_PRINT_UNITS_H
#define FP8CONV_CLI_PRINT_UNITS_H

#include <stdint.h>

#include "base/buf.h"

/* "512 B", "1.77 MB": three digits, powers of 1000, as disks and links are measured. */
void units_size(struct buf *buf, uint64_t bytes);

/* "1.40/5.24 GB": of a total, in its unit. */
void units_size_of(struct buf *buf, uint64_t bytes, uint64_t total);

/* "64 MiB", rounded up: memory, in the units that --max-memory takes. */
void units_memory(struct buf *buf, uint64_t bytes);

/* "0.4 s", "12 s", "3 min 20 s", "2 h 05 min". */
void units_duration(struct buf *buf, double seconds);

/* "0:03", "12:40", "2:05:00". */
void units_clock(struct buf *buf, double seconds);

#endif
