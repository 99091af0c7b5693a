/* SPDX-License-Identifier: Apache-2.0
 *
 * Loads a model's weights, a layer at a time, from a checkpoint of any type: BF16, F16, F32, any
 * variant of FP8, or 4 bits.  On several devices each has a copy of all weights; a file is read
 * once.  Arrays "by device" have one element for each device of the forward pass.
 *
 * Order: weights_open(); for each layer weights_begin_layer(), then all pieces, from one thread or
 * several, and weights_load_end(); layer_release(); at the end weights_close() and
 * weights_release().
 */
#ifndef FP8CONV_SWEEP_WEIGHTS_H
#define FP8CONV_SWEEP_WEIGHTS_H

#include <stdatomic.h>

#include "format/detect.h"
#include "format/low_bit.h"
#include "sweep/fp8_forward.h"
#include "source/source.h"
#include "forward/forward.h"

/* model_open() of a view of the checkpoint, in which low-bit weights are tensors of the model, and
 * their matrices have the places of rows in the file.  The caller releases the model, then the
 * view, also after a failure; view and checkpoint must outlive the model. */
int weights_open_model(struct model *model, struct low_bit_view *view,
		       const struct checkpoint *checkpoint, const char *advice, struct err *err);

struct weights {
	const struct forward *forward;
	struct source source;
	struct detection detection;
	int n_threads;
	const atomic_int *stop;
	struct fp8_forward *fp8; /* quantizes its modules; NULL: no matrix is quantized */
	struct buffer *rows;	 /* by thread: a piece as it is read; kept, as its pages are */
};

/* Matrices that are being loaded: n pieces, which any threads load in any order. */
struct weights_load {
	struct weights *weights;
	/* by device: of the thread that began the loading */
	struct executor_stream *const *streams;
	struct layer *layers;	/* by device; NULL: one matrix is loaded, */
	struct linear *linears; /* to these, by device */
	size_t n, n_matrices;
	struct weights_piece *pieces;
	struct matrix_load *matrices; /* of the pieces */
};

/* All pointers must stay valid until weights_release(). */
struct weights_params {
	const struct forward *forward;
	const struct io *io;
	int n_threads;
	const atomic_int *stop; /* NULL: never */
};

/* Opens the source of the weights.  Their values are decoded on the CPU, which also finds their
 * amax, and go to each device once. */
int weights_open(struct weights *weights, const struct weights_params *params, struct err *err);
/* ERR_INPUT if a file was changed since its header was read. */
int weights_close(struct weights *weights, struct err *err);
void weights_release(struct weights *weights);

/* Reads a row of n columns of a table of embeddings, a tensor that is not loaded as a whole, as
 * fp32.  ERR_INPUT, with the tensor, for a type that no weight has, and for FP8 codes without a
 * value. */
struct table_row {
	const struct tensor_ref *ref;
	uint64_t row;
	size_t n;
};
int weights_read_row(struct weights *weights, const struct table_row *from, float *values,
		     struct err *err);

/* Allocates all weights of a layer, or a matrix, on each device, and reads the vectors; the arrays
 * by device must stay until weights_load_end().  In every case, also after a failure, the caller
 * calls weights_load_end(), and releases the layers or matrices, which may be partly loaded. */
int weights_begin_layer(struct weights_load *load, struct weights *weights,
			struct executor_stream *const *streams, const struct layer_ref *ref,
			struct layer *layers, struct err *err);
int weights_begin_linear(struct weights_load *load, struct weights *weights,
			 struct executor_stream *const *streams, const struct linear_ref *ref,
			 struct linear *linears, struct err *err);

/* Loads piece i < load->n on thread `worker` of weights->n_threads; or loads all pieces on all
 * those threads. */
int weights_load_piece(struct weights_load *load, int worker, size_t i, struct err *err);
int weights_load_pieces(struct weights_load *load, struct err *err);

/* Ends a loading, complete or not, and sets linear.amax of each matrix, in the type of the
 * checkpoint. */
void weights_load_end(struct weights_load *load);

void layer_release(struct layer *layer, struct executor *executor);

void linear_release(struct linear *linear);

/* Loads the vectors of the final norm as fp32, to each device.  The caller releases them for each
 * device, also after a failure. */
int weights_load_last(struct weights *weights, struct executor_stream *const *streams,
		      float *(*last)[N_LAST_VECTORS], struct err *err);
void weights_release_last(float **last, struct executor *executor);

/* The facts that determine the memory of weights. */
struct weights_kind {
	const struct executor_ops *executor;
	enum dtype dtype; /* of the products */
};

/* Return bytes: of the weights of all layers and the head; of the largest layer, or the head, and
 * if `ahead` of the stage before it (the head comes before the first layer), with the memory for
 * the largest pieces, which each thread keeps. */
uint64_t weights_model_size(const struct model *model, const struct weights_kind *kind);
uint64_t weights_layer_size(const struct model *model, const struct weights_kind *kind,
			    int n_threads, bool ahead);

#endif
