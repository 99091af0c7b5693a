/* SPDX-License-Identifier: Apache-2.0
 *
 * What a test may say of the GPU that tests/simt/device.cc is.
 */
#ifndef FP8CONV_TESTS_SIMT_DEVICE_H
#define FP8CONV_TESTS_SIMT_DEVICE_H

#include <stddef.h>
#include <stdint.h>

extern const char *simt_missing; /* why there is no GPU; NULL: there is one */
extern int simt_capability;	 /* 90 for 9.0 */
extern int simt_devices;	 /* how many GPUs there are: 1 */
extern long simt_calls_left;	 /* that go well, then all fail; -1: no end */
extern int simt_calls_device;	 /* the GPU whose calls these are; -1: all GPUs */
/* to the host that go well, then the first row of the next is wrong; -1: none is */
extern long simt_copies_left;
extern size_t simt_room;	    /* bytes that a stream may take at once */
extern uint64_t simt_memory;	    /* bytes that are free; UINT64_MAX: no end */
extern uint64_t simt_reported;	    /* bytes that a device reports as free, at most */
extern uint64_t simt_reported_of[]; /* bytes that this GPU reports as free; 0: as the others */
extern long simt_allocations_left;  /* that go well, then one fails for memory; -1: none */
extern long
	simt_held; /* streams and pieces of memory that were made by device_*_new() and not freed */

#endif
