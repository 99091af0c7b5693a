/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers for byte strings: equal strings get equal numbers, from 0 on in the order of their first
 * appearance.  A zeroed struct is empty.  Growth never fails (mem.h).
 */
#ifndef FP8CONV_BASE_INTERN_H
#define FP8CONV_BASE_INTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct intern_entry {
	uint64_t hash;
	size_t offset; /* in keys */
	size_t len;
};

struct intern {
	size_t n;
	struct intern_entry *entries; /* by number */
	struct buf keys;	      /* concatenated */
	size_t n_slots;		      /* a power of two above 2 * n; 0 at first */
	uint32_t *slots;	      /* number + 1, or 0 */
};

/* Returns the number of a string of len bytes, and adds it if it is new: then the number is the old
 * intern->n. */
size_t intern_add(struct intern *intern, const void *key, size_t len);

/* Returns the number of a string of len bytes, or SIZE_MAX. */
size_t intern_find(const struct intern *intern, const void *key, size_t len);
void intern_release(struct intern *intern);

#endif
