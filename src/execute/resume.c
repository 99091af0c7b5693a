/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/resume.h"

#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/manifest.h"
#include "ckpt/signature.h"
#include "execute/directory.h"

/* Returns the part of a shard, from 1: parts have equal shares of the bytes, in order. */
static int shard_part(const struct plan *plan, size_t shard, int n_parts)
{
	uint64_t before = 0, total = 0;

	for (size_t i = 0; i < plan->n_shards; i++) {
		uint64_t size = plan->shards[i].input_bytes;

		if (i < shard)
			before += size;
		else if (i == shard)
			before += size / 2;
		total += size;
	}
	return 1 + (int)((double)before * n_parts / (double)(total ? total : 1));
}

bool resume_has_shard(const struct execution *execution, size_t i)
{
	if (execution->params->part_finish)
		return false;
	return !execution->params->part ||
	       shard_part(execution->plan, i, execution->params->n_parts) ==
		       execution->params->part;
}

int resume_check_space(struct execution *execution, struct err *err)
{
	uint64_t bytes = execution->plan->totals.disk_bytes;
	uint64_t preserved = 0;
	struct stat x, y;

	for (size_t i = 0; i < execution->plan->n_shards; i++) {
		bool needed = !execution->done[i] && resume_has_shard(execution, i);

		if (!needed)
			bytes -= output_shard_size(&execution->plan->shards[i]);
		else if (execution->plan->preserved)
			preserved += output_shard_size(&execution->plan->preserved[i]);
	}
	if (!preserved)
		return outdir_check_space(&execution->out, bytes, err);
	if (!fstat(execution->out.fd, &x) && !fstat(execution->preserve.fd, &y) &&
	    x.st_dev == y.st_dev)
		return outdir_check_space(&execution->out, bytes + preserved, err);
	if (outdir_check_space(&execution->preserve, preserved, err))
		return -1;
	return outdir_check_space(&execution->out, bytes, err);
}

/* Durably removes the files that make a directory a checkpoint, before anything else is removed.
 * A config.json that this job does not write is the user's. */
static int resume_unpublish(struct execution *execution, struct err *err)
{
	if (outdir_remove(&execution->out, SIGNATURE_NAME, err) ||
	    (execution->plan->files.config.len &&
	     outdir_remove(&execution->out, CONFIG_NAME, err)) ||
	    outdir_remove(&execution->out, INDEX_NAME, err) ||
	    outdir_remove(&execution->out, HF_QUANT_CONFIG_NAME, err) ||
	    outdir_sync(&execution->out, err))
		return -1;
	if (!execution->plan->preserved)
		return 0;
	return outdir_remove(&execution->preserve, INDEX_NAME, err) ||
			       outdir_sync(&execution->preserve, err)
		       ? -1
		       : 0;
}

/* A manifest may be false: removes nothing because of it that this job would not replace.  But
 * an engine would load weights of another job with the weights of this one: they are refused. */
static bool has_shard(const struct plan *plan, const char *name)
{
	for (size_t i = 0; i < plan->n_shards; i++)
		if (!strcmp(plan->shards[i].name, name))
			return true;
	return false;
}

static int check_foreign(const struct execution *execution, const json_t *manifest, struct err *err)
{
	size_t i;
	json_t *shard;

	json_array_foreach(json_object_get(manifest, "shards"), i, shard)
	{
		const char *name = json_string_value(json_object_get(shard, "name"));

		if (name && !strchr(name, '/') && destination_of(name) == DESTINATION_FILE &&
		    !has_shard(execution->plan, name) && outdir_has(&execution->out, name))
			return err_set(err, ERR_USAGE,
				       "'%s' contains '%s' from another job: remove it, or choose "
				       "another output",
				       execution->out.path, name);
	}
	return 0;
}

