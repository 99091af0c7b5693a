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

#include "backend/backend.h"
#include "base/err.h"
#include "num/scale_grid.h"

struct device_queue;

/* Codes to read whose scales, or values, do not lie by rows. */
struct fp8_scattered {
	struct quant_in q;	/* without scale_stride */
	struct scale_grid grid; /* of the scales of one copy */
	enum dtype scale_dtype; /* also BF16 and F16, whatever q.scale_type */
	bool grid_turned;	/* the grid is of the transpose of the codes */
	bool turned;		/* the values lie as the transpose of the codes */
};

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
	/* Copy n bytes from the host, which do not change before the next fetch(); on the device;
	 * and to the host. */
	void (*put)(struct device_queue *queue, void *to, const void *from, size_t n);
	void (*move)(struct device_queue *queue, void *to, const void *from, size_t n);
	void (*fetch)(struct device_queue *queue, void *to, const void *from, size_t n);

	/* Returns where the operations below add the number of elements that are NaN or inf: on the
	 * device, not zeroed. */
	unsigned long long *(*nonfinite)(struct device_queue *queue);

	/* The functions of struct backend, with all pointers on the device.  Elements and scales
	 * are aligned to their size.  amax and out->amax are zeroed before.  known: the amax of
	 * each tile of the rowwise copy; or NULL. */
	void (*amax)(struct device_queue *queue, const struct matrix *x, struct tile tile,
		     float *amax);
	void (*cast_transpose)(struct device_queue *queue, const struct matrix *x,
			       const struct qspec *spec, const float *known,
			       const struct fp8_out *out);
	void (*dequantize)(struct device_queue *queue, const struct quant_in *q, enum dtype dtype,
			   void *y, size_t y_stride);
	void (*dequantize_scattered)(struct device_queue *queue, const struct fp8_scattered *from,
				     enum dtype dtype, void *y, size_t y_stride);
};

#endif
