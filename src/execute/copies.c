/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/copies.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ckpt/checksum.h"
#include "ckpt/manifest.h"

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

int copies_discard(const struct execution *execution, const json_t *manifest, struct err *err)
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

int copies_make(const struct execution *execution, struct err *err)
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
