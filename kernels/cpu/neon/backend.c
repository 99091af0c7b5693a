/* SPDX-License-Identifier: Apache-2.0
 *
 * The row of the NEON backend.
 */
#include "kernels/cpu/neon/neon.h"

#define FOLDED 8 /* tiles */

INLINE vec fold8(const char *v);

INLINE bool vec_any(vec v)
{
	return vmaxvq_u32((uint32x4_t)v);
}

INLINE uint16_t vec_max16(vec v)
{
	return vmaxvq_u16((uint16x8_t)v);
}

/* Returns the maxima of FOLDED tiles, in order. */
INLINE vec fold(const char *v)
{
	return fold8(v);
}

#include "kernels/cpu/cast/panel_loops.h"

static const char *neon_unusable(void)
{
	return NULL;
}

const struct backend backend_neon = {
	.name = "neon",
	.summary = "NEON, any CPU of aarch64",
	.rank = 2,
	.unusable = neon_unusable,
	PANEL_BACKEND,
	CPU_CAST_TRANSPOSE,
};
