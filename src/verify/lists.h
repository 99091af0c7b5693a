/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of the configuration: modules in high precision, groups and layers that are quantized,
 * embeddings that are.
 *
 * Which scheme the configuration says of a module: compressed-tensors and Quark may have a group
 * for each, ModelOpt an algorithm.
 */
#ifndef FP8CONV_VERIFY_LISTS_H
#define FP8CONV_VERIFY_LISTS_H

#include "verify/steps.h"

/* Reads the lists of the configuration, which verify_config() does first. */
void lists_read(struct verify *verify);
void lists_release(struct verify *verify);

/* Does the list of modules in high precision have the module: by its name, that of one above it,
 * the end of its path or a pattern? */
bool lists_skip(const struct verify *verify, const char *module);

/* The same by the name under which engines ask for the module (select/engine_names.h): the target,
 * or without one vLLM or SGLang. */
bool lists_skip_engine(const struct verify *verify, const char *module);

/* Returns the name by which the target asks for the module, where a row of its family gives one,
 * else a copy.  The caller frees it. */
char *lists_engine_name(const struct verify *verify, const char *module);

/* Does a regular expression of the list match the module? */
bool lists_skip_by_pattern(const struct verify *verify, const char *module);

/* The same as the target matches entries, where that is known. */
bool lists_skip_target(const struct verify *verify, const char *module);

/* Does the configuration say that an embedding is FP8? */
bool lists_table(const struct verify *verify, const char *module);

/* Whether engines load an output head in FP8, as the configuration names it. */
bool lists_head(const struct verify *verify, const char *module);

/* Does the configuration quantize the module, unless lists_skip()? */
bool lists_quantize(const struct verify *verify, const char *module);

/* Reports, once an entry, one that matches an FP8 module by the matcher of some engine. */
void lists_check_conflict(struct verify *verify, const struct tensor_ref *ref, const char *module);

/* Returns the scheme that the configuration states for a module's weight, or the detected scheme
 * where the configuration does not have several groups. */
struct scheme verify_scheme(const struct verify *verify, const char *module);

#endif
