/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of an engine are not names of the checkpoint.  An engine asks a skip list for the prefix
 * under which its class builds a module; for some classes that is not the module's name in the
 * checkpoint, and the list would name a module that the engine does not have.  The rows are in
 * profile_rows.c (PROFILE_NAME, PROFILE_ENTRY).  `quantize` and `repack` write these names beside
 * the checkpoint's, and `verify` asks for them.
 *
 * A row's pattern is "OLD=NEW", in whole segments.  "^" before OLD: only at the beginning of the
 * name.  "#" in OLD is a number; "#" in NEW is the same number, and "#+" the number plus the number
 * of layers: "^model.layers.#.mamba=model.#+.mixer".
 *
 * Where an engine maps the entries of a list before it compares them, NEW is the entry that it maps
 * to its own prefix.
 *
 * Source: the prefixes in all model files of vLLM 0.32.0 and SGLang 0.5.23; conversion_mapping.py
 * of transformers 5.24.0.
 */
#ifndef FP8CONV_SELECT_ENGINE_NAMES_H
#define FP8CONV_SELECT_ENGINE_NAMES_H

#include "select/profile.h"

/* Returns the name that a row of PROFILE_NAME gives to a module, or NULL if OLD is not in it.  The
 * caller frees it. */
char *engine_name_by(const struct profile *profile, const struct profile_row *row,
		     const char *module);

/* Returns the name by which one engine asks for a module, by its first row that matches; NULL: by
 * the module's own name.  on: conditions of recipe and format.  The caller frees it. */
char *engine_name_of(const struct profile *profile, unsigned on, enum engine engine,
		     const char *module);

/* Returns the entry of the first row of PROFILE_ENTRY whose pattern matches the module of a tensor,
 * or NULL.  The caller frees it. */
char *engine_entry_of(const struct profile *profile, unsigned on, const char *tensor);

#endif
