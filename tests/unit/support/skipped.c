/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/skipped.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "backend/backend.h"

void skipped_print(void)
{
	for (const struct backend *const *b = backends; *b; b++) {
		if ((*b)->unusable())
			print_message("SKIPPED: backend %s: %s\n", (*b)->name, (*b)->unusable());
	}
}
