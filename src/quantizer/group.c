/* SPDX-License-Identifier: Apache-2.0 */
#include "quantizer/group.h"

#include "num/history.h"

static int self_reduce_max(const struct group *group, float *values, size_t n, struct err *err)
{
	(void)group, (void)err;
	for (size_t i = 0; i < n; i++)
		values[i] = amax_max(values[i], 0);
	return 0;
}

const struct group_kind group_self = {
	.name = "self",
	.reduce_max = self_reduce_max,
};

int group_reduce_max(const struct group *group, float *values, size_t n, struct err *err)
{
	const struct group_kind *kind = group ? group->kind : &group_self;

	return kind->reduce_max(group, values, n, err);
}
