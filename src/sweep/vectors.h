/* SPDX-License-Identifier: Apache-2.0
 *
 * The vectors of a layer, for weights.c: norms, biases, convolutions and factors, as fp32.  Each is
 * read once and sent to every device.
 */
#ifndef FP8CONV_SWEEP_VECTORS_H
#define FP8CONV_SWEEP_VECTORS_H

#include "sweep/weights.h"

/* Reads elements of a tensor of BF16, F16 or F32 to *values, new memory of the host, which the
 * caller frees.  ERR_INPUT for another type. */
int vector_read(struct weights *weights, const struct floats_request *request, float **values,
		struct err *err);

/* Sends n floats of the host to *values, new memory of the stream's executor, and waits. */
int vector_send(struct executor_stream *stream, const float *floats, size_t n, float **values,
		struct err *err);

/* Loads all vectors of ref to load->layers.  A NaN in a factor or in what chooses experts is
 * ERR_INPUT.  The caller frees them by vectors_release(), also after a failure. */
int vectors_load(const struct weights_load *load, const struct layer_ref *ref, struct err *err);
void vectors_release(struct layer *layer, struct executor *executor);

/* Returns the bytes of the vectors of a layer, of which each device has copies. */
uint64_t vectors_size(const struct layer_ref *ref);

#endif
