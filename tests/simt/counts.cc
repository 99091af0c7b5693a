/* SPDX-License-Identifier: Apache-2.0
 *
 * A tag for each 2 bytes of the device's memory is the last launch that read them, and another the
 * last that wrote them: so each byte counts once in a launch.
 */
#include "counts.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static struct memory memories[MAX_MEMORIES];		 /* by their addresses */
static size_t n_memories;
static struct memory *last = memories; /* that was met */
static uint32_t launch;
static uint64_t n_bytes_before; /* to the device, before the last launch */
static bool counting;
static thread_local int device_here; /* of this thread's launches */

/* Returns how many memories begin at this address or before it. */
static size_t n_up_to(uintptr_t address)
{
	size_t low = 0, high = n_memories;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (memories[middle].begin <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

void simt_counts_add(void *memory, size_t size, int device)
{
	uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
	size_t place;

	pthread_mutex_lock(&lock);
	if (n_memories == MAX_MEMORIES)
		abort();
	place = n_up_to(begin);
	memmove(&memories[place + 1], &memories[place], (n_memories++ - place) * sizeof *memories);
	memories[place] = { begin, size, device, NULL, NULL };
	last = memories;
	pthread_mutex_unlock(&lock);
}

size_t simt_counts_remove(void *memory)
{
	uintptr_t begin = reinterpret_cast<uintptr_t>(memory);
	size_t size = 0, place;

	pthread_mutex_lock(&lock);
	place = n_up_to(begin);
	if (place && memories[place - 1].begin == begin) {
		struct memory *found = &memories[place - 1];

		size = found->size;
		free(found->read);
		free(found->written);
		memmove(found, found + 1, (n_memories - place) * sizeof *memories);
		memories[--n_memories] = {};
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
	size_t n;

	if (address - last->begin < last->size)
		return last;
	n = n_up_to(address);
	if (!n || address - memories[n - 1].begin >= memories[n - 1].size)
		return NULL;
	return last = &memories[n - 1];
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
