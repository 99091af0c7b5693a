/* SPDX-License-Identifier: Apache-2.0
 *
 * backend/compute.h for any CPU, and the choice among its sets of instructions.
 */
#define COMPUTE(function) any_##function
#include "kernels/cpu/forward/ops_loops.h"

#include "kernels/cpu/forward/ops.h"

static bool any_usable(void)
{
	return true;
}

const struct compute compute_any = COMPUTE_ROW("any");

const struct compute *compute_select(void)
{
	static const struct compute *const rows[] = {
#ifdef __x86_64__
		&compute_avx512,
		&compute_avx2,
#endif
		&compute_any,
	};
	size_t i = 0;

	while (!rows[i]->usable())
		i++;
	return rows[i];
}
