/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests of formats ask about: a format by name, and a scheme of each kind.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_FORMAT_SCHEMES_H
#define FP8CONV_TESTS_UNIT_SUPPORT_FORMAT_SCHEMES_H

#include "format/format.h"

/* Schemes as the recipes' weight specs give them; recipes themselves are strangers here. */
enum { STATIC, DYNAMIC, CHANNEL, BLOCK, MX, N_SCHEMES };

extern const struct scheme schemes[N_SCHEMES];

/* The format of that name; the test fails if there is none. */
const struct format *format_named(const char *name);

#endif
