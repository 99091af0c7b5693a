/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/format_schemes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

const struct scheme schemes[N_SCHEMES] = {
	[STATIC] = { GRANULARITY_TENSOR, { WHOLE, WHOLE }, FP8_E4M3, false, true },
	[DYNAMIC] = { GRANULARITY_TENSOR, { WHOLE, WHOLE }, FP8_E4M3, false, false },
	[CHANNEL] = { GRANULARITY_CHANNEL, { 1, WHOLE }, FP8_E4M3, false, false },
	[BLOCK] = { GRANULARITY_BLOCK, { 128, 128 }, FP8_E4M3, true, false },
	[MX] = { GRANULARITY_MX, { 1, 32 }, FP8_E4M3, true, false },
};

const struct format *format_named(const char *name)
{
	for (size_t i = 0; formats[i]; i++)
		if (!strcmp(formats[i]->name, name))
			return formats[i];
	fail_msg("no format '%s'", name);
	return NULL;
}
