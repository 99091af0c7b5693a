/* SPDX-License-Identifier: Apache-2.0
 *
 * A GPU's threads as fibers of one thread.  A fiber runs until it waits: at a barrier for all
 * threads of its block, at a shuffle for the threads of its warp.  So between two barriers one
 * thread does all of its work before another one begins, and which one is first changes from launch
 * to launch: what a missing barrier would leave to chance comes out wrong.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vector>

#include "counts.h"
#include "fiber.h"
#include <gpu.h>

#define MAX_THREADS 1024
#define WARP	    32
#define STACK_SIZE  ((size_t)128 << 10)
#define POISON	    0xA5

dim3 threadIdx, blockIdx, blockDim, gridDim;

/* Of the section simt_shared; weak, for a program whose kernels have no shared memory. */
extern char __start_simt_shared[] __attribute__((weak)), __stop_simt_shared[] __attribute__((weak));

enum state { RUNNABLE, AT_BARRIER, AT_SHUFFLE, DONE };

/* What a thread brings to a product of its warp: elements of the left and the right matrix. */
struct operands {
	unsigned a[4], b[2];
};

/* A copy that has begun; of the n-th group of its thread. */
struct copy {
	void *to;
	const void *from;
	unsigned group;
};

struct fiber {
	struct fiber_context context;
	std::vector<struct copy> copies;
	unsigned n_groups;
	char *stack;
	enum state state;
	unsigned n_brought;
	/* to where it waits, and to where it waited before: others may still be looking there */
	unsigned brought[2];
	struct operands operands[2];
};

static struct fiber fibers[MAX_THREADS];
static struct fiber_context scheduler;
static unsigned running; /* the thread whose turn it is */
static unsigned n_launches;
static const std::function<void()> *body;
static pthread_mutex_t one_launch = PTHREAD_MUTEX_INITIALIZER;

static void fail(const char *what)
{
	fprintf(stderr, "simt: block %u, thread %u: %s\n", blockIdx.x, running, what);
	abort();
}

/* Which of the values that were brought is that of this wait. */
static unsigned wait_as(enum state state, unsigned value)
{
	struct fiber *self = &fibers[running];
	unsigned at = self->n_brought++ % 2;

	self->state = state;
	self->brought[at] = value;
	fiber_switch(&self->context, &scheduler);
	return at;
}

static void fiber_main()
{
	struct fiber *self = &fibers[running];

	(*body)();
	self->state = DONE;
	fiber_switch(&self->context, &scheduler);
	fail("went on after its end");
}

static void fiber_start(unsigned thread)
{
	struct fiber *fiber = &fibers[thread];

	if (!fiber->stack)
		fiber->stack = static_cast<char *>(malloc(STACK_SIZE));
	if (!fiber->stack)
		fail("no memory for a stack");
	fiber_make(&fiber->context, fiber->stack, STACK_SIZE, fiber_main);
	fiber->state = RUNNABLE;
	fiber->n_brought = 0;
	fiber->copies.clear();
	fiber->n_groups = 0;
}

/* The i-th of n in this launch's order: forward, backward, or in strides. */
static size_t in_order(size_t i, size_t n)
{
	switch (n_launches % 3) {
	case 0:
		return i;
	case 1:
		return n - 1 - i;
	default:
		break;
	}
	/* 7919 is a prime that divides no count of threads or blocks here, or all would not be
	 * met. */
	return n % 7919 ? i * 7919 % n : i;
}

/* Lets go on [first, first + n) if all of them wait at the same kind of place. */
static bool release(unsigned first, unsigned n, enum state state)
{
	for (unsigned i = 0; i < n; i++) {
		if (fibers[first + i].state != state)
			return false;
	}
	for (unsigned i = 0; i < n; i++)
		fibers[first + i].state = RUNNABLE;
	return true;
}

static bool run_runnable(unsigned n_threads)
{
	bool any = false;

	for (unsigned i = 0; i < n_threads; i++) {
		unsigned thread = (unsigned)in_order(i, n_threads);

		if (fibers[thread].state != RUNNABLE)
			continue;
		any = true;
		running = thread;
		threadIdx.x = thread;
		fiber_switch(&scheduler, &fibers[thread].context);
	}
	return any;
}

static bool all_done(unsigned n_threads)
{
	for (unsigned i = 0; i < n_threads; i++) {
		if (fibers[i].state != DONE)
			return false;
	}
	return true;
}

