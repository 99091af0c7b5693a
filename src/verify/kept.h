/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensors in high precision where engines expect codes: an engine that is told FP8 and finds no
 * name builds an FP8 module, and copies BF16 into it without a scale.  Which tensor needs a name,
 * and which names engines look for, is select/skip_list.h.
 */
#ifndef FP8CONV_VERIFY_KEPT_H
#define FP8CONV_VERIFY_KEPT_H

#include "verify/steps.h"

/* Reports a tensor that is neither FP8 nor a scale, if engines expect codes. */
void verify_kept(struct verify *verify, const struct tensor_ref *ref,
		 const struct role_facts *facts, const char *module);

#endif
