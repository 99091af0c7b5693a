/* SPDX-License-Identifier: Apache-2.0
 *
 * Which entries of the list of modules in high precision the target takes for a module: a row for
 * each format and engine.  Experts, and pairs without a row, are matched as skip_match.h says.
 *
 * Source: is_layer_skipped() and find_matching_patterns() of vLLM 0.32; _module_path_match() and
 * check_equal_or_regex_match() of SGLang 0.5.23; should_convert_module() of transformers 5.24;
 * match_name() of compressed-tensors 0.20.
 */
#ifndef FP8CONV_VERIFY_MATCHERS_H
#define FP8CONV_VERIFY_MATCHERS_H

#include "verify/steps.h"

/* Is there a row of how the engine matches entries with such a module? */
bool matchers_know(const struct verify *verify, enum engine engine, const char *module);

/* Returns the entry by which the engine leaves out the module, or NULL. */
const char *matchers_find(const struct verify *verify, enum engine engine, const char *module);

#endif