/* Removes the manifest before the shards that it records. */
static int resume_discard(struct execution *execution, const json_t *manifest, struct err *err)
{
	if (check_foreign(execution, manifest, err) || resume_unpublish(execution, err) ||
	    directory_discard_copies(execution, manifest, err) ||
	    outdir_remove(&execution->out, MANIFEST_NAME, err))
		return -1;
	for (size_t i = 0; i < execution->plan->n_shards; i++)
		if (manifest_has_shard(manifest, execution->plan->shards[i].name) &&
		    outdir_remove(&execution->out, execution->plan->shards[i].name, err))
			return -1;
	return 0;
}

/* A directory with files of these names but without a manifest belongs to another program. */
static int check_vacant(const struct execution *execution, struct err *err)
{
	const char *taken = NULL;

	for (size_t i = 0; i < execution->plan->n_shards && !taken; i++) {
		if (outdir_has(&execution->out, execution->plan->shards[i].name))
			taken = execution->plan->shards[i].name;
		else if (execution->plan->preserved && !execution->params->restart &&
			 outdir_has(&execution->preserve, execution->plan->preserved[i].name))
			return err_set(
				err, ERR_USAGE,
				"'%s' contains '%s', which fp8conv did not write: choose another "
				"directory, or --restart to overwrite",
				execution->preserve.path, execution->plan->preserved[i].name);
	}
	if (!taken && execution->plan->files.config.len && outdir_has(&execution->out, CONFIG_NAME))
		taken = CONFIG_NAME;
	if (!taken || execution->params->restart)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' contains '%s', which fp8conv did not write: choose another output, or "
		       "--restart to overwrite",
		       execution->out.path, taken);
}

static bool shard_is_there(const struct outdir *dir, const struct output_shard *shard)
{
	struct stat st;

	return !fstatat(dir->fd, shard->name, &st, AT_SYMLINK_NOFOLLOW) && S_ISREG(st.st_mode) &&
	       (uint64_t)st.st_size == output_shard_size(shard);
}

bool resume_shard_done(const struct execution *execution, const json_t *manifest, size_t i)
{
	const struct output_shard *shard = &execution->plan->shards[i];

	return manifest_has_shard(manifest, shard->name) &&
	       manifest_same_crc(manifest, shard->name, MANIFEST_PLAN, execution->plans[i]) &&
	       shard_is_there(&execution->out, shard) &&
	       (!execution->plan->preserved ||
		shard_is_there(&execution->preserve, &execution->plan->preserved[i]));
}

static bool text_is_there(const struct execution *execution, const char *name, uint64_t size)
{
	return size == 0 || outdir_has(&execution->out, name);
}

static bool is_newer(const struct checkpoint *source, const char *name, const struct timespec *than)
{
	char *path = xasprintf("%s/%s", source->directory, name);
	struct stat st;
	bool newer = !source->io->fstatat(source->io, AT_FDCWD, path, &st, 0) &&
		     (st.st_mtim.tv_sec > than->tv_sec ||
		      (st.st_mtim.tv_sec == than->tv_sec && st.st_mtim.tv_nsec > than->tv_nsec));

	free(path);
	return newer;
}

/* Is a file that is not weights newer in the source than the manifest, the job's last file? */
static int find_newer(const struct execution *execution, bool *newer, struct err *err)
{
	const struct checkpoint *source = &execution->plan->source;
	struct stat manifest;
	struct listing files;
	int rc;

	*newer = false;
	if (!source->directory || fstatat(execution->out.fd, MANIFEST_NAME, &manifest, 0))
		return 0;
	rc = checkpoint_auxiliary(source, &files, err);
	*newer = is_newer(source, CONFIG_NAME, &manifest.st_mtim);
	for (size_t i = 0; i < files.n && !*newer; i++)
		*newer = is_newer(source, files.items[i], &manifest.st_mtim);
	listing_release(&files);
	return rc;
}

static bool is_part(const struct execution *execution)
{
	return execution->params->part || execution->params->part_finish;
}

/* Gives a finished output whose source became newer, with the same contents, the present time: make
 * compares times. */
static int resume_touch(const struct execution *execution, const json_t *manifest, struct err *err)
{
	bool newer;

	if (find_newer(execution, &newer, err))
		return -1;
	if (!newer)
		return 0;
	if (outdir_put_text(&execution->out, CONFIG_NAME, &execution->plan->files.config, err))
		return -1;
	return manifest_save(manifest, &execution->out, err);
}

