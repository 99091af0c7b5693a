/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/gpu/device.h for a CPU: the memory of the "device" is poisoned when it is taken, and can
 * be made to fail.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/device.h"
#include "tests/simt/counts.h"
#include "tests/simt/device.h"
}

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POISON	    0xA5
#define POISONED    ((size_t)4 << 20)
#define MAX_TAKEN   64
#define MEMORY_MOST ((uint64_t)1 << 40)

struct device_stream {
	int device; /* index among the used ones */
	void *taken[MAX_TAKEN];
	size_t n_taken, size; /* bytes of them */
	bool full;
	const char *failed; /* the call; NULL: none */
	const char *why;    /* what it said */
	bool follows;	    /* the GPU had failed before */
};

struct thread_stream {
	struct device_stream stream;
	bool known; /* its GPU */

	~thread_stream()
	{
		device_begin(&stream);
	}
};

static thread_local struct thread_stream here;
static pthread_mutex_t room_lock = PTHREAD_MUTEX_INITIALIZER; /* of the memory that is left */

int simt_capability = 90;
const char *simt_missing;
long simt_calls_left = -1;
int simt_calls_device = -1;
long simt_copies_left = -1;
size_t simt_room = SIZE_MAX;
uint64_t simt_memory = UINT64_MAX, simt_reported = UINT64_MAX;
uint64_t simt_reported_of[DEVICES_MOST];
long simt_allocations_left = -1;
long simt_held;
int simt_devices = 1;
static bool broken[DEVICES_MOST];      /* while no call is left: it has failed */
static int used[DEVICES_MOST], n_used; /* n_used 0: all */
static unsigned n_streams;	       /* of threads */

const char *device_missing(void)
{
	return simt_missing;
}

int device_capability(void)
{
	return simt_capability;
}

/* A whole program is told by SIMT_DEVICES how many GPUs there are. */
static __attribute__((constructor)) void devices_told(void)
{
	const char *n = getenv("SIMT_DEVICES");

	simt_devices = n ? atoi(n) : simt_devices;
}

int device_count(void)
{
	return simt_missing ? 0 : n_used ? n_used : simt_devices;
}

void device_use(const int *chosen, int n)
{
	int all[DEVICES_MOST];

	for (int i = 0; i < simt_devices; i++)
		all[i] = n_used ? used[i] : i;
	for (int i = 0; i < n; i++)
		used[i] = all[chosen[i]];
	n_used = n;
}

/* Returns the number of a GPU that is used. */
static int number_of(int device)
{
	if (device < 0 || device >= (n_used ? n_used : simt_devices))
		abort();
	return n_used ? used[device] : device;
}

int device_numbered(int number)
{
	for (int i = 0; i < device_count(); i++)
		if (number_of(i) == number)
			return i;
	return -1;
}

/* A stream of the simulated runtime is no object. */
void device_borrow(struct device_stream *stream, void *)
{
	simt_counts_device(stream->device);
}

void device_return(struct device_stream *)
{
}

/* The threads get the GPUs in turn. */
struct device_stream *device_stream_here(void)
{
	if (!here.known && device_count()) {
		here.stream.device = (int)(__atomic_fetch_add(&n_streams, 1, __ATOMIC_RELAXED) %
					   (unsigned)device_count());
		here.known = true;
	}
	return &here.stream;
}

static void add_to(uint64_t *count, uint64_t n)
{
	__atomic_add_fetch(count, n, __ATOMIC_RELAXED);
}

/* Takes size bytes of what is free, unless a test wants that to fail. */
static bool room_take(uint64_t size)
{
	bool taken = false;

	pthread_mutex_lock(&room_lock);
	if (simt_allocations_left == 0)
		simt_allocations_left = -1;
	else if (size <= simt_memory && size <= MEMORY_MOST)
		taken = true;
	if (taken && simt_allocations_left > 0)
		simt_allocations_left--;
	if (taken && simt_memory != UINT64_MAX)
		simt_memory -= size;
	pthread_mutex_unlock(&room_lock);
	return taken;
}

