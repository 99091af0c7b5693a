/* SPDX-License-Identifier: Apache-2.0
 *
 * Are finished shards made of this source?  Called if names and sizes of its files are the recorded
 * ones, but times prove nothing.  The manifest has no checksum of an input.  But the same input
 * makes the same bytes: either the source, converted now, has the recorded checksum, or it is
 * another one.  Unfinished shards need no proof: they will be made of the current source.
 */
#include "convert/steps.h"

/* Computes the checksums of shard i from this source, without writing it. */
static int convert_nowhere(const struct execution *execution, size_t i, uint32_t *crc,
			   uint32_t *preserved_crc, struct err *err)
{
	const struct plan *plan = execution->plan;
	const struct output_shard *kept = plan->preserved ? &plan->preserved[i] : NULL;
	struct writer writer = { 0 }, preserved = { 0 };
	int rc = -1;

	if (output_shard_open_nowhere(&plan->shards[i], &writer, execution->params->io, err) ||
	    (kept && output_shard_open_nowhere(kept, &preserved, execution->params->io, err)) ||
	    pipeline_shard(execution->pipeline, i, &writer, kept ? &preserved : NULL, err) ||
	    writer_commit(&writer, crc, err) ||
	    (kept && writer_commit(&preserved, preserved_crc, err)))
		goto out;
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	return rc;
}

static int check_shard(const struct execution *execution, const json_t *manifest, size_t i,
		       struct err *err)
{
	const struct plan *plan = execution->plan;
	const char *name = plan->shards[i].name;
	uint32_t crc, preserved_crc;

	if (convert_nowhere(execution, i, &crc, &preserved_crc, err))
		return -1;
	if (manifest_same_crc(manifest, name, MANIFEST_CRC, crc) &&
	    (!plan->preserved ||
	     manifest_same_crc(manifest, name, MANIFEST_PRESERVED_CRC, preserved_crc)))
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' holds the output of another job: the contents of the input differ, so "
		       "'%s' would differ (use --restart to start over)",
		       execution->out.path, name);
}

int resume_check_source(const struct execution *execution, const json_t *manifest,
			const struct input_change *change, struct err *err)
{
	const struct plan *plan = execution->plan;
	uint64_t bytes = 0;

	/* Other parts may be making shards of a source that this part cannot see. */
	if (execution->params->part || execution->params->part_finish)
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: the %s of input '%s' "
			       "differs (run it without --part, which compares the contents, or "
			       "use --restart to start over)",
			       execution->out.path, change->what, change->name);
	if (plan->rounding)
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: the %s of input '%s' "
			       "differs, and compensated codes are not compared with it (use "
			       "--restart to start over)",
			       execution->out.path, change->what, change->name);
	for (size_t i = 0; i < plan->n_shards; i++) {
		const struct st_file *file = &plan->source.shards[i].file;

		if (execution->done[i])
			bytes += file->identity.size - file->data_start;
	}
	progress_begin(execution->progress, PROGRESS_CHECK, bytes);
	for (size_t i = 0; i < plan->n_shards; i++)
		if (execution->done[i] && check_shard(execution, manifest, i, err))
			return -1;
	return 0;
}
