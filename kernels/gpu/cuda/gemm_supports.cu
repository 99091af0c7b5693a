/* SPDX-License-Identifier: Apache-2.0
 *
 * The supported products.  Sources: NVIDIA, "cuBLAS", tables of cublasLtMatmul(), Tensor Core Usage
 * (FP8 needs its 16 bytes), Narrow Precision Data Types Usage.  fp32 is never multiplied as TF32.
 */
extern "C" {
#include "kernels/gpu/cuda/cublaslt.h"
#include "kernels/gpu/gemm.h"
}

#define FP8_ALIGN ((size_t)16) /* bytes: alignment of addresses and rows */

/* The requirements of operands with these tiles. */
struct operand_rules {
	struct tile a, b;
	const char *words;
	int capability, capability_end; /* 90 for 9.0 */
	size_t version;			/* of cuBLASLt, 120900 for 12.9.0 */
	size_t rows;			/* m and n are multiples of this */
	size_t k;			/* and so is k */
};

static const struct operand_rules scalings[] = {
	{ { WHOLE, WHOLE }, { WHOLE, WHOLE }, "FP8 operands", 89, 1000, 120000, 1, 16 },
	/* On later GPUs TransformerEngine makes MX blocks of these; the library itself supports
	 * them only on Hopper. */
	{ { 1, 128 }, { 128, 128 }, "block scaling", 90, 91, 120900, 4, 16 },
	{ { 128, 128 }, { 1, 128 }, "block scaling", 90, 91, 120900, 4, 16 },
	{ { 1, 128 }, { 1, 128 }, "block scaling", 90, 91, 120900, 4, 16 },
	{ { 1, 32 }, { 1, 32 }, "MX blocks", 100, 120, 120800, 1, 32 },
};

static bool tile_is(struct tile a, struct tile b)
{
	return a.rows == b.rows && a.cols == b.cols;
}

static const struct operand_rules *scaling_of(const struct gpu_gemm *g)
{
	for (size_t i = 0; i < sizeof scalings / sizeof *scalings; i++) {
		if (tile_is(scalings[i].a, g->a.tile) && tile_is(scalings[i].b, g->b.tile))
			return &scalings[i];
	}
	return NULL;
}

static bool is_fp8(enum dtype dtype)
{
	return dtype == DT_F8_E4M3 || dtype == DT_F8_E5M2;
}

/* An FP8 output may be E5M2 only if an operand is E5M2. */
static bool types_supported(const struct gpu_gemm *g)
{
	bool any_e5m2 = g->a.dtype == DT_F8_E5M2 || g->b.dtype == DT_F8_E5M2;
	bool wide = g->d.dtype == DT_F32 || (g->d.dtype == DT_BF16 && g->form == GEMM_PRODUCT);

	if (g->a.dtype == DT_BF16 && g->b.dtype == DT_BF16)
		return wide;
	if (g->a.dtype == DT_F32 && g->b.dtype == DT_F32)
		return g->d.dtype == DT_F32;
	if (!is_fp8(g->a.dtype) || !is_fp8(g->b.dtype) || g->form == GEMM_SUM)
		return false;
	if (g->a.dtype == DT_F8_E5M2 && g->b.dtype == DT_F8_E5M2)
		return false;
	return wide || g->d.dtype == DT_F8_E4M3 || (g->d.dtype == DT_F8_E5M2 && any_e5m2);
}

static int wants(const struct operand_rules *s, struct err *err)
{
	int has = device_capability();
	bool blocks = s->capability_end == 91;

	if (has >= s->capability && has < s->capability_end)
		return 0;
	return err_set(err, ERR_USAGE,
		       "a GPU of compute capability %d.%d has no matrix product with %s, which "
		       "needs %d.%d%s",
		       has / 10, has % 10, s->words, s->capability / 10, s->capability % 10,
		       blocks		     ? ""
		       : s->capability == 89 ? " or later"
					     : " to 11.x");
}

