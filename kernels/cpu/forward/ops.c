/* SPDX-License-Identifier: Apache-2.0
 *
 * The functions of ops.h for any CPU.
 */
#define CPU_OP(function) any_##function
#include "kernels/cpu/forward/ops_loops.h"

static bool any_usable(void)
{
	return true;
}

const struct cpu_ops cpu_ops_any = CPU_OPS_ROW("any");
