/* SPDX-License-Identifier: Apache-2.0 */
#include "amax/merge_files.h"

#include <sys/stat.h>

static int check_places(const struct merge_params *params, struct err *err)
{
	struct stat input, output;

	if (params->n_inputs < 2)
		return err_set(err, ERR_USAGE,
			       "nothing to merge with '%s': name two files, or more",
			       params->inputs[0]);
	for (size_t i = 0; i < params->n_inputs && !stat(params->output, &output); i++)
		if (!stat(params->inputs[i], &input) && input.st_dev == output.st_dev &&
		    input.st_ino == output.st_ino)
			return err_set(err, ERR_USAGE, "input and output are the same file '%s'",
				       params->inputs[i]);
	return 0;
}

static int merge_file(struct amax_stats *stats, const struct merge_params *params, const char *path,
		      struct err *err)
{
	struct amax_stats from;
	int rc;

	if (amax_stats_read(&from, params->io, path, err))
		return -1;
	rc = amax_stats_merge(stats, &from, params->how, path, err);
	amax_stats_release(&from);
	return rc;
}

int merge_run(const struct merge_params *params, struct err *err)
{
	struct amax_stats stats = { 0 };
	int rc = -1;

	if (check_places(params, err) ||
	    amax_stats_read(&stats, params->io, params->inputs[0], err))
		return -1;
	for (size_t i = 1; i < params->n_inputs; i++)
		if (merge_file(&stats, params, params->inputs[i], err))
			goto out;
	rc = amax_stats_write(&stats, params->io, params->output, err);
out:
	amax_stats_release(&stats);
	return rc;
}