static int library_has(const struct operand_rules *s, struct err *err)
{
	const char *why = NULL;
	const struct cublaslt *lt = cublaslt(&why);

	if (!lt)
		return err_set(err, ERR_SYSTEM, "%s", why);
	if (!s || lt->GetVersion() >= s->version)
		return 0;
	return err_set(
		err, ERR_USAGE,
		"cuBLASLt %zu.%zu has no matrix product with %s, which needs %zu.%zu or later",
		lt->GetVersion() / 10000, lt->GetVersion() / 100 % 100, s->words,
		s->version / 10000, s->version / 100 % 100);
}

static bool lies_well(const void *data, size_t stride_size)
{
	return reinterpret_cast<uintptr_t>(data) % FP8_ALIGN == 0 && stride_size % FP8_ALIGN == 0;
}

static bool all_lie_well(const struct gpu_gemm *g, const struct operand_rules *s)
{
	bool scales = s->a.cols == WHOLE ||
		      (lies_well(g->a.scale_inv, 0) && lies_well(g->b.scale_inv, 0));

	return scales && lies_well(g->a.data, g->a.stride) && lies_well(g->b.data, g->b.stride) &&
	       lies_well(g->d.data, g->d.stride * dtype_bits(g->d.dtype) / 8);
}

static int shape_fits(const struct gpu_gemm *g, const struct operand_rules *s, struct err *err)
{
	size_t n = FP8_ALIGN / (dtype_bits(g->d.dtype) / 8);

	if (g->m % s->rows || g->n % n || g->k % s->k)
		return err_set(err, ERR_USAGE,
			       "a matrix product (%zu, %zu, %zu) with %s: m must be a multiple of "
			       "%zu, n of %zu, k of %zu",
			       g->m, g->n, g->k, s->words, s->rows, n, s->k);
	if (!all_lie_well(g, s))
		return err_set(err, ERR_USAGE,
			       "a matrix product with %s: rows and scales must begin at multiples "
			       "of %zu bytes",
			       s->words, FP8_ALIGN);
	return 0;
}

/* Checks FP8 operands. */
static int scaling_supports(const struct gpu_gemm *g, const struct operand_rules *s,
			    struct err *err)
{
	bool blocks = s->a.cols != WHOLE;

	if (wants(s, err) || library_has(s, err) || shape_fits(g, s, err))
		return -1;
	if (blocks && is_fp8(g->d.dtype))
		return err_set(err, ERR_USAGE,
			       "unsupported matrix product: %s with a result of FP8", s->words);
	if (blocks && g->fast)
		return err_set(err, ERR_USAGE, "unsupported matrix product: %s in the fast mode",
			       s->words);
	return 0;
}

/* A channel {1, WHOLE} is an operand with scale 1, whose rows of the product are scaled
 * afterwards. */
int gpu_gemm_takes(const struct qspec *spec, struct err *err)
{
	for (const struct operand_rules &s : scalings) {
		bool mx = s.a.cols == 32;

		if (s.a.cols == spec->tile.cols && mx == (spec->scale_type == SCALE_E8M0))
			return wants(&s, err) || library_has(&s, err) ? -1 : 0;
	}
	return err_set(err, ERR_USAGE,
		       "unsupported matrix product: tiles (%zu, %zu) with such scales",
		       spec->tile.rows, spec->tile.cols);
}

int gpu_gemm_supports(const struct gpu_gemm *g, struct err *err)
{
	const struct operand_rules *s = scaling_of(g);

	if (!types_supported(g))
		return err_set(err, ERR_USAGE, "unsupported %s: %s by %s with a result of %s",
			       g->form == GEMM_SUM ? "sum of matrix products" : "matrix product",
			       dtype_name(g->a.dtype), dtype_name(g->b.dtype),
			       dtype_name(g->d.dtype));
	if (g->k == 0)
		return err_set(err, ERR_USAGE,
			       "unsupported matrix product: (%zu, %zu, 0) adds up no values", g->m,
			       g->n);
	if (!is_fp8(g->a.dtype))
		return library_has(NULL, err);
	if (!s)
		return err_set(err, ERR_USAGE,
			       "unsupported matrix product: tiles (%zu, %zu) by (%zu, %zu)",
			       g->a.tile.rows, g->a.tile.cols, g->b.tile.rows, g->b.tile.cols);
	return scaling_supports(g, s, err);
}
