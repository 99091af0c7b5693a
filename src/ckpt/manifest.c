/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/manifest.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"

#define MANIFEST_LIMIT (256 << 20) /* bytes: a million shards */

static json_t *timestamp(const struct timespec *time)
{
	return json_sprintf("%lld.%09ld", (long long)time->tv_sec, time->tv_nsec);
}

json_t *manifest_job(const char *version, const char *command, json_t *options,
		     const struct checkpoint *source)
{
	json_t *inputs = json_array();

	for (size_t i = 0; i < source->n_shards; i++) {
		const struct file_identity *id = &source->shards[i].file.identity;

		json_array_append_new(
			inputs,
			json_pack("{s:s, s:I, s:o, s:o, s:I}", "name", source->shards[i].name,
				  "size", (json_int_t)id->size, "mtime", timestamp(&id->mtime),
				  "ctime", timestamp(&id->ctime), "inode", (json_int_t)id->inode));
	}
	return json_pack("{s:s, s:s, s:s, s:o, s:o}", "tool", "fp8conv", "version", version,
			 "command", command, "options", options, "inputs", inputs);
}

json_t *manifest_load(const struct outdir *dir, struct err *err)
{
	struct buf text = { 0 };
	json_t *manifest = NULL;

	if (!outdir_has(dir, MANIFEST_NAME))
		return NULL;
	if (!io_read_file(dir->io, dir->fd, MANIFEST_NAME, MANIFEST_LIMIT, &text, err)) {
		manifest = json_decode((struct json_text){ text.data, text.len }, err);
		if (!manifest)
			err_wrap(err, "cannot read '%s/%s' (--restart begins anew)", dir->path,
				 MANIFEST_NAME);
		else if (!json_is_array(json_object_get(manifest, "shards"))) {
			json_decref(manifest);
			manifest = NULL;
			err_set(err, ERR_INPUT, "'%s/%s' is not a manifest (--restart begins anew)",
				dir->path, MANIFEST_NAME);
		}
	}
	buf_release(&text);
	return manifest;
}

/* A list of input files as it was when the job began: without the hashes that the end of the job
 * added. */
static json_t *without_hashes(const json_t *inputs)
{
	json_t *copy = json_deep_copy(inputs);
	size_t i;
	json_t *record;

	json_array_foreach(copy, i, record) json_object_del(record, "sha256");
	return copy;
}

/* Whether a member of the manifest says the same as that of the job. */
static bool same_member(const char *key, const json_t *was, const json_t *is)
{
	json_t *inputs;
	bool same;

	if (strcmp(key, "inputs") != 0)
		return was && json_equal(was, is);
	inputs = without_hashes(was);
	same = inputs && json_equal(inputs, is);
	json_decref(inputs);
	return same;
}

int manifest_check(const json_t *manifest, const json_t *job, const struct outdir *dir,
		   struct err *err)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)job, key, value)
	{
		json_t *was = json_object_get(manifest, key);
		const char *name;
		json_t *option;

		if (same_member(key, was, value))
			continue;
		if (strcmp(key, "options") != 0)
			return err_set(
				err, ERR_USAGE,
				"'%s' holds the output of another job: %s differs (--restart "
				"begins anew)",
				dir->path,
				strcmp(key, "inputs")
					? key
					: "the input (name, size, times or inode of a file)");
		json_object_foreach(value, name, option)
		{
			if (!json_equal(json_object_get(was, name), option))
				break;
		}
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: option %s differs (--restart "
			       "begins anew)",
			       dir->path, name ? name : "list");
	}
	return 0;
}

static int manifest_save(const json_t *manifest, const struct outdir *dir, struct err *err)
{
	char *text = json_dumps(manifest, JSON_INDENT(2));
	char *line = xasprintf("%s\n", text);
	int rc = outdir_put(dir, MANIFEST_NAME, line, strlen(line), err);

	free(text);
	free(line);
	return rc;
}

