/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/manifest.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/text.h"
#include "base/words.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"
#include "ckpt/manifest.h"
#include "ckpt/signature.h"
#include "recipe/recipe.h"
#include "verify/values/origin.h"

static int word_index(const json_t *object, const char *key, const char *words)
{
	return words_find(words, json_string_value(json_object_get(object, key)));
}

static bool same_rule(const struct qspec *a, const struct qspec *b)
{
	return a->pow2 == b->pow2 && a->arith == b->arith && a->mx_rule == b->mx_rule;
}

/* Sets the name to that of the row with the same rule. */
static void take_name(struct arithmetic *arithmetic)
{
	for (const struct arithmetic *row = arithmetics; row->name && !arithmetic->name; row++)
		if (!row->quantize && row->scale_type == arithmetic->scale_type &&
		    same_rule(&row->spec, &arithmetic->spec))
			arithmetic->name = row->name;
}

/* Reads the record of our own files, which may have a margin or an epsilon, as no row has;
 * manifest_read() has checked types and ranges. */
static void take_record(const json_t *scales, enum scale_type type, struct arithmetic *recorded)
{
	int arith = word_index(scales, "scale_arith", SCALE_ARITH_WORDS);
	int mx_rule = word_index(scales, "mx_scale", MX_RULE_WORDS);

	if (arith < 0 || mx_rule < 0)
		return;
	recorded->spec = (struct qspec){
		.pow2 = json_is_true(json_object_get(scales, "pow2")),
		.arith = (enum scale_arith)arith,
		.mx_rule = (enum mx_rule)mx_rule,
		.amax_epsilon = (float)json_number_value(json_object_get(scales, "amax_epsilon")),
		.margin = (int)json_integer_value(json_object_get(scales, "margin")),
	};
	recorded->scale_type = type;
	take_name(recorded);
}

/* Returns the scale type of the recipe of the job; its rules may have others. */
static enum scale_type recorded_type(const json_t *options)
{
	const char *name = json_string_value(json_object_get(options, "recipe"));
	struct err ignored;
	const struct recipe *recipe = name ? recipe_find(name, &ignored) : NULL;

	return recipe ? recipe->weight.scale_type : SCALE_F32;
}

static int take_given(struct verify *verify, struct err *err)
{
	const struct recipe *recipe = recipe_find(verify->params->recipe, err);
	struct arithmetic *given = &verify->opened.given;

	if (!recipe || recipe_weight_spec(recipe, &verify->params->tuning, &given->spec, err))
		return -1;
	given->scale_type = given->spec.scale_type;
	given->pow2 = given->spec.pow2;
	take_name(given);
	if (!given->name)
		given->name = recipe->name;
	return 0;
}

int recorded_read(struct verify *verify, struct err *err)
{
	const json_t *options;

	if (manifest_read(&verify->opened.manifest, verify->opened.checkpoint, err))
		return -1;
	options = json_object_get(verify->opened.manifest, "options");
	take_record(json_object_get(options, "scales"), recorded_type(options),
		    &verify->opened.recorded);
	verify->opened.compensated = manifest_is_compensated(verify->opened.manifest);
	return verify->params->recipe ? take_given(verify, err) : 0;
}

/* A file that the manifest records. */
struct recorded {
	const char *name;
	char *path;
	const char *sha256;
	json_int_t size; /* bytes, as recorded; 0: unknown */
	bool of_source;
	bool missing;
	bool linked; /* a symbolic link, where none may be */
	struct sha256 found;
};

struct records {
	struct verify *verify;
	const char *where, *file; /* "the manifest", and its name */
	listing_skips_fn *skips;
	const json_t *ignored; /* more paths that are left out; NULL: none */
	bool refuses_links;
	struct recorded *list;
	size_t n;
};

/* Whether the name is that of a file below the directory; the manifest may name any path. */
static bool is_below(const char *name)
{
	const char *part = name;

	if (*name == '/')
		return false;
	while (part) {
		if (!strncmp(part, "..", 2) && (part[2] == '/' || !part[2]))
			return false;
		part = strchr(part, '/');
		part = part ? part + 1 : NULL;
	}
	return *name;
}

