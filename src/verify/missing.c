/* SPDX-License-Identifier: Apache-2.0
 *
 * What the checkpoint must have by its config.json and by its other layers (expect/expect.h).
 * Engines compare the names that they loaded with those that they expect only for models that are
 * not quantized (vLLM's default loader), and start with memory that nothing was loaded into.
 */
#include "expect/expect.h"
#include "verify/steps.h"

static const enum problem_kind kinds[] = {
	[EXPECT_LAYER] = PROBLEM_LAYER_MISSING, [EXPECT_TENSOR] = PROBLEM_TENSOR_LACKING,
	[EXPECT_SHAPE] = PROBLEM_TENSOR_SHAPE,	[EXPECT_NAME] = PROBLEM_TENSOR_NAME,
	[EXPECT_MTP] = PROBLEM_MTP_MISSING,
};

/* Is a file left out, so that its tensors would all be missing? */
static bool is_partial(const struct problems *problems)
{
	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].kind == PROBLEM_FILE_INVALID ||
		    problems->list[i].kind == PROBLEM_UNFINISHED)
			return true;
	return false;
}

void verify_missing(struct verify *verify)
{
	struct problems *problems = &verify->result->problems;
	struct expect_gaps gaps;
	struct err bad = { 0 };

	/* an invalid config.json is reported already */
	if (is_partial(problems) || expect_find(&gaps, verify->opened.checkpoint, &bad))
		return;
	for (size_t i = 0; i < gaps.n; i++)
		problem_add(problems, kinds[gaps.list[i].kind], gaps.list[i].tensor, NULL, "%s",
			    gaps.list[i].message);
	if (expect_elements(verify->opened.checkpoint, &bad))
		problem_add(problems, PROBLEM_TENSOR_SHAPE, NULL, NULL, "%s", bad.message);
	expect_release(&gaps);
}
