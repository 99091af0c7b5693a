/* SPDX-License-Identifier: Apache-2.0
 *
 * What the emulated device is asked to do, counted.  The bytes are of a launch: each byte of
 * the device's memory that its threads read counts once, and each that they write, as if a launch
 * had all memory in its caches.  They are counted in programs whose kernels are compiled for it
 * (tests/tests.mk: SIMT_COUNTED), and do not include the products of the library.
 */
#ifndef FP8CONV_TESTS_SIMT_COUNTS_H
#define FP8CONV_TESTS_SIMT_COUNTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct simt_counts {
	uint64_t n_launches;	    /* of kernels, and of fills of memory; without products */
	uint64_t n_read, n_written; /* bytes */
	uint64_t n_copies_in, n_bytes_in, n_copies_out, n_bytes_out;
	uint64_t n_copies_between; /* runs of copies to the device with launches before and after */
	uint64_t n_waits;
	uint64_t n_allocations; /* of memory that all streams share */
	/* uses of the memory of another device, which a real one cannot reach: by copies, fills and
	 * products, and by kernels in programs that count their accesses */
	uint64_t n_foreign;
};

extern struct simt_counts simt_counts;

/* Add memory of a device, whose accesses count from then on, and forget it: returns its size. */
void simt_counts_add(void *memory, size_t size, int device);
size_t simt_counts_remove(void *memory);

/* Makes the launches and products of this thread from now on a device's.  The other one
 * counts a use of this address by them, if it lies on another device. */
void simt_counts_device(int device);
void simt_counts_use(const void *address);

/* Begin and end the count of a launch. */
void simt_counts_begin(void);
void simt_counts_end(void);

/* Counts an access of a kernel; outside of launches and of the device's memory it does nothing. */
void simt_counts_access(const void *address, size_t size, bool writes);

#ifdef __cplusplus
}
#endif

#endif
