/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/support/scratch.h"

#include <stdlib.h>

#include "base/mem.h"

const char *scratch_parent(void)
{
	const char *parent = getenv("TMPDIR");

	return parent && *parent ? parent : "/tmp";
}

char *scratch_new(void)
{
	char *path = xasprintf("%s/fp8conv-test-XXXXXX", scratch_parent());

	if (mkdtemp(path))
		return path;
	free(path);
	return NULL;
}
