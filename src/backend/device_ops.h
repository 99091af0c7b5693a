/* SPDX-License-Identifier: Apache-2.0
 *
 * Operations of a backend on matrices that lie in the memory of a device already.
 *
 * Order: open() once for each device and thread; begin(); any of the operations; end(); close().
 * All work goes to a stream of the caller, in its order; only fetch() waits for it.  A queue
 * remembers its first failure, and end() returns it; the work between is invalid.
 */
#ifndef FP8CONV_BACKEND_DEVICE_OPS_H
#define FP8CONV_BACKEND_DEVICE_OPS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "num/dtype.h"
#include "num/qspec.h"

struct matrix;
struct fp8_out;
struct quant_in;
struct device_queue;

struct device_ops {
	/* Opens a queue on the device with this number of the runtime.  ERR_USAGE without it. */
	int (*open)(struct device_queue **queue, int number, struct err *err);
	void (*close)(struct device_queue *queue);

	/* stream: of the runtime; NULL: its default one.  Gives back what was taken before. */
	void (*begin)(struct device_queue *queue, void *stream);
	int (*end)(struct device_queue *queue, struct err *err);

	/* Returns n bytes until the next begin(); NULL after a failure. */
	void *(*take)(struct device_queue *queue, size_t n);
	void (*zero)(struct device_queue *queue, void *memory, size_t n);
	/* Copy n bytes from the host, which do not change before the next fetch(), and to it. */
	void (*put)(struct device_queue *queue, void *to, const void *from, size_t n);
	void (*fetch)(struct device_queue *queue, void *to, const void *from, size_t n);

	/* The functions of struct backend, with all pointers on the device.  Elements and scales
	 * are aligned to their size.  amax and out->amax are zeroed before; nothing is counted. */
	void (*amax)(struct device_queue *queue, const struct matrix *x, struct tile tile,
		     float *amax);
	void (*cast_transpose)(struct device_queue *queue, const struct matrix *x,
			       const struct qspec *spec, const struct fp8_out *out);
	void (*dequantize)(struct device_queue *queue, const struct quant_in *q, enum dtype dtype,
			   void *y, size_t y_stride);
};

#endif
