/* SPDX-License-Identifier: Apache-2.0
 *
 * Token ids as the rows of a test write them.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_TOKEN_IDS_TEXT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_TOKEN_IDS_TEXT_H

#include "base/buf.h"

/* "4 3"; "-": none.  What out held goes. */
static inline void token_ids_list(struct buf *out, const uint32_t *ids, size_t n)
{
	out->len = 0;
	buf_puts(out, n ? "" : "-");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, i ? " %u" : "%u", ids[i]);
}

#endif
