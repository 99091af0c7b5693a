/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of the source's auxiliary files.  A finished output keeps the copies that it has, and the
 * edits in them.
 */
#include <stdlib.h>

#include "convert/steps.h"

int copies_make(const struct execution *execution, struct err *err)
{
	const struct checkpoint *source = &execution->plan->source;
	char **paths;
	size_t n;
	int rc = 0;

	if (!source->directory)
		return 0;
	if (checkpoint_auxiliary(source, &paths, &n, err))
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!rc && !(execution->copied && outdir_has(&execution->out, paths[i])))
			rc = outdir_copy(&execution->out, source->directory, paths[i],
					 execution->progress->stop, err);
		free(paths[i]);
	}
	free(paths);
	return rc;
}