int manifest_start(const json_t *job, const struct outdir *dir, struct err *err)
{
	json_t *manifest = json_copy((json_t *)job);
	int rc;

	json_object_set_new(manifest, "shards", json_array());
	json_object_set_new(manifest, "finished", json_false());
	rc = manifest_save(manifest, dir, err);
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

/* Keeps the shards in the order of their names, whoever finishes first. */
static void insert_shard(json_t *shards, json_t *record)
{
	const char *name = json_string_value(json_object_get(record, "name"));
	size_t at = json_array_size(shards);

	while (at > 0) {
		const char *before =
			json_string_value(json_object_get(json_array_get(shards, at - 1), "name"));

		if (before && strcmp(before, name) < 0)
			break;
		at--;
	}
	json_array_insert_new(shards, at, record);
}

/* What was said of a file that is written anew. */
static void manifest_drop_shard(json_t *shards, const char *name)
{
	for (size_t i = json_array_size(shards); i-- > 0;) {
		const char *found =
			json_string_value(json_object_get(json_array_get(shards, i), "name"));

		if (found && !strcmp(found, name))
			json_array_remove(shards, i);
	}
}

int manifest_add_shard(const struct outdir *dir, const struct shard_record *shard, struct err *err)
{
	json_t *manifest;
	json_t *record;
	int guard;
	int rc = -1;

	if (outdir_guard(dir, &guard, err))
		return -1;
	*err = (struct err){ 0 };
	manifest = manifest_load(dir, err);
	if (!manifest) {
		if (!err->kind)
			err_set(err, ERR_SYSTEM, "'%s/%s' went away while the job ran", dir->path,
				MANIFEST_NAME);
		goto out;
	}
	manifest_drop_shard(json_object_get(manifest, "shards"), shard->name);
	record = json_pack("{s:s, s:I}", "name", shard->name, "size", (json_int_t)shard->size);
	json_object_set_new(record, MANIFEST_CRC, crc_text(shard->crc));
	if (shard->has_preserved)
		json_object_set_new(record, MANIFEST_PRESERVED_CRC, crc_text(shard->preserved_crc));
	insert_shard(json_object_get(manifest, "shards"), record);
	rc = manifest_save(manifest, dir, err);
out:
	json_decref(manifest);
	outdir_unguard(dir, guard);
	return rc;
}

/* Adds "sha256" (and "size") of the file at path below dirfd to a record. */
static int record_hash(json_t *record, const struct io *io, int dirfd, const char *path,
		       const atomic_int *stop, struct err *err)
{
	char hex[SHA256_HEX];
	uint64_t size;

	if (checksum_sha256(io, dirfd, path, stop, hex, &size, err))
		return -1;
	json_object_set_new(record, "size", json_integer((json_int_t)size));
	json_object_set_new(record, "sha256", json_string(hex));
	return 0;
}

static int hash_inputs(json_t *manifest, const struct io *io, const struct checkpoint *source,
		       const atomic_int *stop, struct err *err)
{
	size_t i;
	json_t *record;

	json_array_foreach(json_object_get(manifest, "inputs"), i, record)
	{
		if (record_hash(record, io, AT_FDCWD, source->shards[i].file.path, stop, err))
			return -1;
	}
	return 0;
}

static int hash_output(json_t *list, const struct outdir *dir, const char *name,
		       const atomic_int *stop, struct err *err)
{
	json_t *record = json_pack("{s:s}", "name", name);

	if (!record)
		return err_set(err, ERR_INPUT,
			       "the name of '%s' in '%s' is not UTF-8, which %s cannot record",
			       name, dir->path, MANIFEST_NAME);
	json_array_append_new(list, record);
	return record_hash(record, dir->io, dir->fd, name, stop, err);
}

static int hash_outputs(json_t *manifest, const struct outdir *dir, const atomic_int *stop,
			struct err *err)
{
	struct listing files = { 0 };
	json_t *list = json_array();
	int rc = listing_files(dir->io, dir->fd, dir->path, MANIFEST_NAME, &files, err);

	for (size_t i = 0; i < files.n && !rc; i++)
		rc = hash_output(list, dir, files.items[i], stop, err);
	listing_release(&files);
	json_object_set_new(manifest, "files", list);
	return rc;
}

int manifest_finish(const struct outdir *dir, const struct checkpoint *source, bool hashes,
		    const atomic_int *stop, struct err *err)
{
	json_t *manifest;
	int rc = -1;

	*err = (struct err){ 0 };
	manifest = manifest_load(dir, err);
	if (!manifest)
		return err->kind ? -1
				 : err_set(err, ERR_SYSTEM, "'%s/%s' went away while the job ran",
					   dir->path, MANIFEST_NAME);
	if (hashes && (hash_inputs(manifest, dir->io, source, stop, err) ||
		       hash_outputs(manifest, dir, stop, err)))
		goto out;
	json_object_set_new(manifest, "finished", json_true());
	rc = manifest_save(manifest, dir, err);
out:
	json_decref(manifest);
	return rc;
}
