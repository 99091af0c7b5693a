/* SPDX-License-Identifier: Apache-2.0
 *
 * Token ids as the rows of a test write them.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_TOKEN_IDS_TEXT_H
#define FP8CONV_TESTS_UNIT_SUPPORT_TOKEN_IDS_TEXT_H

#include "base/buf.h"

/* Replaces what out holds by the ids, as "4 3"; "-" if there are none. */
void token_ids_list(struct buf *out, const uint32_t *ids, size_t n);

#endif
