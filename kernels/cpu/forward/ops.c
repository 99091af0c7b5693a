/* SPDX-License-Identifier: Apache-2.0
 *
 * The operations of ops_loops.h for any CPU.
 */
#define CPU_OP(function) any_##function
#include "kernels/cpu/forward/ops_loops.h"

static bool any_usable(void)
{
	return true;
}

const struct host_ops cpu_ops_any = CPU_OPS_ROW("any");
