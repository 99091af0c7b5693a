/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/manifest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"
#include "ckpt/signature.h"

json_t *manifest_job(const char *version, const char *command, json_t *options, json_t *inputs)
{
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "tool", "fp8conv", "version", version,
			 "command", command, "options", options, "inputs", inputs);
}

/* Decodes the manifest and checks its values; *manifest stays NULL where they are bad. */
static int decode_checked(json_t **manifest, const struct buf *text, const char *path,
			  struct err *err)
{
	struct err reason = { 0 };
	json_t *json = json_decode((struct json_text){ text->data, text->len }, &reason);

	if (json && !manifest_values_check(json, &reason)) {
		*manifest = json;
		return 0;
	}
	json_decref(json);
	return err_set(err, ERR_INPUT, "'%s': %s: restore the file or remove it", path,
		       reason.message);
}

int manifest_read(json_t **manifest, const struct checkpoint *checkpoint, struct err *err)
{
	struct buf text = { 0 };
	char *path;
	int rc;

	*manifest = NULL;
	if (!checkpoint->directory)
		return 0;
	path = xasprintf("%s/" MANIFEST_NAME, checkpoint->directory);
	rc = io_read_file(checkpoint->io, AT_FDCWD, path, MANIFEST_LIMIT, &text, err);
	if (!rc) {
		rc = decode_checked(manifest, &text, path, err);
	} else if (err->kind != ERR_SYSTEM && !io_exists(checkpoint->io, path)) {
		*err = (struct err){ 0 };
		rc = 0;
	}
	buf_release(&text);
	free(path);
	return rc;
}

bool manifest_is_compensated(const json_t *manifest)
{
	const json_t *rounding = json_object_get(json_object_get(manifest, "rounding"), "rounding");

	return json_is_string(rounding) && !strcmp(json_string_value(rounding), "compensated");
}

int manifest_load(json_t **manifest, const struct outdir *dir, struct err *err)
{
	struct buf text = { 0 };
	int rc;

	*manifest = NULL;
	if (!outdir_has(dir, MANIFEST_NAME))
		return 0;
	rc = io_read_file(dir->io, dir->fd, MANIFEST_NAME, MANIFEST_LIMIT, &text, err);
	if (!rc)
		*manifest = json_decode((struct json_text){ text.data, text.len }, err);
	if (!rc && !*manifest)
		rc = err_wrap(err, "cannot read '%s/%s' (use --restart to start over)", dir->path,
			      MANIFEST_NAME);
	if (!rc && !json_is_array(json_object_get(*manifest, "shards"))) {
		json_decref(*manifest);
		*manifest = NULL;
		rc = err_set(err, ERR_INPUT,
			     "'%s/%s' is not a manifest (use --restart to start over)", dir->path,
			     MANIFEST_NAME);
	}
	buf_release(&text);
	return rc;
}

/* Returns the first option that one list has and the other has not with the same value, or NULL. A
 * hash says less than what it was made of: it comes last. */
static const char *option_not_in(const json_t *one, const json_t *other)
{
	const char *name, *hash = NULL;
	json_t *option;

	json_object_foreach((json_t *)one, name, option)
	{
		if (json_equal(json_object_get(other, name), option))
			continue;
		if (!strstr(name, "sha256"))
			return name;
		hash = name;
	}
	return hash;
}

const char *manifest_option_that_differs(const json_t *was, const json_t *is)
{
	const char *name;

	if (!json_is_object(was) || !json_is_object(is))
		return NULL;
	name = option_not_in(is, was);
	return name ? name : option_not_in(was, is);
}

static int options_check(const json_t *was, const json_t *is, const struct outdir *dir,
			 struct err *err)
{
	const char *name;
	struct buf path = { 0 };

	if (was && json_equal(was, is))
		return 0;
	while ((name = manifest_option_that_differs(was, is))) {
		buf_printf(&path, "%s%s", path.len ? "." : "", name);
		was = json_object_get(was, name);
		is = json_object_get(is, name);
	}
	err_set(err, ERR_USAGE,
		"'%s' holds the output of another job: option '%s' differs (use --restart to "
		"start over)",
		dir->path, path.len ? path.data : "list");
	buf_release(&path);
	return -1;
}

int manifest_check(const json_t *manifest, const json_t *job, const struct outdir *dir,
		   struct err *err)
{
	static const char *const texts[] = { "tool", "version", "command" };

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (strcmp(json_member_text(manifest, texts[i]), json_member_text(job, texts[i])) !=
		    0)
			return err_set(err, ERR_USAGE,
				       "'%s' holds the output of another job: %s differs (use "
				       "--restart to start over)",
				       dir->path, texts[i]);
	if (options_check(json_object_get(manifest, "options"), json_object_get(job, "options"),
			  dir, err))
		return -1;
	return manifest_inputs_compare(json_object_get(manifest, "inputs"),
				       json_object_get(job, "inputs"), dir->path, err);
}

/* The caller frees it. */
static char *dump(const json_t *manifest)
{
	char *text = json_dumps(manifest, JSON_INDENT(2));
	char *line = xasprintf("%s\n", text);

	free(text);
	return line;
}

