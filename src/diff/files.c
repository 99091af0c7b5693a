/* SPDX-License-Identifier: Apache-2.0
 *
 * Objects are compared through a list of pairs, without recursion over the input.
 */
#include "diff/files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"

/* --- config.json --- */

/* Bytes of the names that precede a key's own: a hostile file has long names with many keys. */
#define PATH_LENGTH 200

struct key_pair {
	char *path; /* "" or "text_config." */
	const json_t *values[2];
};

struct key_pairs {
	size_t n;
	struct key_pair *list;
};

static char *json_as_text(const json_t *value)
{
	char *text = value ? json_dumps(value, JSON_ENCODE_ANY | JSON_REAL_PRECISION(15)) : NULL;

	return value && !text ? xstrdup("null") : text;
}

static void add_key(struct difference *difference, const char *path, const char *key,
		    const json_t *values[2])
{
	ARRAY_GROW(difference->keys, difference->n_keys);
	difference->keys[difference->n_keys++] =
		(struct diff_entry){ .name = xasprintf("%.*s%s", PATH_LENGTH, path, key),
				     .values = { json_as_text(values[0]),
						 json_as_text(values[1]) } };
}

static void compare_key(struct difference *difference, struct key_pairs *pairs,
			const struct key_pair *in, const char *key)
{
	const json_t *values[2] = { json_object_get(in->values[0], key),
				    json_object_get(in->values[1], key) };

	if (json_is_object(values[0]) && json_is_object(values[1])) {
		ARRAY_GROW(pairs->list, pairs->n);
		pairs->list[pairs->n++] =
			(struct key_pair){ xasprintf("%.*s%s.", PATH_LENGTH, in->path, key),
					   { values[0], values[1] } };
	} else if (json_is_number(values[0]) && json_is_number(values[1])) {
		if (json_number_value(values[0]) != json_number_value(values[1]))
			add_key(difference, in->path, key, values);
	} else if (!json_equal((json_t *)values[0], (json_t *)values[1])) {
		add_key(difference, in->path, key, values);
	}
}

static void compare_objects(struct difference *difference, const json_t *a, const json_t *b)
{
	struct key_pairs pairs = { 0 };
	const char *key;
	json_t *value;

	ARRAY_GROW(pairs.list, pairs.n);
	pairs.list[pairs.n++] = (struct key_pair){ xstrdup(""), { a, b } };
	while (pairs.n) {
		struct key_pair pair = pairs.list[--pairs.n];

		json_object_foreach((json_t *)pair.values[0], key, value)
			compare_key(difference, &pairs, &pair, key);
		json_object_foreach((json_t *)pair.values[1], key,
				    value) if (!json_object_get(pair.values[0], key))
			compare_key(difference, &pairs, &pair, key);
		free(pair.path);
	}
	free(pairs.list);
	if (difference->n_keys)
		qsort(difference->keys, difference->n_keys, sizeof *difference->keys, text_compare);
}

/* Reads the config.json of both sides; one that is missing has no keys. */
static int compare_configs(struct difference *difference, struct err *err)
{
	json_t *configs[2] = { NULL };
	int rc = 0;

	for (int s = 0; s < 2 && !rc; s++) {
		const struct checkpoint *checkpoint = &difference->sides[s].checkpoint;
		const struct buf *text = &checkpoint->config;

		if (text->len)
			configs[s] = json_decode_python((struct json_text){ text->data, text->len },
							err);
		if (text->len && !json_is_object(configs[s]))
			rc = configs[s]
				     ? err_set(err, ERR_INPUT, "'%s/%s' is not a JSON object",
					       checkpoint->directory, CONFIG_NAME)
				     : err_wrap(err, "'%s/%s'", checkpoint->directory, CONFIG_NAME);
	}
	if (!rc)
		compare_objects(difference, configs[0], configs[1]);
	json_decref(configs[0]);
	json_decref(configs[1]);
	return rc;
}

/* --- other files --- */

/* Opens a file and says how large it is. */
static int open_file(struct file *file, uint64_t *size, char **text, struct err *err)
{
	struct file_identity identity = { 0 };

	if (io_open_regular(file->io, AT_FDCWD, file->name, &file->fd, &identity, err))
		return -1;
	*size = identity.size;
	*text = xasprintf("%" PRIu64 " byte%s", identity.size, identity.size == 1 ? "" : "s");
	return 0;
}

/* Compares a file, which the sides that are marked have. */
static int compare_file(struct difference *difference, const struct io *io, const char *name,
			const bool has[2], struct err *err)
{
	struct file files[2] = { { io, -1, NULL }, { io, -1, NULL } };
	struct diff_entry entry = { .name = xstrdup(name) };
	uint64_t sizes[2], at = 0;
	int rc = 0;

	for (int s = 0; s < 2 && !rc; s++) {
		files[s].name = xasprintf("%s/%s", difference->sides[s].checkpoint.directory, name);
		if (has[s])
			rc = open_file(&files[s], &sizes[s], &entry.values[s], err);
	}
	if (!rc && has[0] && has[1])
		rc = io_compare(files, sizes, &at, err);
	if (at != UINT64_MAX) {
		ARRAY_GROW(difference->files, difference->n_files);
		difference->files[difference->n_files++] = entry;
		entry = (struct diff_entry){ 0 };
	}
	for (int s = 0; s < 2; s++) {
		if (files[s].fd >= 0)
			io->close(io, files[s].fd);
		free((char *)files[s].name);
		free(entry.values[s]);
	}
	free(entry.name);
	return rc;
}

int diff_files(struct difference *difference, const struct io *io, struct err *err)
{
	struct listing lists[2] = { { 0 } };
	bool quant[2] = { false };
	size_t at[2] = { 0 };
	int rc = 0;

	difference->has_files = difference->sides[0].checkpoint.directory &&
				difference->sides[1].checkpoint.directory;
	if (!difference->has_files)
		return 0;
	rc = compare_configs(difference, err);
	for (int s = 0; s < 2 && !rc; s++)
		rc = checkpoint_auxiliary(&difference->sides[s].checkpoint, &lists[s], err);
	while (!rc && (at[0] < lists[0].n || at[1] < lists[1].n)) {
		int order = at[0] == lists[0].n ? 1
			    : at[1] == lists[1].n
				    ? -1
				    : strcmp(lists[0].items[at[0]], lists[1].items[at[1]]);
		const bool has[2] = { order <= 0, order >= 0 };

		rc = compare_file(difference, io, lists[!has[0]].items[at[!has[0]]], has, err);
		at[0] += has[0];
		at[1] += has[1];
	}
	for (int s = 0; s < 2 && !rc; s++)
		quant[s] = io_exists_in(io, difference->sides[s].checkpoint.directory,
					HF_QUANT_CONFIG_NAME);
	if (!rc && (quant[0] || quant[1]))
		rc = compare_file(difference, io, HF_QUANT_CONFIG_NAME, quant, err);
	listing_release(&lists[0]);
	listing_release(&lists[1]);
	return rc;
}