/* Are all files that make the directory a checkpoint there?  One to be signed is finished again: a
 * file may have been added. */
static bool is_complete(const struct execution *execution, const json_t *manifest)
{
	const struct plan_texts *files = &execution->plan->files;

	return !execution->params->sign && manifest_finished(manifest, execution->params->hashes) &&
	       text_is_there(execution, CONFIG_NAME, files->config.len) &&
	       text_is_there(execution, INDEX_NAME, files->index_size) &&
	       text_is_there(execution, HF_QUANT_CONFIG_NAME, files->hf_quant_config.len);
}

/* Removes what makes the directory a checkpoint, and continues the job. */
static int resume_reopen(struct execution *execution, json_t *manifest, struct err *err)
{
	if (resume_unpublish(execution, err) || manifest_reopen(manifest, &execution->out, err))
		return -1;
	return 0;
}

/* Finds the finished shards of this job, and whether all are finished. */
static int resume(struct execution *execution, json_t *manifest, bool *finished, struct err *err)
{
	const struct plan *plan = execution->plan;

	if (manifest_check(manifest, execution->identity, &execution->out, err))
		return -1;
	for (size_t i = 0; i < plan->n_shards; i++) {
		execution->done[i] = resume_shard_done(execution, manifest, i);
		execution->result->shards_found += execution->done[i];
	}
	execution->copied = manifest_finished(manifest, false);
	if (execution->result->shards_found < plan->n_shards)
		return resume_reopen(execution, manifest, err);
	*finished = is_complete(execution, manifest);
	return *finished && !is_part(execution) ? resume_touch(execution, manifest, err) : 0;
}

static int same_contents(const struct execution *execution, const json_t *manifest, size_t i,
			 bool *same, struct err *err)
{
	const struct output_shard *shard = &execution->plan->shards[i];
	struct progress *progress = execution->progress;
	uint32_t crc;

	atomic_store(&progress->name, shard->name);
	if (checksum_crc32(execution->out.io, execution->out.fd, shard->name, progress, &crc, err))
		return -1;
	*same = manifest_same_crc(manifest, shard->name, MANIFEST_CRC, crc);
	if (!*same || !execution->plan->preserved)
		return 0;
	if (checksum_crc32(execution->out.io, execution->preserve.fd,
			   execution->plan->preserved[i].name, progress, &crc, err))
		return -1;
	*same = manifest_same_crc(manifest, shard->name, MANIFEST_PRESERVED_CRC, crc);
	return 0;
}

/* Removes shard i and its record, for all parts of the job. */
static int resume_invalidate_shard(struct execution *execution, size_t i, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(&execution->out, &guard, err))
		return -1;
	if (!manifest_load(&manifest, &execution->out, err) && !resume_unpublish(execution, err) &&
	    !manifest_reopen(manifest, &execution->out, err))
		rc = outdir_remove(&execution->out, execution->plan->shards[i].name, err);
	json_decref(manifest);
	outdir_unguard(&execution->out, guard);
	execution->done[i] = false;
	execution->result->shards_found--;
	return rc;
}

static void begin_check(const struct execution *execution)
{
	const struct plan *plan = execution->plan;
	uint64_t bytes = 0;

	for (size_t i = 0; i < plan->n_shards; i++) {
		if (!execution->done[i] || !resume_has_shard(execution, i))
			continue;
		bytes += output_shard_size(&plan->shards[i]);
		if (plan->preserved)
			bytes += output_shard_size(&plan->preserved[i]);
	}
	if (bytes)
		progress_begin(execution->progress, PROGRESS_CHECK, bytes);
}

