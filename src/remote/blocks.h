/* SPDX-License-Identifier: Apache-2.0
 *
 * Large blocks of files, read ahead by several connections into memory of a fixed size.
 *
 * A reader waits for its own block only.  A block that lies after one that was read is wanted too,
 * and so are the blocks that a reader names in advance; the oldest block that nobody copies gives
 * its memory away.  A block that is evicted too early is read again: that costs time, never bytes.
 * Small reads far from others come without their blocks.
 */
#ifndef FP8CONV_REMOTE_BLOCKS_H
#define FP8CONV_REMOTE_BLOCKS_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "remote/range.h"

struct blocks;

/* Makes a cache of at most `memory` bytes for files of at most `largest` bytes; no memory is used
 * and no thread runs before the first read. */
struct blocks *blocks_new(struct client *client, uint64_t memory, uint64_t largest);
/* Ends the threads.  No reader may be left. */
void blocks_free(struct blocks *blocks);

/* Copies up to *n bytes at offset first, which the file has, from one block.  *n becomes the number
 * of copied bytes. */
int blocks_read(struct blocks *blocks, struct remote_file *file, uint64_t first, char *data,
		size_t *n, struct err *err);

/* A hint: these bytes will be read soon. */
void blocks_want(struct blocks *blocks, struct remote_file *file, uint64_t first, uint64_t n);

#endif
