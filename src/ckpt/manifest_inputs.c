/* SPDX-License-Identifier: Apache-2.0
 *
 * The inputs of a job: files of weights, then all other files that a conversion reads or copies.
 * Weights are known by size, modification time and the checksum of their header, because their
 * contents take long to read; the others by their contents.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <isa-l/crc.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/manifest.h"

static json_t *timestamp(const struct timespec *time)
{
	return json_sprintf("%lld.%09ld", (long long)time->tv_sec, time->tv_nsec);
}

/* Returns a checksum of what chmod, ln and copies change.  The manifest is published with the
 * output, so that inode and change time themselves are no part of it. */
static json_t *state(const struct file_identity *id)
{
	char *text = xasprintf("%" PRIu64 " %lld.%09ld", id->inode, (long long)id->ctime.tv_sec,
			       id->ctime.tv_nsec);
	json_t *crc = json_sprintf("%08x", crc32_gzip_refl(0, (unsigned char *)text, strlen(text)));

	free(text);
	return crc;
}

static void add_weights(json_t *inputs, const struct checkpoint *source)
{
	for (size_t i = 0; i < source->n_files; i++) {
		const struct st_file *file = &source->files[i].file;
		const struct file_identity *id = &file->identity;

		json_array_append_new(inputs,
				      json_pack("{s:s, s:I, s:o, s:o, s:o}", "name",
						source->files[i].name, "size", (json_int_t)id->size,
						"mtime", timestamp(&id->mtime), "header_crc32",
						json_sprintf("%08x", file->header_crc), "state",
						state(id)));
	}
}

/* A name that is not UTF-8 is left out: its file counts as unchanged. */
static int add_file(json_t *inputs, const struct checkpoint *source, const char *name,
		    struct progress *progress, struct err *err)
{
	char *path = xasprintf("%s/%s", source->directory, name);
	struct progress unwatched = { .stop = progress->stop };
	struct sha256 sha256;
	int rc = checksum_sha256(source->io, AT_FDCWD, path, &unwatched, &sha256, err);

	if (!rc)
		json_array_append_new(inputs, json_pack("{s:s, s:I, s:s}", "name", name, "size",
							(json_int_t)sha256.identity.size, "sha256",
							sha256.hex));
	free(path);
	return rc;
}

static int add_configuration(json_t *inputs, const struct checkpoint *source,
			     struct progress *progress, struct err *err)
{
	static const char *const names[] = { CONFIG_NAME, HF_QUANT_CONFIG_NAME };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (io_exists_in(source->io, source->directory, names[i]) &&
		    add_file(inputs, source, names[i], progress, err))
			return -1;
	return 0;
}

static int add_auxiliary(json_t *inputs, const struct checkpoint *source, struct progress *progress,
			 struct err *err)
{
	struct listing files;
	int rc = checkpoint_auxiliary(source, &files, err);

	for (size_t i = 0; i < files.n && !rc; i++)
		rc = add_file(inputs, source, files.items[i], progress, err);
	listing_release(&files);
	return rc;
}

json_t *manifest_inputs(const struct checkpoint *source, struct progress *progress, struct err *err)
{
	json_t *inputs = json_array();

	add_weights(inputs, source);
	if (json_array_size(inputs) != source->n_files)
		err_set(err, ERR_INPUT,
			"the name of input file '%s' is not UTF-8: %s cannot record it",
			source->files[0].name, MANIFEST_NAME);
	else if (!source->directory || (!add_configuration(inputs, source, progress, err) &&
					!add_auxiliary(inputs, source, progress, err)))
		return inputs;
	json_decref(inputs);
	return NULL;
}

bool manifest_is_weights(const json_t *input)
{
	return json_object_get(input, "mtime") != NULL;
}

static size_t n_weights(const json_t *inputs)
{
	size_t n = 0;

	while (manifest_is_weights(json_array_get(inputs, n)))
		n++;
	return n;
}

