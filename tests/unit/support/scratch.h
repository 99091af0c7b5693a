/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of tests that write: below $TMPDIR, or /tmp.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_SCRATCH_H
#define FP8CONV_TESTS_UNIT_SUPPORT_SCRATCH_H

#include <stdlib.h>

#include "base/mem.h"

static inline const char *scratch_parent(void)
{
	const char *parent = getenv("TMPDIR");

	return parent && *parent ? parent : "/tmp";
}

/* A new, empty one, to be freed; NULL if there can be none. */
static inline char *scratch_new(void)
{
	char *path = xasprintf("%s/fp8conv-test-XXXXXX", scratch_parent());

	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}

#endif