int manifest_save(const json_t *manifest, const struct outdir *dir, struct err *err)
{
	char *text = dump(manifest);
	int rc = outdir_put(dir, MANIFEST_NAME, text, strlen(text), err);

	free(text);
	return rc;
}

/* Returns the manifest of a job, with these shards. */
static json_t *job_manifest(const json_t *job, json_t *shards, bool finished)
{
	json_t *manifest = json_copy((json_t *)job);

	json_object_set_new(manifest, "shards", shards);
	json_object_set_new(manifest, "finished", json_boolean(finished));
	return manifest;
}

int manifest_start(const json_t *job, const struct outdir *dir, struct err *err)
{
	json_t *manifest = job_manifest(job, json_array(), false);
	int rc = manifest_save(manifest, dir, err);

	json_decref(manifest);
	return rc;
}

static const json_t *find_shard(const json_t *manifest, const char *name)
{
	size_t i;
	json_t *shard;

	json_array_foreach(json_object_get(manifest, "shards"), i, shard)
	{
		const char *found = json_string_value(json_object_get(shard, "name"));

		if (found && !strcmp(found, name))
			return shard;
	}
	return NULL;
}

bool manifest_has_shard(const json_t *manifest, const char *name)
{
	return find_shard(manifest, name) != NULL;
}

static void drop_record(json_t *list, const char *name)
{
	for (size_t i = json_array_size(list); i-- > 0;) {
		const char *found =
			json_string_value(json_object_get(json_array_get(list, i), "name"));

		if (found && !strcmp(found, name))
			json_array_remove(list, i);
	}
}

static json_t *crc_text(uint32_t crc)
{
	return json_sprintf("%08x", crc);
}

bool manifest_same_crc(const json_t *manifest, const char *name, const char *member, uint32_t crc)
{
	json_t *is = crc_text(crc);
	const json_t *was = json_object_get(find_shard(manifest, name), member);
	bool same = was && json_equal(was, is);

	json_decref(is);
	return same;
}

bool manifest_finished(const json_t *manifest, bool hashes)
{
	return json_is_true(json_object_get(manifest, "finished")) &&
	       (!hashes || json_object_get(manifest, "files"));
}

int manifest_reopen(json_t *manifest, const struct outdir *dir, struct err *err)
{
	if (!manifest_finished(manifest, false))
		return 0;
	json_object_set_new(manifest, "finished", json_false());
	json_object_del(manifest, "files");
	return manifest_save(manifest, dir, err);
}

/* Keeps shards and files in the order of their names, whichever part finishes first. */
static void insert_record(json_t *list, json_t *record)
{
	const char *name = json_string_value(json_object_get(record, "name"));
	size_t at = json_array_size(list);

	while (at > 0) {
		const char *before =
			json_string_value(json_object_get(json_array_get(list, at - 1), "name"));

		if (before && strcmp(before, name) < 0)
			break;
		at--;
	}
	json_array_insert_new(list, at, record);
}

/* Reads the manifest of a running job. */
static int manifest_reload(const struct outdir *dir, json_t **manifest, struct err *err)
{
	if (manifest_load(manifest, dir, err))
		return -1;
	return *manifest ? 0
			 : err_set(err, ERR_SYSTEM, "'%s/%s' was removed while the job was running",
				   dir->path, MANIFEST_NAME);
}

static json_t *shard_json(const struct shard_record *shard)
{
	json_t *record =
		json_pack("{s:s, s:I}", "name", shard->name, "size", (json_int_t)shard->size);

	json_object_set_new(record, MANIFEST_PLAN, crc_text(shard->plan));
	json_object_set_new(record, MANIFEST_CRC, crc_text(shard->crc));
	if (shard->has_preserved)
		json_object_set_new(record, MANIFEST_PRESERVED_CRC, crc_text(shard->preserved_crc));
	return record;
}

char *manifest_text(const json_t *job, const struct shard_record *shards, size_t n)
{
	json_t *list = json_array(), *manifest;
	char *text;

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, shard_json(&shards[i]));
	manifest = job_manifest(job, list, true);
	text = dump(manifest);
	json_decref(manifest);
	return text;
}

int manifest_add_shard(const struct outdir *dir, const struct shard_record *shard, struct err *err)
{
	json_t *manifest = NULL;
	int guard;
	int rc = -1;

	if (outdir_guard(dir, &guard, err))
		return -1;
	if (manifest_reload(dir, &manifest, err))
		goto out;
	drop_record(json_object_get(manifest, "shards"), shard->name);
	insert_record(json_object_get(manifest, "shards"), shard_json(shard));
	rc = manifest_save(manifest, dir, err);
out:
	json_decref(manifest);
	outdir_unguard(dir, guard);
	return rc;
}

int manifest_add_member(const struct outdir *dir, const char *key, json_t *value, struct err *err)
{
	json_t *manifest = NULL;
	int rc = manifest_reload(dir, &manifest, err);

	if (rc) {
		json_decref(value);
		return -1;
	}
	json_object_set_new(manifest, key, value);
	rc = manifest_save(manifest, dir, err);
	json_decref(manifest);
	return rc;
}

