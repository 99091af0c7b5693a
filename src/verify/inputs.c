/* SPDX-License-Identifier: Apache-2.0
 *
 * Static scales of inputs.  The first and third matrix of an expert (gate and up) take the same
 * input, and engines keep one scale for both.
 */
#include <stdlib.h>

#include "base/mem.h"
#include "format/scale_names.h"
#include "verify/steps.h"

/* The first member of a fused set that has an input scale. */
struct first_input {
	const struct tensor_ref *ref; /* NULL: not found yet */
	float scale;
};

/* Returns the input scale of a weight, or NULL where it is missing or has several elements. */
static const struct tensor_ref *find_input(const struct verify *verify,
					   const struct verify_weight *weight)
{
	const struct tensor_ref *ref =
		input_scale_beside(verify->opened.checkpoint, weight->unit.name);

	if (!ref || !dtype_is_float(ref->tensor->dtype) ||
	    st_n_elements(ref->tensor->shape, ref->tensor->n_dims) != 1)
		return NULL;
	return ref;
}

static int check_input(struct verify *verify, const struct tensor_ref *ref,
		       struct first_input *first, struct err *err)
{
	const char *name = ref->tensor->name;
	float scale;

	if (source_read_floats(&verify->run.files, &(struct floats_request){ ref, false, 0, 1 },
			       &scale, err))
		return -1;
	if (!first->ref)
		*first = (struct first_input){ ref, scale };
	else if (engine_refuses_input_scales(first->scale, scale))
		problem_add(&verify->result->problems, PROBLEM_GROUP_INPUTS_DIFFER, name,
			    verify_file(verify, ref), "'%s' is %.9g, but '%s' is %.9g", name, scale,
			    first->ref->tensor->name, first->scale);
	return 0;
}

int verify_inputs(struct verify *verify, struct err *err)
{
	struct first_input *first = xcalloc(verify->weights.fused_sets.n, sizeof *first);
	int rc = 0;

	for (size_t w = 0; !rc && w < verify->weights.n; w++) {
		const struct verify_weight *weight = &verify->weights.list[w];
		const struct tensor_ref *ref;

		if (weight->fused_set == SIZE_MAX ||
		    !role_cache_find(&verify->roles, weight->unit.name).expert)
			continue;
		ref = find_input(verify, weight);
		if (ref)
			rc = check_input(verify, ref, &first[weight->fused_set], err);
	}
	free(first);
	return rc;
}
