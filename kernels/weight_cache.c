/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/weight_cache.h"

#include <stdlib.h>

void spare_init(struct spare *spare)
{
	*spare = (struct spare){ .n = 0 };
	pthread_mutex_init(&spare->lock, NULL);
}

static void free_all(struct spare *spare)
{
	for (size_t i = 0; i < spare->n; i++)
		buffer_release(&spare->buffers[i]);
	free(spare->buffers);
	spare->buffers = NULL;
	spare->n = 0;
}

void spare_release(struct spare *spare)
{
	free_all(spare);
	pthread_mutex_destroy(&spare->lock);
}

int spare_take(struct spare *spare, struct buffer *buffer, uint64_t size, const char *what,
	       struct err *err)
{
	size_t i = 0;

	*buffer = (struct buffer){ 0 };
	pthread_mutex_lock(&spare->lock);
	while (i < spare->n && spare->buffers[i].size != size)
		i++;
	if (i < spare->n) {
		*buffer = spare->buffers[i];
		spare->buffers[i] = spare->buffers[--spare->n];
	} else {
		free_all(spare);
	}
	pthread_mutex_unlock(&spare->lock);
	return buffer_ensure(buffer, size, what, err);
}

void spare_give(struct spare *spare, struct buffer *buffer)
{
	if (!buffer->data)
		return;
	pthread_mutex_lock(&spare->lock);
	ARRAY_GROW(spare->buffers, spare->n);
	spare->buffers[spare->n++] = *buffer;
	pthread_mutex_unlock(&spare->lock);
	*buffer = (struct buffer){ 0 };
}