int resume_check_contents(struct execution *execution, struct err *err)
{
	json_t *manifest;
	int rc = manifest_load(&manifest, &execution->out, err);

	begin_check(execution);
	for (size_t i = 0; i < execution->plan->n_shards && !rc; i++) {
		bool same = true;

		if (execution->done[i] && resume_has_shard(execution, i))
			rc = same_contents(execution, manifest, i, &same, err);
		if (!rc && !same)
			rc = resume_invalidate_shard(execution, i, err);
	}
	json_decref(manifest);
	return rc;
}

int resume_take(struct execution *execution, bool *finished, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(&execution->out, &guard, err))
		return -1;
	/* A manifest that --restart discards may be invalid, but must be readable: it names the
	 * shards to remove. */
	if (manifest_load(&manifest, &execution->out, err) &&
	    (err->kind == ERR_SYSTEM || !execution->params->restart))
		goto out;
	if (execution->params->restart && resume_discard(execution, manifest, err))
		goto out;
	if (manifest && !execution->params->restart) {
		rc = resume(execution, manifest, finished, err);
		goto out;
	}
	if (check_vacant(execution, err) || resume_check_space(execution, err))
		goto out;
	execution->started = true;
	rc = manifest_start(execution->identity, &execution->out, err);
out:
	json_decref(manifest);
	outdir_unguard(&execution->out, guard);
	return rc;
}

json_t *resume_identity(const struct execution *execution, struct err *err)
{
	const struct plan *plan = execution->plan;
	json_t *inputs = manifest_inputs(&plan->source, execution->progress, err);

	if (!inputs)
		return NULL;
	return manifest_job(FP8CONV_VERSION, plan_command(plan), json_incref(plan->options),
			    inputs);
}

static void add_spec(struct buf *text, const struct qspec *spec)
{
	buf_printf(text, " %d %zu %zu %d %d %d %d %a %d", (int)spec->format, spec->tile.rows,
		   spec->tile.cols, (int)spec->scale_type, spec->pow2, (int)spec->arith,
		   (int)spec->mx_rule, (double)spec->amax_epsilon, spec->margin);
}

/* Where the unit's values come from. */
static void add_source(struct buf *text, const struct unit *unit)
{
	const struct weight_scale *scale = &unit->source_scale;

	buf_printf(text, " %s %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64,
		   unit->source->tensor->name, unit->rows, unit->cols, unit->stack,
		   unit->slice.first, unit->slice.row_stride, unit->slice.col_stride);
	if (scale->scale)
		buf_printf(text, " %s %zu %zu %d %d", scale->scale->tensor->name, scale->tile.rows,
			   scale->tile.cols, (int)scale->scale_type, scale->inverted);
}

/* The other units that share its per-tensor scale. */
static void add_group(struct buf *text, const struct plan *plan, const struct unit *unit)
{
	uint32_t u = plan->groups ? plan->groups[unit->scale_group].first : NO_UNIT;

	for (; u != NO_UNIT; u = plan->units[u].next_in_group)
		buf_printf(text, " %s", plan->selection.units[u].name);
}

static void add_unit(struct buf *text, const struct plan *plan, size_t u)
{
	const struct unit *unit = &plan->selection.units[u];

	buf_puts(text, unit->name);
	buf_puts(text, unit->low_bit ? " low-bit" : "");
	add_source(text, unit);
	buf_puts(text, plan->units[u].same_codes ? " same codes" : "");
	if (unit->recipe) {
		buf_printf(text, " %s", unit->recipe->name);
		add_spec(text, plan->units[u].spec);
		add_group(text, plan, unit);
	}
	buf_putc(text, '\n');
}

uint32_t resume_plan(const struct plan *plan, size_t shard)
{
	const struct output_shard *out = &plan->shards[shard];
	struct buf text = { 0 };
	uint32_t crc;

	output_shard_header(out, &text);
	crc = crc32_gzip_refl(0, (const unsigned char *)text.data, text.len);
	for (size_t i = 0; i < out->n_tensors; i = output_unit_end(out, i)) {
		text.len = 0;
		add_unit(&text, plan, out->outputs[i].unit);
		crc = crc32_gzip_refl(crc, (const unsigned char *)text.data, text.len);
	}
	buf_release(&text);
	return crc;
}
