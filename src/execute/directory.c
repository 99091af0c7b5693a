/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/directory.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/manifest.h"
#include "ckpt/signature.h"
#include "execute/compensated.h"
#include "execute/resume.h"
#include "plan/write_index.h"

static const json_t *inputs_of(const json_t *manifest)
{
	return json_object_get(manifest, "inputs");
}

/* Is it a file that this program copies?  A manifest may name any path. */
static bool may_be_copy(const char *name)
{
	bool deep = strchr(name, '/') != NULL;

	return *name && *name != '.' && !strstr(name, "/.") && strcmp(name, CONFIG_NAME) != 0 &&
	       strcmp(name, HF_QUANT_CONFIG_NAME) != 0 && strcmp(name, INDEX_NAME) != 0 &&
	       strcmp(name, MANIFEST_NAME) != 0 &&
	       (deep || destination_of(name) != DESTINATION_FILE);
}

/* Removes the file, and what an interrupted copy left of it, unless its contents are others. */
static int remove_same(const struct outdir *place, const char *name, const char *was,
		       const atomic_int *stop, struct err *err)
{
	struct progress unwatched = { .stop = stop };
	char *partial = outdir_partial_name(name);
	struct sha256 sha256;
	struct stat st;
	int rc = outdir_remove(place, partial, err);

	free(partial);
	if (rc || fstatat(place->fd, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode))
		return rc;
	if (checksum_sha256(place->io, place->fd, name, &unwatched, &sha256, err))
		return -1;
	return strcmp(sha256.hex, was) != 0 ? 0 : outdir_remove(place, name, err);
}

/* Removes the copy of a file that is gone from the source, unless the copy was changed. */
static int remove_copy(const struct execution *execution, const json_t *input, struct err *err)
{
	const char *name = json_string_value(json_object_get(input, "name"));
	const char *was = json_string_value(json_object_get(input, "sha256"));
	struct outdir place = execution->out;
	struct err missing;
	const char *base;
	int rc;

	if (!name || !was || !may_be_copy(name) ||
	    manifest_input(inputs_of(execution->identity), name) ||
	    outdir_parent(&execution->out, name, false, &place.fd, &base, &missing))
		return 0;
	rc = remove_same(&place, base, was, execution->progress->stop, err);
	place.io->close(place.io, place.fd);
	return rc;
}

int directory_discard_copies(const struct execution *execution, const json_t *manifest,
			     struct err *err)
{
	size_t i;
	json_t *input;

	json_array_foreach(inputs_of(manifest), i, input)
	{
		if (!manifest_is_weights(input) && remove_copy(execution, input, err))
			return -1;
	}
	return 0;
}

/* Copies the auxiliary files of the source, unless an earlier run did. */
static int make_copies(const struct execution *execution, struct err *err)
{
	const struct checkpoint *source = &execution->plan->source;
	struct listing files;
	int rc = checkpoint_auxiliary(source, &files, err);

	for (size_t i = 0; i < files.n && !rc; i++)
		if (!execution->copied || !outdir_has(&execution->out, files.items[i]))
			rc = outdir_copy(&execution->out, source->directory, files.items[i],
					 execution->progress->stop, err);
	listing_release(&files);
	return rc;
}

static int convert_shard(struct execution *execution, size_t i, struct err *err)
{
	const struct output_shard *shard = &execution->plan->shards[i];
	const struct output_shard *kept =
		execution->plan->preserved ? &execution->plan->preserved[i] : NULL;
	struct writer writer = { 0 }, preserved = { 0 };
	struct figures figures;
	struct shard_record record = { shard->name, output_shard_size(shard), execution->plans[i],
				       .has_preserved = kept != NULL };
	int rc = -1;

	if (output_shard_open(shard, &writer, &execution->out, shard->name, err) ||
	    (kept && output_shard_open(kept, &preserved, &execution->preserve, kept->name, err)) ||
	    execution_shard(execution, i, &writer, kept ? &preserved : NULL, err) ||
	    (kept && writer_commit(&preserved, &record.preserved_crc, err)) ||
	    writer_commit(&writer, &record.crc, err))
		goto out;
	if (manifest_add_shard(&execution->out, &record, err))
		goto out;
	pipeline_figures(execution->pipeline, i, &figures);
	figures_add(&execution->result->figures, &figures);
	execution->done[i] = true;
	execution->result->shards_done++;
	rc = 0;
out:
	writer_release(&preserved);
	writer_release(&writer);
	return rc;
}

