/* SPDX-License-Identifier: Apache-2.0
 *
 * The configuration: the keys that loaders insist on, and what it says of the weights.
 */
#ifndef FP8CONV_VERIFY_CONFIG_H
#define FP8CONV_VERIFY_CONFIG_H

#include "verify/steps.h"

/* Sets opened.declared: from the detection, or from params.json, which Mistral's own files have. */
int config_declares(struct verify *verify, struct err *err);

/* Checks the configuration by itself and against the weights. */
void verify_config(struct verify *verify);

#endif