static int add_records(struct records *records, const json_t *list, const char *directory,
		       bool of_source, struct err *err)
{
	size_t i;
	json_t *record;

	json_array_foreach(list, i, record)
	{
		const char *name = json_string_value(json_object_get(record, "name"));
		const char *sha256 = json_string_value(json_object_get(record, "sha256"));

		if (!name || !sha256 || !is_below(name))
			return err_set(
				err, ERR_INPUT,
				"'%s/%s' has an invalid record of '%s': it needs a SHA-256 and a "
				"path inside the directory",
				records->verify->opened.checkpoint->directory, records->file,
				name ? name : "a file");
		ARRAY_GROW(records->list, records->n);
		records->list[records->n++] = (struct recorded){
			.name = name,
			.path = xasprintf("%s/%s", directory, name),
			.sha256 = sha256,
			.size = json_integer_value(json_object_get(record, "size")),
			.of_source = of_source,
		};
	}
	return 0;
}

/* Is it a link of the Hub's cache, where files of a model are links to ../../blobs? */
static bool is_hub_link(const struct recorded *record)
{
	char target[PATH_MAX];
	ssize_t n = readlink(record->path, target, sizeof target - 1);
	const char *at = target;
	int up = 2;

	target[n > 0 ? n : 0] = '\0';
	for (const char *slash = record->name; (slash = strchr(slash, '/')); slash++)
		up++;
	for (; !strncmp(at, "../", 3); at += 3)
		up--;
	return !up && !strncmp(at, "blobs/", 6) && !strchr(at + 6, '/');
}

static int hash_record(void *context, int worker, size_t item, struct err *err)
{
	struct records *records = context;
	const struct io *io = records->verify->params->io;
	struct recorded *record = &records->list[item];
	struct progress unwatched = { .stop = records->verify->progress->stop };
	struct stat st;

	(void)worker;
	record->linked = records->refuses_links &&
			 !io->fstatat(io, AT_FDCWD, record->path, &st, AT_SYMLINK_NOFOLLOW) &&
			 S_ISLNK(st.st_mode) && !is_hub_link(record);
	if (record->linked)
		return 0;
	if (io->fstatat(io, AT_FDCWD, record->path, &st, 0) || !S_ISREG(st.st_mode)) {
		record->missing = true;
		return 0;
	}
	return checksum_sha256(io, AT_FDCWD, record->path, &unwatched, &record->found, err);
}

static void tell_record(const struct records *records, const struct recorded *record)
{
	struct problems *problems = &records->verify->result->problems;
	const char *whose = record->of_source ? "the source's " : "";
	uint64_t size = record->found.identity.size;

	if (record->missing)
		problem_add(problems, PROBLEM_FILE_MISSING, NULL, record->name,
			    "%s'%s' is in %s, but is not a file", whose, record->path,
			    records->where);
	else if (record->linked)
		problem_add(problems, PROBLEM_FILE_CHANGED, NULL, record->name,
			    "%s'%s' is a symbolic link, and a file in %s: 'cp -rL' copies files in "
			    "the place of links",
			    whose, record->path, records->where);
	else if (record->size && (uint64_t)record->size != size)
		problem_add(problems, PROBLEM_FILE_CHANGED, NULL, record->name,
			    "%s'%s' has %" PRIu64 " bytes, but %" PRIu64 " in %s", whose,
			    record->path, size, (uint64_t)record->size, records->where);
	else if (strcmp(record->sha256, record->found.hex) != 0)
		problem_add(problems, PROBLEM_FILE_CHANGED, NULL, record->name,
			    "%s'%s' has SHA-256 %.16s..., but %.16s... in %s", whose, record->path,
			    record->found.hex, record->sha256, records->where);
}

/* Is it one of the paths, or below one? */
static bool is_among(const json_t *paths, const char *name)
{
	const json_t *path;
	size_t i;

	json_array_foreach(paths, i, path)
	{
		size_t n = json_string_length(path);

		if (n && !strncmp(name, json_string_value(path), n) && (!name[n] || name[n] == '/'))
			return true;
	}
	return false;
}

/* Reports a file of the directory that is in no record. */
static void tell_unlisted(const struct records *records, const char *name)
{
	struct verify *verify = records->verify;
	bool ignored = is_among(records->ignored, name);

	problem_add(&verify->result->problems,
		    ignored ? PROBLEM_FILE_UNSIGNED : PROBLEM_FILE_UNLISTED, NULL, name,
		    ignored ? "%s leaves out '%s/%s'" : "%s does not list '%s/%s'", records->where,
		    verify->opened.checkpoint->directory, name);
}

