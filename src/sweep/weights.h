/* SPDX-License-Identifier: Apache-2.0
 *
 * Bringing a model's weights into memory, a layer at a time, out of a checkpoint of whatever type:
 * BF16, F16, F32, or FP8 of any variant.
 */
#ifndef FP8CONV_SWEEP_WEIGHTS_H
#define FP8CONV_SWEEP_WEIGHTS_H

#include <stdatomic.h>

#include "format/detect.h"
#include "sweep/fp8_forward.h"
#include "source/source.h"
#include "forward/forward.h"

struct weights {
	const struct forward *forward;
	struct source source;
	struct detection detection;
	int n_threads;
	const atomic_int *stop;
	struct fp8_forward *fp8; /* quantizes what it likes of them; NULL: nothing */
};

/* Matrices on their way into memory: n pieces, which any threads load in any order. */
struct weights_load {
	struct weights *weights;
	struct executor_stream *stream; /* of the thread that began it */
	size_t n;
	struct weights_piece *pieces;
	struct buffer *rows; /* by thread: what it reads pieces into, until the load is ended */
};

/* Everything must outlive it. */
int weights_open(struct weights *weights, const struct forward *forward, const struct io *io,
		 const struct backend *backend, int n_threads, const atomic_int *stop,
		 struct err *err);
/* ERR_INPUT if a file was changed since its header was read. */
int weights_close(struct weights *weights, struct err *err);
void weights_release(struct weights *weights);

/* Makes room for all that a layer has, or for a matrix, and reads the vectors.  Whatever it
 * returns, *load is to be ended, and the layer or matrix released, which needs not have been loaded
 * whole. */
int weights_begin_layer(struct weights_load *load, struct weights *weights,
			struct executor_stream *stream, const struct layer_ref *ref,
			struct layer *layer, struct err *err);
int weights_begin_linear(struct weights_load *load, struct weights *weights,
			 struct executor_stream *stream, const struct linear_ref *ref,
			 struct linear *linear, struct err *err);

/* Piece i < load->n, by thread `worker` of weights->n_threads; or all pieces, by all those
 * threads. */
int weights_load_piece(struct weights_load *load, int worker, size_t i, struct err *err);
int weights_load_pieces(struct weights_load *load, struct err *err);

/* All pieces are loaded, or none will be any more: the amax of each matrix, in the type of the
 * checkpoint, goes into linear.amax. */
void weights_load_end(struct weights_load *load);

/* Loads what was begun, unless rc is not 0, by one thread, and ends it.  Returns rc, or -1. */
int weights_load_all(struct weights_load *load, int worker, int rc, struct err *err);

void layer_release(struct layer *layer, struct executor *executor);

/* One matrix, by one thread; one vector, as fp32, which is freed as the executor's memory is. */
int weights_load_linear(struct weights *weights, int worker, struct executor_stream *stream,
			const struct linear_ref *ref, struct linear *linear, struct err *err);
void linear_release(struct linear *linear);
int weights_load_vector(struct weights *weights, struct executor_stream *stream,
			const struct tensor_ref *ref, float **vector, struct err *err);

/* Rows of the embedding, scaled as the model has it, into memory of the host: rows (n_tokens,
 * hidden). */
int weights_read_embeddings(struct weights *weights, const uint32_t *tokens, size_t n_tokens,
			    float *rows, struct err *err);

/* What decides how much memory weights take. */
struct weights_kind {
	const struct executor_ops *executor;
	enum dtype dtype; /* that is multiplied */
	bool quantized;	  /* some at least */
};

/* Bytes that a matrix takes in memory; that a piece of it takes while a thread loads it; that the
 * largest layer, or the head, takes with a piece for each thread that finds one, and ahead: with
 * what goes before it, as the head does before the first. */
uint64_t weights_linear_size(const struct linear_ref *ref, const struct weights_kind *kind);
uint64_t weights_piece_size(const struct linear_ref *ref, const struct weights_kind *kind);
uint64_t weights_layer_size(const struct model *model, const struct weights_kind *kind,
			    int n_threads, bool ahead);

#endif
