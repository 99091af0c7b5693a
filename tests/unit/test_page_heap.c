/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels/cpu/forward/page_heap.h: blocks that never overlap, pages that serve again, and never
 * more of them than blocks were in use at one time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "kernels/cpu/forward/page_heap.h"

#define PAGE	 4096
#define N_BLOCKS 24

struct block {
	unsigned char *memory;
	size_t size;
	unsigned char mark;
};

static void block_take(struct page_heap *heap, struct block *block, size_t size, int mark)
{
	struct err err = { 0 };
	void *memory;

	assert_int_equal(page_heap_take(heap, &memory, size, "a test", &err), 0);
	assert_int_equal((uintptr_t)memory % PAGE, 0);
	*block = (struct block){ memory, size, (unsigned char)mark };
	memset(memory, mark, size);
}

static void block_give(struct page_heap *heap, struct block *block)
{
	for (size_t i = 0; i < block->size; i++)
		if (block->memory[i] != block->mark)
			fail_msg("byte %zu of a block of %zu was changed", i, block->size);
	page_heap_give(heap, block->memory, block->size);
	*block = (struct block){ 0 };
}

static size_t next(uint32_t *state, size_t end)
{
	*state = *state * 1664525u + 1013904223u;
	return (*state >> 8) % end;
}

static void blocks_of_any_order_keep_their_bytes(void **state)
{
	struct block blocks[N_BLOCKS] = { 0 };
	struct page_heap heap;
	uint32_t seed = 1;

	(void)state;
	page_heap_init(&heap);
	for (int step = 0; step < 4000; step++) {
		struct block *block = &blocks[next(&seed, N_BLOCKS)];

		if (block->memory)
			block_give(&heap, block);
		else
			block_take(&heap, block, 1 + next(&seed, 40 * PAGE), step);
		if (step % 16 == 0)
			assert_true(heap.in_use + heap.kept <= heap.most);
	}
	for (int i = 0; i < N_BLOCKS; i++)
		if (blocks[i].memory)
			block_give(&heap, &blocks[i]);
	assert_int_equal(heap.in_use, 0);
	assert_true(heap.kept <= heap.most);
	page_heap_release(&heap);
}

static long faults(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

/* Layers of 64 * 57 and 64 * 60 pages by turns, of other sizes each. */
static void pages_serve_layers_of_other_sizes(void **state)
{
	static const size_t layers[2][3] = { { 40, 17, 0 }, { 30, 20, 10 } };
	struct block blocks[3] = { 0 };
	struct page_heap heap;
	long before = 0;

	(void)state;
	page_heap_init(&heap);
	for (int layer = 0; layer < 20; layer++) {
		if (layer == 2)
			before = faults();
		for (int i = 0; i < 3; i++)
			if (layers[layer % 2][i])
				block_take(&heap, &blocks[i], 64 * PAGE * layers[layer % 2][i],
					   layer);
		for (int i = 0; i < 3; i++)
			if (blocks[i].memory)
				block_give(&heap, &blocks[i]);
	}
	/* A block grows by 3 pages, and another one by 10, in 2 of 57 and 60: a fifth. */
	assert_in_range(faults() - before, 0, 18 * 64 * 57 / 5);
	assert_true(heap.kept <= 64 * PAGE * 60);
	page_heap_release(&heap);
}

/* Layers of the same sizes: all pages serve again. */
static void pages_serve_layers_of_the_same_sizes(void **state)
{
	static const size_t sizes[] = { 40, 17, 40, 3 };
	struct block blocks[4] = { 0 };
	struct page_heap heap;
	long before = 0;

	(void)state;
	page_heap_init(&heap);
	for (int layer = 0; layer < 20; layer++) {
		if (layer == 1)
			before = faults();
		for (int i = 0; i < 4; i++)
			block_take(&heap, &blocks[i], 64 * PAGE * sizes[i], layer);
		for (int i = 0; i < 4; i++)
			block_give(&heap, &blocks[i]);
	}
	assert_in_range(faults() - before, 0, 64);
	page_heap_release(&heap);
}

/* What is kept is given back where a block needs its addresses (ulimit -v). */
static void limited_addresses_are_enough(void **state)
{
	const struct rlimit limit = { (rlim_t)1 << 30, RLIM_INFINITY };
	struct block one, other;
	struct page_heap heap;
	struct rlimit before;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
	page_heap_init(&heap);
	block_take(&heap, &one, (size_t)400 << 20, 1);
	block_take(&heap, &other, (size_t)300 << 20, 2);
	block_give(&heap, &one);
	block_give(&heap, &other);
	block_take(&heap, &one, (size_t)650 << 20, 3);
	block_give(&heap, &one);
	page_heap_release(&heap);
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
}

static void more_than_the_machine_has_is_an_error(void **state)
{
	struct page_heap heap;
	struct err err = { 0 };
	void *memory;

	(void)state;
	page_heap_init(&heap);
	assert_int_equal(page_heap_take(&heap, &memory, (uint64_t)1 << 60, "a test", &err), -1);
	assert_null(memory);
	assert_non_null(strstr(err.message, "a test"));
	assert_int_equal(heap.in_use, 0);
	page_heap_release(&heap);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_of_any_order_keep_their_bytes),
		cmocka_unit_test(pages_serve_layers_of_other_sizes),
		cmocka_unit_test(pages_serve_layers_of_the_same_sizes),
		cmocka_unit_test(limited_addresses_are_enough),
		cmocka_unit_test(more_than_the_machine_has_is_an_error),
	};

	prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* a page is 4 KiB */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