static void room_give(uint64_t size)
{
	pthread_mutex_lock(&room_lock);
	if (simt_memory != UINT64_MAX)
		simt_memory += size;
	pthread_mutex_unlock(&room_lock);
}

uint64_t device_memory_left(int device)
{
	if (simt_reported_of[number_of(device)])
		return simt_reported_of[number_of(device)];
	return simt_reported < simt_memory ? simt_reported
	       : simt_memory < MEMORY_MOST ? simt_memory
					   : MEMORY_MOST;
}

/* Exactly as large as was asked for, so that a sanitizer sees what goes beyond. */
static void *poisoned(size_t n, int device)
{
	void *memory;

	if (posix_memalign(&memory, 256, n ? n : 1))
		abort();
	simt_counts_add(memory, n, device);
	/* the rest of the memory of products takes too long */
	return memset(memory, POISON, n < POISONED ? n : POISONED);
}

static void memory_drop(void *memory)
{
	if (memory)
		room_give(simt_counts_remove(memory));
	free(memory);
}

void device_begin(struct device_stream *stream)
{
	while (stream->n_taken > 0)
		memory_drop(stream->taken[--stream->n_taken]);
	stream->size = 0;
}

int device_stream_failed(struct device_stream *stream, struct err *err)
{
	const char *call = stream->failed;
	bool full = stream->full;

	stream->failed = NULL;
	stream->full = false;
	if (call && stream->follows) {
		err_set(err, ERR_SYSTEM, "GPU %d failed before", number_of(stream->device));
		err->follows = true;
		return -1;
	}
	if (call && full)
		return err_no_memory(err, "%s on GPU %d: %s", call, number_of(stream->device),
				     stream->why);
	return call ? err_set(err, ERR_SYSTEM, "%s on GPU %d: %s", call, number_of(stream->device),
			      stream->why)
		    : 0;
}

void device_fail(struct device_stream *stream, const char *call, const char *why)
{
	if (stream->failed)
		return;
	stream->failed = call;
	stream->why = why;
}

int device_index(const struct device_stream *stream)
{
	return stream->device;
}

bool device_stream_stopped(const struct device_stream *stream)
{
	return stream->failed != NULL;
}

bool device_stream_retry(struct device_stream *stream)
{
	if (!stream->failed || !stream->full)
		return false;
	stream->failed = NULL;
	stream->full = false;
	device_begin(stream);
	return true;
}

/* Returns the calls that are left to a GPU; -1: no end. */
static long calls_left(int device)
{
	return simt_calls_device < 0 || number_of(device) == simt_calls_device ? simt_calls_left
									       : -1;
}

/* Whether the call goes well. */
static bool succeeds(struct device_stream *stream, const char *call)
{
	const long left = calls_left(stream->device);

	if (stream->failed)
		return false;
	if (left == 0) {
		device_fail(stream, call, "unspecified launch failure");
		stream->follows =
			__atomic_exchange_n(&broken[stream->device], true, __ATOMIC_RELAXED);
	} else {
		broken[stream->device] = false;
	}
	if (left > 0)
		simt_calls_left--;
	return !stream->failed;
}

struct device_stream *device_stream_new(int device, struct err *err)
{
	struct device_stream *stream;

	number_of(device);
	stream = static_cast<struct device_stream *>(xcalloc(1, sizeof *stream));
	stream->device = device;
	if (succeeds(stream, "device_stream_new")) {
		__atomic_add_fetch(&simt_held, 1, __ATOMIC_RELAXED);
		return stream;
	}
	device_stream_failed(stream, err);
	free(stream);
	return NULL;
}

void device_stream_free(struct device_stream *stream)
{
	if (!stream)
		return;
	device_begin(stream);
	free(stream);
	__atomic_sub_fetch(&simt_held, 1, __ATOMIC_RELAXED);
}

