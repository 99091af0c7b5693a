/* SPDX-License-Identifier: Apache-2.0
 *
 * The loop that the vector backends share.  A panel is some adjacent tiles that fit the L2 cache
 * together: its amax is computed row by row, then its scales, then its codes, while the next rows
 * are fetched into L1 and the next panel into L2.  An instruction set supplies the functions of a
 * row (struct row_ops).  They may refuse: a row with a NaN, an inf or a value that saturates is
 * cast again by the scalar reference, which also counts it.
 */
#ifndef FP8CONV_KERNELS_CPU_CAST_PANEL_H
#define FP8CONV_KERNELS_CPU_CAST_PANEL_H

#include "backend/backend.h"

#define PANEL_TILES 128
#define PANEL_COLS  4096 /* unless one tile is wider */
#define LANES_SIZE  64	 /* bytes of running maxima for each tile */

/* The computation of a panel's codes from its values. */
enum cast_path {
	CAST_SHIFT,    /* bf16 times a power of two: integer arithmetic on 16 bits */
	CAST_MULTIPLY, /* x * factor */
	CAST_DIVIDE,   /* x / factor */
	N_CAST_PATHS
};

enum { SOURCE_BF16, SOURCE_F16, SOURCE_F32, N_SOURCES };

static inline size_t source_size(int source)
{
	return source == SOURCE_F32 ? 4 : 2;
}

enum { N_FORMATS = 2 };

/* The parameters of row_cast_as(), the template of all casts; always constants. */
struct cast_params {
	enum cast_path path;
	int source;
	enum fp8_format format;
};

struct panel_scales {
	float factor[PANEL_TILES];
	float scale_inv[PANEL_TILES];
	uint8_t e8m0[PANEL_TILES];
	/* CAST_SHIFT: shift_base() twice, in the upper and the lower half */
	uint32_t base[PANEL_TILES];
	bool amax_exact; /* input: no |x| is above the given amax */
};

/* One row of a panel.  If streaming, as many bytes as x has are fetched from three places.  A place
 * that is x itself fetches nothing new, so the loop needs no branch. */
struct row {
	const void *x;
	const void *to_cast; /* into L1 */
	const void *to_amax; /* into L1 */
	const void *ahead;   /* into L2 */
	size_t n;	     /* elements */
	size_t tile_cols;    /* the last tile may be shorter */
	const struct panel_scales *scales;
	uint8_t *codes;
	bool streaming;
};

/* Fetches from the places that correspond to `size` bytes of x at `offset`. */
static inline __attribute__((always_inline)) void row_fetch(const struct row *r, size_t offset,
							    size_t size)
{
	for (size_t end = offset + size; offset < end; offset += 64) {
		__builtin_prefetch((const char *)r->to_cast + offset, 0, 3);
		__builtin_prefetch((const char *)r->to_amax + offset, 0, 3);
		__builtin_prefetch((const char *)r->ahead + offset, 0, 2);
	}
}

/* A row of codes to read. */
struct code_row {
	const uint8_t *codes;
	size_t n;
	size_t tile_cols;
	const float *scale_inv; /* of each tile */
};

typedef bool row_cast(const struct row *row);
typedef void row_dequantize(const struct code_row *q, void *y);
typedef void row_error(const struct code_row *q, const void *x, struct error_stats *stats);

struct row_ops {
	/* Computes lanes (LANES_SIZE bytes for each tile): maxima of the bits of |x|, lane by lane.
	 * fresh: begins them, else raises them. */
	void (*row_amax[N_SOURCES])(const void *x, size_t n, size_t tile_cols, void *lanes,
				    bool fresh);

	/* Computes amax[tile] from the lanes, which need not be aligned; ignores signs.  Returns
	 * false if one is not finite: then amax is invalid. */
	bool (*lanes_amax[N_SOURCES])(const void *lanes, size_t n_tiles, float *amax);

	/* Computes scaling_from_amax() for n tiles.  Returns false if CAST_SHIFT would not be exact
	 * for bf16. */
	bool (*scales)(const struct qspec *spec, float limit, const float *amax, size_t n,
		       struct panel_scales *scales);

	/* Write the codes.  Return false if a value is not finite or saturates: then the codes are
	 * invalid. */
	row_cast *const (*casts)[N_SOURCES][N_FORMATS]; /* [enum cast_path] */

	row_dequantize *const (*dequantizes)[N_FORMATS]; /* [N_SOURCES] */
	row_error *const (*errors)[N_FORMATS];		 /* [N_SOURCES] */
};

/* The functions of the same names in struct backend, over panels. */
void panel_amax(const struct row_ops *ops, const struct matrix *x, struct tile tile, float *amax,
		size_t amax_stride, uint64_t *n_nonfinite);
/* As cast() of a backend. */
void panel_quantize(const struct row_ops *ops, const struct matrix *x, const struct qspec *spec,
		    const float *amax, size_t amax_stride, const struct quant_out *out);
void panel_dequantize(const struct row_ops *ops, const struct quant_in *q, enum dtype dtype,
		      void *y, size_t y_stride);
void panel_error(const struct row_ops *ops, const struct matrix *x, const struct quant_in *q,
		 struct error_stats *stats);

/* row_ops.scales by src/num alone, for rules that need no vectors. */
bool panel_scales_scalar(const struct qspec *spec, float limit, const float *amax, size_t n,
			 struct panel_scales *scales);

/* Returns the base of a tile's scale for CAST_SHIFT.  CAST_SHIFT reads bf16 bits as a number on a
 * scale with 128 steps for each binade.  Where values are multiplied by 2^k, the base is the bits
 * of the value that becomes half of the smallest subnormal: 2^-10 for E4M3, 2^-17 for E5M2.
 * factor_exponent: the exponent field of 2^k as fp32. */
static inline int shift_base(enum fp8_format format, int factor_exponent)
{
	return ((format == FP8_E4M3 ? 117 : 110) + 127 - factor_exponent) * 128;
}

/* The constants of a format for CAST_SHIFT, on that scale. */
struct places {
	int shift;  /* from a place to a code */
	int normal; /* the smallest normal number, less 128 */
	int last;   /* the largest value that does not saturate: 464, and the bf16 below 61440 */
};

static inline struct places places_of(enum fp8_format format)
{
	return format == FP8_E4M3 ? (struct places){ 4, 3 * 128, 18 * 128 + 104 }
				  : (struct places){ 5, 2 * 128, 32 * 128 + 111 };
}

/* The limits of the exponent field for which CAST_SHIFT is exact.  Above, bf16's own subnormals,
 * which lack the implied bit, would not all become 0; below, an inf would look like a value that
 * fits. */
#define SHIFT_EXPONENT_MIN (127 - 111)
#define SHIFT_EXPONENT_MAX (127 + 109)

#endif
