/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of cast/ on matrices that a caller has on the GPU, in the order of its stream.
 */
extern "C" {
#include "base/mem.h"
#include "kernels/gpu/backend.h"
#include "kernels/gpu/device.h"
}

#include <stdlib.h>

#include "backend/device_ops.h"
#include "kernels/gpu/cast/cast.h"

struct device_queue {
	struct device_stream *stream;
	unsigned long long *counts; /* (N_COUNTS) */
};

static int queue_open(struct device_queue **queue, int number, struct err *err)
{
	const char *missing = device_missing();
	int device = missing ? -1 : device_numbered(number);
	struct device_stream *stream;

	if (missing)
		return err_set(err, ERR_USAGE, "no GPU can be used: %s", missing);
	if (device < 0)
		return err_set(err, ERR_USAGE, "GPU %d is none of the %d that can be used", number,
			       device_count());
	stream = device_stream_new(device, err);
	if (!stream)
		return -1;
	*queue = static_cast<struct device_queue *>(xcalloc(1, sizeof **queue));
	(*queue)->stream = stream;
	return 0;
}

static void queue_close(struct device_queue *queue)
{
	if (queue)
		device_stream_free(queue->stream);
	free(queue);
}

static void *queue_take(struct device_queue *queue, size_t n)
{
	return device_take(queue->stream, n);
}

static void queue_begin(struct device_queue *queue, void *stream)
{
	device_borrow(queue->stream, stream);
	device_begin(queue->stream);
	queue->counts = static_cast<unsigned long long *>(
		queue_take(queue, N_COUNTS * sizeof *queue->counts));
}

static int queue_end(struct device_queue *queue, struct err *err)
{
	device_return(queue->stream);
	return device_stream_failed(queue->stream, err);
}

static void queue_zero(struct device_queue *queue, void *memory, size_t n)
{
	device_zero(queue->stream, memory, n);
}

static void queue_put(struct device_queue *queue, void *to, const void *from, size_t n)
{
	device_bytes_in(queue->stream, to, from, n);
}

static void queue_move(struct device_queue *queue, void *to, const void *from, size_t n)
{
	device_move(queue->stream, to, from, n);
}

static void queue_fetch(struct device_queue *queue, void *to, const void *from, size_t n)
{
	device_bytes_out(queue->stream, to, from, n);
	device_wait(queue->stream);
}

static unsigned long long *queue_nonfinite(struct device_queue *queue)
{
	return queue->counts;
}

static void queue_amax(struct device_queue *queue, const struct matrix *x, struct tile tile,
		       float *amax)
{
	if (!device_stream_stopped(queue->stream))
		gpu_tile_amax(queue->stream, x, tile, false, amax, queue->counts);
}

static void queue_cast_transpose(struct device_queue *queue, const struct matrix *x,
				 const struct qspec *spec, const float *known,
				 const struct fp8_out *out)
{
	if (!device_stream_stopped(queue->stream))
		gpu_cast(queue->stream, x, spec, known, out, queue->counts);
}

static void queue_dequantize(struct device_queue *queue, const struct quant_in *q, enum dtype dtype,
			     void *y, size_t y_stride)
{
	if (!device_stream_stopped(queue->stream))
		gpu_dequantize(queue->stream, q, dtype, y, y_stride);
}

static void queue_dequantize_scattered(struct device_queue *queue, const struct fp8_scattered *from,
				       enum dtype dtype, void *y, size_t y_stride)
{
	if (!device_stream_stopped(queue->stream))
		gpu_dequantize_scattered(queue->stream, from, dtype, y, y_stride);
}

extern "C" const struct device_ops gpu_in_place = {
	.open = queue_open,
	.close = queue_close,
	.begin = queue_begin,
	.end = queue_end,
	.take = queue_take,
	.zero = queue_zero,
	.put = queue_put,
	.move = queue_move,
	.fetch = queue_fetch,
	.nonfinite = queue_nonfinite,
	.amax = queue_amax,
	.cast_transpose = queue_cast_transpose,
	.dequantize = queue_dequantize,
	.dequantize_scattered = queue_dequantize_scattered,
};