static void block_run(unsigned n_threads)
{
	if (__start_simt_shared)
		memset(__start_simt_shared, POISON,
		       (size_t)(__stop_simt_shared - __start_simt_shared));
	for (unsigned i = 0; i < n_threads; i++)
		fiber_start(i);
	while (!all_done(n_threads)) {
		bool any = run_runnable(n_threads);

		for (unsigned warp = 0; warp < n_threads; warp += WARP)
			any |= release(warp, WARP, AT_SHUFFLE);
		any |= release(0, n_threads, AT_BARRIER);
		if (!any && !all_done(n_threads))
			fail("some threads wait where others never come");
	}
}

void simt_launch(size_t n_blocks, unsigned n_threads, const std::function<void()> &kernel)
{
	if (n_threads > MAX_THREADS || n_threads % WARP)
		fail("a block of that many threads");
	pthread_mutex_lock(&one_launch);
	simt_counts_begin();
	body = &kernel;
	gridDim = { (unsigned)n_blocks, 1, 1 };
	blockDim = { n_threads, 1, 1 };
	threadIdx = { 0, 0, 0 };
	for (size_t i = 0; i < n_blocks; i++) {
		blockIdx = { (unsigned)in_order(i, n_blocks), 0, 0 };
		block_run(n_threads);
	}
	n_launches++;
	simt_counts_end();
	pthread_mutex_unlock(&one_launch);
}

void __syncthreads()
{
	wait_as(AT_BARRIER, 0);
}

int __syncthreads_or(int predicate)
{
	unsigned at = wait_as(AT_BARRIER, predicate != 0);
	int any = 0;

	for (unsigned i = 0; i < blockDim.x; i++)
		any |= (int)fibers[i].brought[at];
	return any;
}

unsigned __shfl_xor_sync(unsigned mask, unsigned value, int lane_mask)
{
	unsigned at;

	if (mask != GPU_ALL_LANES)
		fail("a shuffle of part of a warp");
	at = wait_as(AT_SHUFFLE, value);
	return fibers[running ^ (unsigned)lane_mask].brought[at];
}

unsigned __shfl_sync(unsigned mask, unsigned value, int lane)
{
	unsigned at;

	if (mask != GPU_ALL_LANES)
		fail("a shuffle of part of a warp");
	at = wait_as(AT_SHUFFLE, value);
	return fibers[running / 32 * 32 + (unsigned)lane % 32].brought[at];
}

void gpu_copy_begin(void *to, const void *from)
{
	fibers[running].copies.push_back({ to, from, fibers[running].n_groups });
}

void gpu_copies_end()
{
	fibers[running].n_groups++;
}

/* Until a thread waits for it, a copy is not made. */
void simt_copies_wait(unsigned n)
{
	struct fiber *self = &fibers[running];
	size_t n_left = 0;

	for (const struct copy &copy : self->copies) {
		if (copy.group + n < self->n_groups)
			memcpy(copy.to, copy.from, 16);
		else
			self->copies[n_left++] = copy;
	}
	self->copies.resize(n_left);
}

static float f16_at(unsigned word, unsigned i)
{
	return f16_to_f32((uint16_t)(word >> 16 * i));
}

/* Element (row, col) of the left matrix is in the thread of row % 8 and of the column's pair, those
 * of the right matrix in that of the column and of the row's pair. */
void gpu_mma_f16(float d[4], const unsigned a[4], const unsigned b[2])
{
	struct fiber *self = &fibers[running];
	const struct fiber *warp = &fibers[running / 32 * 32];
	unsigned lane = running % 32, at = self->n_brought % 2;

	self->operands[at] = { { a[0], a[1], a[2], a[3] }, { b[0], b[1] } };
	wait_as(AT_SHUFFLE, 0);
	for (unsigned i = 0; i < 4; i++) {
		unsigned row = lane / 4 + i / 2 * 8, col = lane % 4 * 2 + i % 2;

		for (unsigned k = 0; k < 16; k++) {
			unsigned pair = k % 8 / 2;
			const struct operands *left = &warp[row % 8 * 4 + pair].operands[at];
			const struct operands *right = &warp[col * 4 + pair].operands[at];

			d[i] += f16_at(left->a[row / 8 + k / 8 * 2], k % 2) *
				f16_at(right->b[k / 8], k % 2);
		}
	}
}
