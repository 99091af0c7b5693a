/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/unfinished.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

#define SUFFIX ".safetensors"

static bool exists(const struct io *io, const char *directory, const char *name)
{
	char *path = xasprintf("%s/%s", directory, name);
	bool found = io_exists(io, path);

	free(path);
	return found;
}

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
		if (exists(io, directory, name))
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

	if (exists(io, directory, MANIFEST_NAME)) {
		rc = io_read_file(io, AT_FDCWD, path, MANIFEST_LIMIT, &text, err);
		manifest = rc ? NULL
			      : json_decode((struct json_text){ text.data, text.len }, &ignored);
	}
	unfinished->found = json_is_false(json_object_get(manifest, "finished"));
	if (unfinished->found)
		read_inputs(unfinished, io, manifest, directory);
	json_decref(manifest);
	buf_release(&text);
	free(path);
	return rc;
}

/* Returns the place of "00002-of-00004.safetensors" in a name, and sets *n to 4; NULL where the
 * name has another form. */
static const char *part_of(const char *name, size_t *n)
{
	const char *of = strstr(name, "-of-"), *at = of;
	size_t digits;

	*n = 0;
	while (at && at > name && at[-1] >= '0' && at[-1] <= '9')
		at--;
	if (!of || at == of)
		return NULL;
	of += strlen("-of-");
	digits = strspn(of, "0123456789");
	for (size_t i = 0; i < digits && digits <= 9; i++)
		*n = *n * 10 + (size_t)(of[i] - '0');
	return *n && !strcmp(of + digits, SUFFIX) ? at : NULL;
}

/* Takes the set of the first file that is one of N. */
static void read_names(struct unfinished *unfinished, const struct listing *all)
{
	struct listing *files = &unfinished->files;
	size_t length = 0;

	for (size_t i = 0; i < all->n; i++) {
		const char *name = all->items[i];
		size_t n;
		const char *part = part_of(name, &n);

		if (part && !files->n) {
			unfinished->n_expected = n;
			length = (size_t)(part - name);
		}
		if (part && n == unfinished->n_expected && length == (size_t)(part - name) &&
		    (!files->n || !strncmp(name, files->items[0], length)))
			listing_add(files, xstrdup(name));
	}
	unfinished->found = files->n < unfinished->n_expected;
}

int unfinished_find(struct unfinished *unfinished, const struct io *io, const char *directory,
		    struct err *err)
{
	struct listing names = { 0 };
	int rc;

	*unfinished = (struct unfinished){ 0 };
	if (read_manifest(unfinished, io, directory, err))
		return -1;
	if (unfinished->found || exists(io, directory, INDEX_NAME) ||
	    exists(io, directory, MODEL_NAME))
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
	*unfinished = (struct unfinished){ 0 };
}
