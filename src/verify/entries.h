/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries of the list of modules in high precision that name nothing: neither a module, by its own
 * name or that of an engine, nor what is above it, nor the end of a path.
 */
#ifndef FP8CONV_VERIFY_ENTRIES_H
#define FP8CONV_VERIFY_ENTRIES_H

#include "verify/steps.h"

/* Reports entries of the list of modules in high precision that name nothing. */
void verify_entries(struct verify *verify);

#endif