static int check_places(const struct execution *execution, struct err *err)
{
	const char *in = execution->plan->source.directory;
	const char *out = execution->params->output;
	const char *preserve = execution->params->preserve;

	if (in && directory_same_path(in, out))
		return err_set(err, ERR_USAGE, "input and output are the same directory '%s'", out);
	for (size_t i = 0; i < execution->plan->n_shards; i++) {
		const char *name = execution->plan->shards[i].name;

		if (output_check_not_input(execution->plan, out, name, err) ||
		    (preserve && output_check_not_input(execution->plan, preserve, name, err)))
			return -1;
	}
	if (preserve && (directory_same_path(preserve, out) || !strcmp(preserve, out)))
		return err_set(err, ERR_USAGE,
			       "option '--preserve-high-precision' and the output name the same "
			       "directory '%s'",
			       out);
	if (preserve && in && directory_same_path(preserve, in))
		return err_set(err, ERR_USAGE,
			       "option '--preserve-high-precision' and the input name the same "
			       "directory '%s'",
			       preserve);
	return 0;
}

/* A private key there would be copied, signed and published with the rest. */
static int check_key(const struct execution *execution, struct err *err)
{
	const char *key = signing_key_path(execution->params->sign);
	const char *const places[] = { execution->params->output,
				       execution->plan->source.directory };

	for (size_t i = 0; i < sizeof places / sizeof *places; i++)
		if (places[i] && directory_holds(places[i], key))
			return err_set(err, ERR_USAGE,
				       "option '--sign': the private key '%s' lies in '%s', and "
				       "would be published with it: move it to another directory",
				       key, places[i]);
	return signature_check_name(&execution->out, err);
}

static int open_places(struct execution *execution, struct err *err)
{
	const struct convert_params *params = execution->params;
	bool shared = params->part || params->part_finish;

	if (check_places(execution, err) ||
	    outdir_open(&execution->out, params->io, params->output, OUTDIR_LOCK, shared, err) ||
	    (params->sign && check_key(execution, err)))
		return -1;
	if (params->part) {
		char *lock =
			xasprintf(".fp8conv.part-%d-of-%d.lock", params->part, params->n_parts);
		int rc = outdir_open(&execution->part_lock, params->io, params->output, lock, false,
				     err);

		free(lock);
		if (rc)
			return -1;
	}
	/* Compare again: the directory exists now, whatever the spelling of its path. */
	if (params->preserve && directory_same_path(params->preserve, params->output))
		return err_set(err, ERR_USAGE,
			       "option '--preserve-high-precision' and the output name the same "
			       "directory '%s'",
			       params->output);
	if (params->preserve)
		return outdir_open(&execution->preserve, params->io, params->preserve, OUTDIR_LOCK,
				   shared, err);
	return 0;
}

static int sign_output(const struct execution *execution, struct err *err)
{
	json_t *manifest;
	int rc;

	if (!execution->params->sign)
		return 0;
	if (manifest_load(&manifest, &execution->out, err))
		return -1;
	rc = signature_put(&execution->out, execution->params->sign,
			   json_object_get(manifest, "files"), execution->progress, err);
	json_decref(manifest);
	return rc;
}

static int finish(struct execution *execution, struct err *err)
{
	const struct plan *plan = execution->plan;

	pipeline_free(execution->pipeline); /* its memory is the index's now */
	execution->pipeline = NULL;
	if (make_copies(execution, err) ||
	    outdir_put_text(&execution->out, PARAMS_NAME, &plan->files.params, err) ||
	    compensated_inherit(execution, err) ||
	    (plan->preserved &&
	     output_index_put(plan->preserved, plan->n_shards, &execution->preserve, err)) ||
	    outdir_put_text(&execution->out, HF_QUANT_CONFIG_NAME, &plan->files.hf_quant_config,
			    err) ||
	    (plan->files.index_size &&
	     output_index_put(plan->shards, plan->n_shards, &execution->out, err)) ||
	    outdir_put_text(&execution->out, CONFIG_NAME, &plan->files.config, err) ||
	    manifest_finish(&execution->out, execution->identity, &plan->source,
			    execution->params->hashes, execution->progress, err) ||
	    (plan->rounding && store_remove(&execution->out, err)) || sign_output(execution, err))
		return -1;
	execution->result->complete = true;
	return 0;
}

/* The run that finds every shard recorded and present writes the final files: exactly one of
 * several parts does. */
