/* SPDX-License-Identifier: Apache-2.0
 *
 * A tag for each 2 bytes of the device's memory is the last launch that read them, and another the
 * last that wrote them: so each byte counts once in a launch.
 */
#include "counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define MAX_MEMORIES 4096
#define GRAIN	     2 /* bytes: the smallest values on the device */

struct memory {
	uintptr_t begin;
	size_t size;
	int device;
	uint32_t *read, *written; /* (size / GRAIN): tags; NULL: nothing was counted here */
};

struct simt_counts simt_counts;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the variables below */
static struct memory memories[MAX_MEMORIES];
static size_t n_memories;
static struct memory *last = memories; /* that was met */
static uint32_t launch;
static uint64_t n_bytes_before; /* to the device, before the last launch */
static bool counting;
static thread_local int device_here; /* of this thread's launches */

void simt_counts_add(void *memory, size_t size, int device)
{
	pthread_mutex_lock(&lock);
	if (n_memories == MAX_MEMORIES)
		abort();
	memories[n_memories++] = { reinterpret_cast<uintptr_t>(memory), size, device, NULL, NULL };
	pthread_mutex_unlock(&lock);
}

size_t simt_counts_remove(void *memory)
{
	size_t size = 0;

	pthread_mutex_lock(&lock);
	for (size_t i = 0; i < n_memories; i++) {
		if (memories[i].begin != reinterpret_cast<uintptr_t>(memory))
			continue;
		size = memories[i].size;
		free(memories[i].read);
		free(memories[i].written);
		memories[i] = memories[--n_memories];
		break;
	}
	last = memories;
	pthread_mutex_unlock(&lock);
	return size;
}

void simt_counts_begin(void)
{
	pthread_mutex_lock(&lock);
	simt_counts.n_launches++;
	simt_counts.n_copies_between += simt_counts.n_bytes_in != n_bytes_before;
	n_bytes_before = simt_counts.n_bytes_in;
	launch++;
	counting = true;
}

void simt_counts_end(void)
{
	counting = false;
	pthread_mutex_unlock(&lock);
}

/* Returns the memory of an address; NULL for the host's. */
static struct memory *memory_of(uintptr_t address)
{
	if (address - last->begin < last->size)
		return last;
	for (size_t i = 0; i < n_memories; i++) {
		if (address - memories[i].begin < memories[i].size)
			return last = &memories[i];
	}
	return NULL;
}

static uint32_t *tags_of(uint32_t **tags, size_t size)
{
	if (!*tags)
		*tags = static_cast<uint32_t *>(calloc(size / GRAIN + 1, sizeof **tags));
	if (!*tags)
		abort();
	return *tags;
}

void simt_counts_access(const void *address, size_t size, bool writes)
{
	uintptr_t at = reinterpret_cast<uintptr_t>(address);
	struct memory *memory = counting ? memory_of(at) : NULL;
	uint32_t *tags;

	if (!memory)
		return;
	simt_counts.n_foreign += memory->device != device_here;
	tags = tags_of(writes ? &memory->written : &memory->read, memory->size);
	for (size_t i = (at - memory->begin) / GRAIN; size > 0; i++, size -= GRAIN) {
		if (tags[i] != launch)
			(writes ? simt_counts.n_written : simt_counts.n_read) += GRAIN;
		tags[i] = launch;
	}
}

void simt_counts_device(int device)
{
	device_here = device;
}

void simt_counts_use(const void *address)
{
	struct memory *memory;

	pthread_mutex_lock(&lock);
	memory = memory_of(reinterpret_cast<uintptr_t>(address));
	simt_counts.n_foreign += memory && memory->device != device_here;
	pthread_mutex_unlock(&lock);
}