static uint64_t size_of(const json_t *record)
{
	return (uint64_t)json_integer_value(json_object_get(record, "size"));
}

static bool same(const json_t *was, const json_t *is, const char *key)
{
	return json_equal(json_object_get(was, key), json_object_get(is, key));
}

/* Does a recorded time have a fraction of a second? */
static bool has_fraction(const char *time)
{
	const char *fraction = strchr(time, '.');

	return fraction && fraction[strspn(fraction, ".0")];
}

/* Returns the difference of two records of equal size; NULL: the records prove that the contents
 * are the same. */
static const char *difference(const json_t *was, const json_t *is)
{
	if (!same(was, is, "header_crc32"))
		return "header";
	if (!same(was, is, "mtime"))
		return "modification time";
	if (!has_fraction(json_member_text(is, "mtime")) && !same(was, is, "state"))
		return "change time";
	return NULL;
}

static int differs(const char *directory, const char *what, const json_t *input, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "'%s' holds the output of another job: the %s of input '%s' differs (use "
		       "--restart to start over)",
		       directory, what, json_member_text(input, "name"));
}

static int weights_compare(const json_t *was, const json_t *is, const char *directory,
			   struct err *err)
{
	if (strcmp(json_member_text(was, "name"), json_member_text(is, "name")) != 0)
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: input '%s' was '%s' "
			       "(use --restart to start over)",
			       directory, json_member_text(is, "name"),
			       json_member_text(was, "name"));
	if (!same(was, is, "size"))
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: input '%s' had %" PRIu64
			       " bytes, now %" PRIu64 " (use --restart to start over)",
			       directory, json_member_text(is, "name"), size_of(was), size_of(is));
	return difference(was, is) ? differs(directory, difference(was, is), is, err) : 0;
}

const json_t *manifest_input(const json_t *inputs, const char *name)
{
	size_t i;
	json_t *input;

	json_array_foreach(inputs, i, input)
	{
		if (!manifest_is_weights(input) && !strcmp(json_member_text(input, "name"), name))
			return input;
	}
	return NULL;
}

/* ERR_USAGE where a file that is not weights has no record among the others; how: "is new" or
 * "is gone". */
static int find_unmatched(const json_t *records, const json_t *others, const char *directory,
			  const char *how, struct err *err)
{
	size_t i;
	json_t *input;

	json_array_foreach(records, i, input)
	{
		if (!manifest_is_weights(input) &&
		    !manifest_input(others, json_member_text(input, "name")))
			return err_set(err, ERR_USAGE,
				       "'%s' holds the output of another job: input '%s' %s (use "
				       "--restart to start over)",
				       directory, json_member_text(input, "name"), how);
	}
	return 0;
}

/* Compares the inputs that are not weights. */
static int files_compare(const json_t *was, const json_t *is, const char *directory,
			 struct err *err)
{
	size_t i;
	json_t *input;

	if (find_unmatched(was, is, directory, "is gone", err) ||
	    find_unmatched(is, was, directory, "is new", err))
		return -1;
	json_array_foreach(is, i, input)
	{
		if (!manifest_is_weights(input) &&
		    !same(manifest_input(was, json_member_text(input, "name")), input, "sha256"))
			return differs(directory, "content", input, err);
	}
	return 0;
}

int manifest_inputs_compare(const json_t *was, const json_t *is, const char *directory,
			    struct err *err)
{
	size_t n = n_weights(is);

	if (n_weights(was) != n)
		return err_set(err, ERR_USAGE,
			       "'%s' holds the output of another job: it had %zu input files, "
			       "this one has %zu (use --restart to start over)",
			       directory, n_weights(was), n);
	for (size_t i = 0; i < n; i++)
		if (weights_compare(json_array_get(was, i), json_array_get(is, i), directory, err))
			return -1;
	return files_compare(was, is, directory, err);
}