/* Appends a line to the file that SIMT_LOG names: whether and for what a GPU is used. */
static void log_use(int device, const char *what)
{
	const char *path = getenv("SIMT_LOG");
	FILE *file = path ? fopen(path, "a") : NULL;

	if (!file)
		return;
	fprintf(file, "GPU %d: %s\n", number_of(device), what);
	fclose(file);
}

int device_memory_new(int device, void **memory, uint64_t size, const char *what, struct err *err)
{
	*memory = NULL;
	if (calls_left(device) == 0 || !room_take(size))
		return err_no_memory(err,
				     "%s on GPU %d: %llu MiB needed, 0 of 80 MiB free: reduce "
				     "--max-memory or --threads",
				     what, number_of(device), (unsigned long long)(size >> 20));
	if (calls_left(device) > 0)
		simt_calls_left--;
	log_use(device, what);
	*memory = poisoned(size, device);
	add_to(&simt_counts.n_allocations, 1);
	__atomic_add_fetch(&simt_held, 1, __ATOMIC_RELAXED);
	return 0;
}

void device_memory_free(void *memory)
{
	memory_drop(memory);
	if (memory)
		__atomic_sub_fetch(&simt_held, 1, __ATOMIC_RELAXED);
}

void *device_stream_native(struct device_stream *stream)
{
	simt_counts_device(stream->device);
	return NULL;
}

/* Counts the use of an address by a call on the stream. */
static void use(const struct device_stream *stream, const void *address)
{
	simt_counts_device(stream->device);
	simt_counts_use(address);
}

void *device_take(struct device_stream *stream, size_t n)
{
	if (!succeeds(stream, "device_take"))
		return NULL;
	if (n > simt_room - stream->size || !room_take(n)) {
		stream->full = true;
		device_fail(stream, "device_take", "no room");
		return NULL;
	}
	if (stream->n_taken == MAX_TAKEN)
		abort();
	log_use(stream->device, "a stream's memory");
	stream->size += n;
	return stream->taken[stream->n_taken++] = poisoned(n, stream->device);
}

static void copy_rows(const struct device_copy *copy)
{
	for (size_t row = 0; row < copy->n_rows; row++)
		memcpy(static_cast<char *>(copy->to) + row * copy->to_stride,
		       static_cast<const char *>(copy->from) + row * copy->from_stride,
		       copy->row_size);
}

void device_copy_in(struct device_stream *stream, const struct device_copy *copy)
{
	if (!succeeds(stream, "device_copy_in"))
		return;
	use(stream, copy->to);
	copy_rows(copy);
	add_to(&simt_counts.n_copies_in, 1);
	add_to(&simt_counts.n_bytes_in, copy->row_size * copy->n_rows);
}

void device_copy_out(struct device_stream *stream, const struct device_copy *copy)
{
	if (!succeeds(stream, "device_copy_out"))
		return;
	use(stream, copy->from);
	copy_rows(copy);
	add_to(&simt_counts.n_copies_out, 1);
	add_to(&simt_counts.n_bytes_out, copy->row_size * copy->n_rows);
	if (simt_copies_left >= 0 && simt_copies_left-- == 0)
		for (size_t i = 0; i < copy->row_size; i++)
			static_cast<char *>(copy->to)[i] ^= 0x40;
}

void device_zero(struct device_stream *stream, void *memory, size_t n)
{
	if (!succeeds(stream, "device_zero"))
		return;
	use(stream, memory);
	memset(memory, 0, n);
	add_to(&simt_counts.n_launches, 1);
}

void device_move(struct device_stream *stream, void *to, const void *from, size_t n)
{
	if (!succeeds(stream, "device_move"))
		return;
	use(stream, to);
	memcpy(to, from, n);
	add_to(&simt_counts.n_launches, 1);
}

void device_launched(struct device_stream *stream, const char *kernel)
{
	succeeds(stream, kernel);
}

void device_wait(struct device_stream *stream)
{
	succeeds(stream, "device_wait");
	add_to(&simt_counts.n_waits, 1);
}