static int finish_if_last(struct execution *execution, struct err *err)
{
	size_t missing = 0, first = 0;
	json_t *manifest;
	int guard;
	int rc = -1;

	if (outdir_guard(&execution->out, &guard, err))
		return -1;
	if (manifest_load(&manifest, &execution->out, err))
		goto out;
	for (size_t i = 0; i < execution->plan->n_shards; i++) {
		if (!resume_shard_done(execution, manifest, i) && !missing++)
			first = i;
	}
	if (!missing)
		rc = finish(execution, err);
	else if (execution->params->part_finish)
		rc = err_set(
			err, ERR_USAGE,
			"%zu of %zu shards are missing in '%s', the first is '%s': run their parts",
			missing, execution->plan->n_shards, execution->out.path,
			execution->plan->shards[first].name);
	else if (!execution->params->part)
		rc = err_set(err, ERR_SYSTEM, "'%s/%s' was removed while the job was running",
			     execution->out.path, execution->plan->shards[first].name);
	else
		rc = 0;
out:
	json_decref(manifest);
	outdir_unguard(&execution->out, guard);
	return rc;
}

/* Counts the work left for this run: no shards of other parts or earlier runs. */
static void count_work(const struct execution *execution)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < execution->plan->n_shards; i++)
		if (!execution->done[i] && resume_has_shard(execution, i))
			bytes += execution->plan->shards[i].input_bytes;
	progress_begin(execution->progress, PROGRESS_WORK, bytes);
}

/* Has this run shards to write? */
static bool has_work(const struct execution *execution)
{
	for (size_t i = 0; i < execution->plan->n_shards; i++)
		if (!execution->done[i])
			return true;
	return false;
}

static int convert_shards(struct execution *execution, struct err *err)
{
	for (size_t i = 0; i < execution->plan->n_shards; i++) {
		if (!execution->done[i] && resume_has_shard(execution, i) &&
		    convert_shard(execution, i, err))
			return -1;
	}
	return 0;
}

static void directory_release(struct execution *execution, bool failed)
{
	struct err ignored;

	/* A job that failed in its first shard leaves no trace.  But the record stays if a file has
	 * a shard's name. */
	for (size_t i = 0; execution->started && i < execution->plan->n_shards; i++)
		execution->started =
			!outdir_has(&execution->out, execution->plan->shards[i].name) &&
			(!execution->plan->preserved ||
			 !outdir_has(&execution->preserve, execution->plan->shards[i].name));
	if (failed && execution->started && !execution->params->part &&
	    execution->result->shards_done == 0 && !store_count(&execution->store)) {
		if (execution->store.dir)
			store_remove(&execution->out, &ignored);
		outdir_remove(&execution->out, MANIFEST_NAME, &ignored);
	}
	store_close(&execution->store);
	json_decref(execution->identity);
	free(execution->done);
	free(execution->plans);
	outdir_close(&execution->preserve);
	outdir_close(&execution->part_lock);
	outdir_close(&execution->out);
}

/* Locks the directory, and finds what it has. */
static int directory_begin(struct execution *execution, bool *finished, struct err *err)
{
	*finished = false;
	execution->identity = resume_identity(execution, err);
	if (!execution->identity || open_places(execution, err) ||
	    resume_take(execution, finished, err) ||
	    (execution->params->restart && store_remove(&execution->out, err)))
		return -1;
	return *finished ? 0 : resume_check_contents(execution, err);
}

/* Does all the work. */
static int directory_work(struct execution *execution, bool finished, struct err *err)
{
	if (execution->plan->rounding &&
	    compensated_run(execution, !finished && has_work(execution), err))
		return -1;
	if (finished) {
		execution->result->complete = true;
		return execution->plan->rounding ? store_remove(&execution->out, err) : 0;
	}
	count_work(execution);
	if (resume_check_space(execution, err) || convert_shards(execution, err) ||
	    finish_if_last(execution, err))
		return -1;
	execution->result->has_figures = execution->plan->conversion == CONVERT_QUANTIZE &&
					 !execution->params->part &&
					 execution->result->shards_found == 0;
	return 0;
}

int directory_run(struct execution *execution, struct err *err)
{
	bool finished;
	int rc;

	if (execution->params->restart &&
	    (execution->params->part || execution->params->part_finish))
		return err_set(err, ERR_USAGE,
			       "options '--restart' and '--part' cannot be combined: remove '%s' "
			       "to start over",
			       execution->params->output);
	execution->done = xcalloc(execution->plan->n_shards, sizeof *execution->done);
	execution->plans = xcalloc(execution->plan->n_shards, sizeof *execution->plans);
	for (size_t i = 0; i < execution->plan->n_shards; i++)
		execution->plans[i] = resume_plan(execution->plan, i);
	rc = directory_begin(execution, &finished, err);
	rc = group_settle(execution->params->group, rc, err);
	rc = rc ? rc : directory_work(execution, finished, err);
	directory_release(execution, rc != 0);
	return rc;
}