/* Reports files of the directory that are in no record. */
static int find_unlisted(const struct records *records, struct err *err)
{
	struct verify *verify = records->verify;
	const struct io *io = verify->params->io;
	const char *directory = verify->opened.checkpoint->directory;
	const char **names = xcalloc(records->n + 1, sizeof *names);
	struct listing files = { 0 };
	size_t n = 0;
	int dirfd = io_openat(io, AT_FDCWD, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	int rc = -1;

	if (dirfd < 0) {
		err_errno(err, "cannot open '%s'", directory);
		goto out;
	}
	for (size_t i = 0; i < records->n; i++)
		if (!records->list[i].of_source)
			names[n++] = records->list[i].name;
	qsort(names, n, sizeof *names, text_compare);
	rc = listing_files(io, dirfd, directory, records->skips, &files, err);
	for (size_t i = 0; !rc && i < files.n; i++)
		if (!bsearch(&files.items[i], names, n, sizeof *names, text_compare))
			tell_unlisted(records, files.items[i]);
out:
	if (dirfd >= 0)
		io->close(io, dirfd);
	listing_release(&files);
	free(names);
	return rc;
}

/* Reports files of the source that a conversion copies and that the manifest does not list. */
static int find_new_inputs(struct verify *verify, struct err *err)
{
	const json_t *inputs = json_object_get(verify->opened.manifest, "inputs");
	const struct checkpoint *source =
		verify->run.origin ? &verify->run.origin->checkpoint : NULL;
	struct listing files;
	int rc;

	if (!source)
		return 0;
	rc = checkpoint_auxiliary(source, &files, err);
	for (size_t i = 0; i < files.n; i++)
		if (!manifest_input(inputs, files.items[i]))
			problem_add(&verify->result->problems, PROBLEM_FILE_UNLISTED, NULL,
				    files.items[i],
				    "the manifest does not list the source's '%s/%s'",
				    source->directory, files.items[i]);
	listing_release(&files);
	return rc;
}

/* Lists the records of the output, and of the source if it exists. */
static int list_records(struct records *records, struct err *err)
{
	struct verify *verify = records->verify;
	const char *directory = verify->opened.checkpoint->directory;
	const json_t *files = json_object_get(verify->opened.manifest, "files");
	const struct checkpoint *source =
		verify->run.origin ? &verify->run.origin->checkpoint : NULL;

	if (!json_array_size(files))
		return err_set(
			err, ERR_INPUT,
			"'%s' has no " MANIFEST_NAME
			" with the SHA-256 of its files: 'fp8conv quantize --manifest' writes it",
			directory ? directory : verify->params->input);
	if (add_records(records, files, directory, false, err))
		return -1;
	if (!source || !source->directory)
		return 0;
	return add_records(records, json_object_get(verify->opened.manifest, "inputs"),
			   source->directory, true, err);
}

/* Reads the files of the records, and reports what differs. */
static int check_records(struct records *records, struct err *err)
{
	struct verify *verify = records->verify;

	if (pool_run(verify->params->n_threads, records->n, hash_record, records,
		     verify->progress->stop, err))
		return -1;
	for (size_t i = 0; i < records->n; i++)
		tell_record(records, &records->list[i]);
	return find_unlisted(records, err);
}

static void records_release(struct records *records)
{
	for (size_t i = 0; i < records->n; i++)
		free(records->list[i].path);
	free(records->list);
}

int verify_manifest(struct verify *verify, struct err *err)
{
	struct records records = { .verify = verify,
				   .where = "the manifest",
				   .file = MANIFEST_NAME,
				   .skips = manifest_leaves_out };
	int rc = list_records(&records, err);

	rc = rc ? rc : check_records(&records, err);
	rc = rc ? rc : find_new_inputs(verify, err);
	records_release(&records);
	return rc;
}

int verify_signature(struct verify *verify, struct err *err)
{
	struct records records = { .verify = verify,
				   .where = "the signature",
				   .file = SIGNATURE_NAME,
				   .skips = signature_leaves_out };
	const char *directory = verify->opened.checkpoint->directory;
	struct signed_files is_signed = { 0 };
	int rc;

	if (!directory)
		return err_set(err, ERR_USAGE, "option '--key' requires a directory, not '%s'",
			       verify->params->input);
	if (signature_read(&is_signed, verify->params->io, directory, verify->params->key, err)) {
		rc = err->kind == ERR_INPUT ? 0 : -1;
		if (!rc)
			problem_add(&verify->result->problems, PROBLEM_SIGNATURE, NULL,
				    SIGNATURE_NAME, "%s", err->message);
	} else {
		records.ignored = is_signed.ignored;
		records.refuses_links = !is_signed.has_links;
		rc = add_records(&records, is_signed.files, directory, false, err);
		rc = rc ? rc : check_records(&records, err);
	}
	records_release(&records);
	signed_files_release(&is_signed);
	return rc;
}
