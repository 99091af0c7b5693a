/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend does arithmetic on matrices in memory.  It hears of tiles, formats and rounding
 * (qspec), never of recipes, tensors or files.  Every backend gives the bytes of the scalar
 * reference (kernels/cpu/cast/reference.c), which is the specification.
 *
 * All functions but error() and quantize_fp4() are required.  They work on the calling thread,
 * allocate nothing that depends on the matrix, and any number of threads may call them at once.
 * Matrices are row-major; data need not be aligned to its element.  Callers use dispatch.h, which
 * checks the arguments, and ask backend_failed() before they use the results.
 */
#ifndef FP8CONV_BACKEND_BACKEND_H
#define FP8CONV_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "backend/executor.h"
#include "base/err.h"
#include "num/activation.h"
#include "num/dtype.h"
#include "num/norm.h"
#include "num/qspec.h"
#include "num/scale_grid.h"

struct device_ops;

/* A matrix (rows, cols) of BF16, F16 or F32 to read.  stride: elements from one row to the next, >=
 * cols. */
struct matrix {
	const void *data;
	enum dtype dtype;
	size_t rows;
	size_t cols;
	size_t stride;
};

/* A matrix (rows, cols) of MXFP4 to read: E2M1 codes, two in a byte, the first in the low nibble;
 * an E8M0 scale for each group of MXFP4_GROUP along a row. */
struct fp4_matrix {
	const uint8_t *codes;
	const uint8_t *scales;
	size_t rows;
	size_t cols;
	size_t stride; /* elements from one row to the next, in the codes and in the scales */
};

struct quant_stats {
	/* finite values whose scaled magnitude rounds beyond the largest code, and every inf */
	uint64_t saturated;
	uint64_t nonfinite; /* NaN and inf in the source */
};

/* Where codes and their scale_inv are written.  The tile grid is (ceil(rows/tile.rows),
 * ceil(cols/tile.cols)). */
struct quant_out {
	uint8_t *codes;	     /* (rows, cols) */
	size_t stride;	     /* codes from one row to the next, >= cols */
	void *scale_inv;     /* tile grid: float, or uint8_t for SCALE_E8M0; may be unaligned */
	size_t scale_stride; /* scales from one row of the grid to the next */
	struct quant_stats *stats; /* added to */
	bool streaming;		   /* no code is read soon: stores may bypass the caches */
};

/* Codes and their scales to read.  Tiles begin at the first row and column. */
struct quant_in {
	const uint8_t *codes; /* (rows, cols) */
	size_t rows, cols, stride;
	enum fp8_format format;
	struct tile tile;
	enum scale_type scale_type;
	const void *scale_inv; /* tile grid, as in quant_out */
	size_t scale_stride;
};

/* The loss by rounding, in sums over finite x: SQNR = 10 log10(signal / noise) dB. */
struct error_stats {
	double signal; /* sum of x^2 */
	double noise;  /* sum of (x - code * scale_inv)^2 */
};

/* One copy of a matrix in FP8, quantized along its rows.  The columnwise copy of (rows, cols) is
 * that of its transpose (cols, rows). */
struct fp8_copy {
	/* code (i, j) is at i * row_stride + j * col_stride; NULL: this copy is not wanted */
	uint8_t *codes;
	size_t row_stride, col_stride;
	void *scale_inv; /* float, or uint8_t for SCALE_E8M0; padding stays unchanged */
	struct scale_grid grid;
};

/* The output of an operation whose output is FP8: codes, together with their scale_inv. */
struct fp8_out {
	struct fp8_copy rowwise, columnwise;
	/* delayed scaling: the factor of the output; NULL: each tile has its own scale */
	const float *scale;
	float *amax; /* delayed scaling: raised to max |output|, ignoring NaN; or NULL */
	struct quant_stats *stats; /* added to, once for both copies */
};

/* RMSNorm and LayerNorm (num/norm.h has the arithmetic and its order). */
struct norm_args {
	enum norm_kind kind;
	struct matrix x;
	struct matrix gamma; /* (1, cols) */
	struct matrix beta;  /* (1, cols), LayerNorm; data NULL: none */
	float epsilon;
	bool zero_centered_gamma; /* 1 + gamma takes the place of gamma */
	float *mu;		  /* (rows): written, LayerNorm only */
	float *rsigma;		  /* (rows): written */
};

