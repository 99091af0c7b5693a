/* SPDX-License-Identifier: Apache-2.0
 *
 * The calls that a compiler adds to each access of memory for ThreadSanitizer (-fsanitize=thread),
 * whose library is not linked: they count the accesses of kernels.
 */
#include "tests/simt/counts.h"

#define ACCESSES(size)                               \
	void __tsan_read##size(void *at);            \
	void __tsan_write##size(void *at);           \
	void __tsan_unaligned_read##size(void *at);  \
	void __tsan_unaligned_write##size(void *at); \
	void __tsan_read##size(void *at)             \
	{                                            \
		simt_counts_access(at, size, false); \
	}                                            \
	void __tsan_write##size(void *at)            \
	{                                            \
		simt_counts_access(at, size, true);  \
	}                                            \
	void __tsan_unaligned_read##size(void *at)   \
	{                                            \
		simt_counts_access(at, size, false); \
	}                                            \
	void __tsan_unaligned_write##size(void *at)  \
	{                                            \
		simt_counts_access(at, size, true);  \
	}

ACCESSES(2)
ACCESSES(4)
ACCESSES(8)
ACCESSES(16)

/* A byte is never a value of the device here: only flags of the arguments are read so. */
void __tsan_read1(void *at);
void __tsan_write1(void *at);
void __tsan_read_range(void *at, long size);
void __tsan_write_range(void *at, long size);
void __tsan_init(void);
void __tsan_func_entry(void *caller);
void __tsan_func_exit(void *unused);

void __tsan_read1(void *at)
{
	(void)at;
}

void __tsan_write1(void *at)
{
	(void)at;
}

void __tsan_read_range(void *at, long size)
{
	simt_counts_access(at, (size_t)size, false);
}

void __tsan_write_range(void *at, long size)
{
	simt_counts_access(at, (size_t)size, true);
}

void __tsan_init(void)
{
}

void __tsan_func_entry(void *caller)
{
	(void)caller;
}

/* Called without arguments; declared as compilers with a sanitizer know it. */
void __tsan_func_exit(void *unused)
{
	(void)unused;
}