static void record_hash(json_t *record, const struct sha256 *sha256)
{
	json_object_set_new(record, "size", json_integer((json_int_t)sha256->identity.size));
	json_object_set_new(record, "sha256", json_string(sha256->hex));
}

/* The source is the one that was converted, or it is not recorded. */
static int hash_inputs(json_t *manifest, const struct io *io, const struct checkpoint *source,
		       struct progress *progress, struct err *err)
{
	json_t *inputs = json_object_get(manifest, "inputs");

	for (size_t i = 0; i < source->n_files; i++) {
		const struct st_file *file = &source->files[i].file;
		struct sha256 sha256;

		atomic_store(&progress->name, source->files[i].name);
		if (checksum_sha256(io, AT_FDCWD, file->path, progress, &sha256, err))
			return -1;
		if (!file_identity_equal(&sha256.identity, &file->identity))
			return err_set(err, ERR_INPUT, "'%s' changed while it was read",
				       file->path);
		record_hash(json_array_get(inputs, i), &sha256);
	}
	atomic_store(&progress->name, NULL);
	return 0;
}

static int hash_output(json_t *list, const struct outdir *dir, const char *name,
		       struct progress *progress, struct err *err)
{
	json_t *record = json_pack("{s:s}", "name", name);
	struct sha256 sha256;

	if (!record)
		return err_set(err, ERR_INPUT,
			       "the name of '%s' in '%s' is not UTF-8: %s cannot record it", name,
			       dir->path, MANIFEST_NAME);
	insert_record(list, record);
	if (checksum_sha256(dir->io, dir->fd, name, progress, &sha256, err))
		return -1;
	record_hash(record, &sha256);
	return 0;
}

static int hash_outputs(json_t *manifest, const struct outdir *dir, const struct listing *files,
			struct progress *progress, struct err *err)
{
	json_t *list = json_array();
	int rc = 0;

	for (size_t i = 0; i < files->n && !rc; i++)
		rc = hash_output(list, dir, files->items[i], progress, err);
	json_object_set_new(manifest, "files", list);
	return rc;
}

static uint64_t bytes_to_hash(const struct outdir *dir, const struct listing *files,
			      const struct checkpoint *source)
{
	uint64_t bytes = 0;
	struct stat st;

	for (size_t i = 0; i < source->n_files; i++)
		bytes += source->files[i].file.identity.size;
	for (size_t i = 0; i < files->n; i++)
		if (!fstatat(dir->fd, files->items[i], &st, AT_SYMLINK_NOFOLLOW))
			bytes += (uint64_t)st.st_size;
	return bytes;
}

bool manifest_leaves_out(const char *path, mode_t type)
{
	const char *name = strrchr(path, '/');

	name = name ? name + 1 : path;
	return name[0] == '.' || !(type == S_IFREG || type == S_IFDIR) ||
	       !strcmp(path, MANIFEST_NAME) || !strcmp(path, SIGNATURE_NAME);
}

static int hash_all(json_t *manifest, const struct outdir *dir, const struct checkpoint *source,
		    struct progress *progress, struct err *err)
{
	struct listing files = { 0 };
	int rc = listing_files(dir->io, dir->fd, dir->path, manifest_leaves_out, &files, err);

	if (!rc) {
		progress_begin(progress, PROGRESS_HASH, bytes_to_hash(dir, &files, source));
		rc = hash_inputs(manifest, dir->io, source, progress, err);
	}
	if (!rc)
		rc = hash_outputs(manifest, dir, &files, progress, err);
	listing_release(&files);
	return rc;
}

int manifest_add_files(const struct outdir *dir, const char *const *names, size_t n,
		       struct progress *progress, struct err *err)
{
	json_t *manifest, *files;
	int guard;
	int rc = -1;

	if (outdir_guard(dir, &guard, err))
		return -1;
	if (manifest_load(&manifest, dir, err))
		goto out;
	files = json_object_get(manifest, "files");
	if (!json_is_array(files)) {
		rc = 0;
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		drop_record(files, names[i]);
		if (hash_output(files, dir, names[i], progress, err))
			goto out;
	}
	rc = manifest_save(manifest, dir, err);
out:
	json_decref(manifest);
	outdir_unguard(dir, guard);
	return rc;
}

int manifest_finish(const struct outdir *dir, const json_t *job, const struct checkpoint *source,
		    bool hashes, struct progress *progress, struct err *err)
{
	json_t *manifest;
	int rc = -1;

	if (manifest_reload(dir, &manifest, err))
		return -1;
	json_object_set_new(manifest, "inputs", json_deep_copy(json_object_get(job, "inputs")));
	if (hashes && hash_all(manifest, dir, source, progress, err))
		goto out;
	json_object_set_new(manifest, "finished", json_true());
	rc = manifest_save(manifest, dir, err);
out:
	json_decref(manifest);
	return rc;
}
