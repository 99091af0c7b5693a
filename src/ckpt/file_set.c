/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/file_set.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"
#include "ckpt/checkpoint.h"
#include "ckpt/manifest.h"

#define OF     "-of-"
#define SUFFIX ".safetensors"

/* A name "STEM-00002-of-00004.safetensors". */
struct part {
	const char *name;
	size_t stem;	  /* its length, with the hyphen */
	size_t digits;	  /* of the number */
	size_t number, n; /* 2, 4 */
};

/* Reads up to nine digits.  Returns their number. */
static size_t read_number(const char *text, size_t *number)
{
	size_t digits = strspn(text, "0123456789");

	*number = 0;
	for (size_t i = 0; i < digits && digits <= 9; i++)
		*number = *number * 10 + (size_t)(text[i] - '0');
	return digits <= 9 ? digits : 0;
}

/* Returns the last "-of-" of a name, or NULL. */
static const char *last_of(const char *name)
{
	const char *of = NULL;

	for (const char *at = strstr(name, OF); at; at = strstr(at + 1, OF))
		of = at;
	return of;
}

static bool read_part(struct part *part, const char *name)
{
	const char *of = last_of(name), *number = of;
	size_t digits;

	while (number && number > name && number[-1] >= '0' && number[-1] <= '9')
		number--;
	if (!of || number == of)
		return false;
	*part = (struct part){ .name = name, .stem = (size_t)(number - name) };
	part->digits = read_number(number, &part->number);
	of += strlen(OF);
	digits = read_number(of, &part->n);
	return part->digits && part->n && !strcmp(of + digits, SUFFIX);
}

/* By stem, N and the digits of the number; then by number. */
static int compare_sets(const struct part *x, const struct part *y)
{
	size_t n = x->stem < y->stem ? x->stem : y->stem;
	int order = memcmp(x->name, y->name, n);

	if (order || x->stem != y->stem)
		return order ? order : x->stem < y->stem ? -1 : 1;
	if (x->n != y->n)
		return x->n < y->n ? -1 : 1;
	return (x->digits > y->digits) - (x->digits < y->digits);
}

COMPARISON(compare_parts, struct part, compare_sets(x, y) ?: ORDER(x->number, y->number))

/* Returns the name that the set of a part has for a number. */
static char *name_of(const struct part *part, size_t number)
{
	return xasprintf("%.*s%0*zu%s", (int)part->stem, part->name, (int)part->digits, number,
			 last_of(part->name));
}

/* Takes the n parts of one set, in order. */
static void take(struct file_set *set, const struct part *parts, size_t n)
{
	size_t i = 0;

	listing_release(&set->files);
	free(set->missing);
	set->files = (struct listing){ 0 };
	set->missing = NULL;
	set->n_expected = parts->n;
	/* Some writers count from 0. */
	while (i < n && parts[i].number == i + (parts->number != 0))
		i++;
	if (i < parts->n)
		set->missing = name_of(parts, i + (parts->number != 0));
	for (i = 0; i < n; i++)
		listing_add(&set->files, xstrdup(parts[i].name));
}

void file_set_find(struct file_set *set, const struct listing *names)
{
	struct part *parts = xcalloc(names->n + 1, sizeof *parts);
	size_t n = 0, end;

	*set = (struct file_set){ 0 };
	for (size_t i = 0; i < names->n; i++)
		n += read_part(&parts[n], names->items[i]);
	qsort(parts, n, sizeof *parts, compare_parts);
	for (size_t first = 0; first < n; first = end) {
		bool complete;

		for (end = first + 1; end < n && !compare_sets(&parts[first], &parts[end]);)
			end++;
		complete = end - first == parts[first].n &&
			   parts[end - 1].number - parts[first].number == parts[first].n - 1 &&
			   parts[first].number <= 1;
		if (!set->n_complete && (complete || end - first > set->files.n))
			take(set, &parts[first], end - first);
		set->n_complete += complete;
	}
	free(parts);
}

void file_set_release(struct file_set *set)
{
	listing_release(&set->files);
	free(set->missing);
	*set = (struct file_set){ 0 };
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
