/* SPDX-License-Identifier: Apache-2.0
 *
 * Why tensors of an FP8 checkpoint are in high precision: the reason that `quantize` has for them,
 * with the options of the manifest.  Names, types and shapes decide, which are the source's.
 */
#ifndef FP8CONV_REPORT_KEPT_H
#define FP8CONV_REPORT_KEPT_H

#include <jansson.h>

#include "base/mem.h"
#include "format/detect.h"

/* The reasons.  A zeroed struct is empty. */
struct kept_reasons {
	const char **reasons; /* by tensor of the checkpoint; NULL: FP8, a scale, or not known */
	const char *obstacle; /* why vLLM and SGLang do not load a weight; NULL: not known */
	struct arena texts;
};

/* Finds the reasons.  options: of the manifest of a `quantize`; NULL: unknown, and the recipe is
 * that of the detected scheme. */
void kept_find(struct kept_reasons *kept, const struct checkpoint *checkpoint,
	       const struct detection *detection, const json_t *options);
void kept_release(struct kept_reasons *kept);

#endif
