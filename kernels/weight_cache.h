/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of weights that were freed: the next layer's are of the same sizes, and a page that was
 * used costs nothing.
 */
#ifndef FP8CONV_KERNELS_WEIGHT_CACHE_H
#define FP8CONV_KERNELS_WEIGHT_CACHE_H

#include <pthread.h>

#include "base/mem.h"

/* Serves all threads. */
struct spare {
	pthread_mutex_t lock; /* of what follows */
	size_t n;
	struct buffer *buffers;
};

void spare_init(struct spare *spare);
void spare_release(struct spare *spare);

/* size bytes, of the spare ones or new.  Where none of that size is left, the others are not of the
 * layer to come, and are freed.  ERR_SYSTEM; what: for the message. */
int spare_take(struct spare *spare, struct buffer *buffer, uint64_t size, const char *what,
	       struct err *err);

/* Back; *buffer is empty then, and may have been. */
void spare_give(struct spare *spare, struct buffer *buffer);

#endif
