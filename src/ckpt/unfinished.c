/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/unfinished.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/file_set.h"
#include "ckpt/manifest.h"

/* Takes the files of an unfinished job from its manifest: each has the name of an input. */
static void read_inputs(struct unfinished *unfinished, const struct io *io, const json_t *manifest,
			const char *directory)
{
	size_t i;
	json_t *input;

	json_array_foreach(json_object_get(manifest, "inputs"), i, input)
	{
		const char *name = json_string_value(json_object_get(input, "name"));

		if (!name || strchr(name, '/') || !manifest_is_weights(input))
			continue;
		unfinished->n_expected++;
		if (io_exists_in(io, directory, name))
			listing_add(&unfinished->files, xstrdup(name));
	}
	listing_sort(&unfinished->files);
}

/* An invalid manifest says nothing: it may be another program's. */
static int read_manifest(struct unfinished *unfinished, const struct io *io, const char *directory,
			 struct err *err)
{
	char *path = xasprintf("%s/" MANIFEST_NAME, directory);
	struct buf text = { 0 };
	struct err ignored;
	json_t *manifest = NULL;
	int rc = 0;

	if (io_exists_in(io, directory, MANIFEST_NAME)) {
		rc = io_read_file(io, AT_FDCWD, path, MANIFEST_LIMIT, &text, err);
		manifest = rc ? NULL
			      : json_decode((struct json_text){ text.data, text.len }, &ignored);
	}
	unfinished->found = json_is_false(json_object_get(manifest, "finished"));
	unfinished->by_manifest = unfinished->found;
	if (unfinished->found)
		read_inputs(unfinished, io, manifest, directory);
	json_decref(manifest);
	buf_release(&text);
	free(path);
	return rc;
}

/* Takes the largest set of files that are named as one of N. */
static void read_names(struct unfinished *unfinished, const struct listing *names)
{
	struct file_set set;

	file_set_find(&set, names);
	unfinished->found = set.missing != NULL;
	unfinished->n_expected = set.n_expected;
	unfinished->files = set.files;
	unfinished->missing = set.missing;
	set.files = (struct listing){ 0 };
	set.missing = NULL;
	file_set_release(&set);
}

int unfinished_find(struct unfinished *unfinished, const struct io *io, const char *directory,
		    struct err *err)
{
	struct listing names = { 0 };
	int rc;

	*unfinished = (struct unfinished){ 0 };
	if (read_manifest(unfinished, io, directory, err))
		return -1;
	if (unfinished->found || io_exists_in(io, directory, INDEX_NAME) ||
	    io_exists_in(io, directory, MODEL_NAME))
		return 0;
	rc = listing_safetensors(io, directory, &names, err);
	if (!rc)
		read_names(unfinished, &names);
	listing_release(&names);
	return rc;
}

void unfinished_release(struct unfinished *unfinished)
{
	listing_release(&unfinished->files);
	free(unfinished->missing);
	*unfinished = (struct unfinished){ 0 };
}
