/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/token_ids_text.h"

#include <inttypes.h>

void token_ids_list(struct buf *out, const uint32_t *ids, size_t n)
{
	out->len = 0;
	buf_puts(out, n ? "" : "-");
	for (size_t i = 0; i < n; i++)
		buf_printf(out, i ? " %u" : "%u", ids[i]);
}