/* SiLU, GELU and squared ReLU; with a second matrix SwiGLU and GeGLU (num/activation.h). */
struct activation_args {
	enum activation activation;
	struct matrix x;
	struct matrix up; /* (rows, cols) of x: multiplies the activated x; data NULL: none */
};

struct backend {
	const char *name;    /* "avx512" */
	const char *summary; /* the instructions or device that it needs, for `version` */
	int rank;	     /* `auto` takes the usable CPU backend with the highest rank */
	bool on_device; /* not the CPU: `auto` takes it for forward passes only (self_test.h) */
	/* bytes of a matrix that it works best on at once; 0: as fit the cache of a CPU */
	size_t band;

	/* Returns NULL where this machine can run it, else the reason ("no AVX-512VBMI"). */
	const char *(*unusable)(void);

	/* Of a backend on_device, else NULL.  The first returns how many devices it can use, 0
	 * where it is unusable.  The second makes it use n >= 1 of them alone, by their numbers,
	 * in that order; called at most once, before any work. */
	int (*n_devices)(void);
	void (*use_devices)(const int *devices, int n);

	/* Returns 0, or ERR_SYSTEM with the call, the device and its message where something failed
	 * on the calling thread since the last call.  Then all results since that call are
	 * invalid. */
	int (*failed)(struct err *err);

	/* Raises each amax[grid row * amax_stride + grid col] to max |x| over its tile.  Ignores
	 * NaN and counts inf.  Adds the number of NaN and inf to *n_nonfinite. */
	void (*amax)(const struct matrix *x, struct tile tile, float *amax, size_t amax_stride,
		     uint64_t *n_nonfinite);

	/* Writes codes and their scale_inv.  amax NULL: x holds whole tiles, the last ones may be
	 * ragged, and the amax of each is computed in the same pass.  Else amax (the tile grid of
	 * x, with row stride amax_stride) is that of the whole tiles, taken before, which may be
	 * larger than x; with ARITH_GIVEN it holds scales. */
	void (*cast)(const struct matrix *x, const struct qspec *spec, const float *amax,
		     size_t amax_stride, const struct quant_out *out);

	/* The same of the values of an MXFP4 matrix in fp32.  Adds to *n_changed how many values
	 * code * scale_inv differ from them in a bit.  Returns false, with nothing added, where it
	 * does not take x: tiles or rows that are not whole groups, tiles more than 32768 columns
	 * wide, values that may be beyond fp32.  NULL: takes none. */
	bool (*quantize_fp4)(const struct fp4_matrix *x, const struct qspec *spec,
			     const struct quant_out *out, uint64_t *n_changed);

	/* y = (T)((float)code * scale_inv): one product and one rounding; y is BF16, F16 or F32.
	 * E8M0: the factor is 2^(byte-127), 0xFF is NaN. */
	void (*dequantize)(const struct quant_in *q, enum dtype dtype, void *y, size_t y_stride);

	/* Adds to *stats.  The last digits may depend on the backend.  NULL: backend_error() asks
	 * the reference. */
	void (*error)(const struct matrix *x, const struct quant_in *q, struct error_stats *stats);

	/* Returns 0 where a GEMM here can take operands of this spec (also by exact emulation),
	 * else ERR_USAGE with the missing feature ("compute capability 8.6, block scaling needs
	 * 9.0"), or ERR_SYSTEM with a missing library. */
	int (*supports)(const struct qspec *spec, struct err *err);

	/* The operations whose output is FP8.  Each element of the output is one fp32 number v (in
	 * a cast: x), which has no other rounding.  Its code is fp8(v * scale), with the given
	 * scale, or with the scale of its tile from the amax of v.  A given scale has scale_inv = 1
	 * / scale.  The scale of a block is bounded by the range of x's type in a cast, else by
	 * that of fp32. */

	void (*cast_transpose)(const struct matrix *x, const struct qspec *spec,
			       const struct fp8_out *out);

	void (*norm)(const struct norm_args *args, const struct qspec *spec,
		     const struct fp8_out *out);

	void (*activate)(const struct activation_args *args, const struct qspec *spec,
			 const struct fp8_out *out);

	/* The same on matrices in the memory of a device.  NULL: takes none. */
	const struct device_ops *in_place;

	const struct executor_ops *executor; /* runs the forward passes beside this backend */
};

/* Every backend of this build, the reference first, NULL at the end (kernels/backends.c). */
extern const struct backend *const backends[];

#endif
