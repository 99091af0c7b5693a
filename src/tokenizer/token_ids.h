/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing list of token ids.  A zeroed struct is an empty list; growth never fails (base/mem.h).
 */
#ifndef FP8CONV_TOKENIZER_TOKEN_IDS_H
#define FP8CONV_TOKENIZER_TOKEN_IDS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/mem.h"

struct token_ids {
	uint32_t *ids;
	size_t n;
	size_t cap;
};

static inline void token_ids_add(struct token_ids *list, uint32_t id)
{
	if (list->n == list->cap) {
		list->cap = list->cap ? 2 * list->cap : 64;
		list->ids = xreallocarray(list->ids, list->cap, sizeof *list->ids);
	}
	list->ids[list->n++] = id;
}

static inline void token_ids_release(struct token_ids *list)
{
	free(list->ids);
	*list = (struct token_ids){ 0 };
}

#endif
