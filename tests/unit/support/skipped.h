/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that this machine cannot run is a test that was skipped, and counted (tests/run.sh).
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_SKIPPED_H
#define FP8CONV_TESTS_UNIT_SUPPORT_SKIPPED_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/backend.h"

static inline void skipped_print(void)
{
	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, (*b)->unusable());
	}
}

#endif
