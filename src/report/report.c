/* SPDX-License-Identifier: Apache-2.0 */
#include "report/report.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/manifest.h"
#include "source/fingerprint.h"

#define FILE_LIMIT ((size_t)64 << 20) /* bytes; a larger file is not of this program */

static const char mark_begin[] = "<!-- fp8conv report ";
static const char mark_end[] = " -->\n";
#define MARK_LENGTH (sizeof mark_begin - 1 + SHA256_HEX - 1 + sizeof mark_end - 1)

static void hash(const char *text, size_t n, char hex[SHA256_HEX])
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256((const unsigned char *)text, n, digest);
	text_hex(hex, digest, sizeof digest);
}

static void add_mark(struct buf *text)
{
	char hex[SHA256_HEX];

	hash(text->data, text->len, hex);
	buf_puts(text, mark_begin);
	buf_puts(text, hex);
	buf_puts(text, mark_end);
}

/* Does a text end in the comment that place_put() adds? */
static bool is_ours(const char *text, size_t n)
{
	struct buf mark = { 0 };
	char hex[SHA256_HEX];
	bool ours;

	if (!text || n < MARK_LENGTH)
		return false;
	hash(text, n - MARK_LENGTH, hex);
	buf_printf(&mark, "%s%s%s", mark_begin, hex, mark_end);
	ours = !memcmp(text + n - MARK_LENGTH, mark.data, MARK_LENGTH);
	buf_release(&mark);
	return ours;
}

/* ERR_USAGE if the file exists and neither place_put() wrote it so nor its SHA-256 is `copied`, in
 * hexadecimal digits (NULL: none). */
static int place_check(const struct report_place *place, const char *name, const char *copied,
		       struct err *err)
{
	const struct outdir *dir = &place->dir;
	struct buf text = { 0 };
	char hex[SHA256_HEX];
	bool replaceable;

	if (!outdir_has(dir, name))
		return 0;
	if (io_read_file(dir->io, dir->fd, name, FILE_LIMIT, &text, err)) {
		if (err->kind == ERR_SYSTEM)
			return -1;
		*err = (struct err){ 0 };
	}
	hash(text.data ? text.data : "", text.len, hex);
	replaceable =
		place->restart || is_ours(text.data, text.len) || (copied && !strcmp(copied, hex));
	buf_release(&text);
	if (replaceable)
		return 0;
	return err_set(err, ERR_USAGE,
		       "'%s' contains '%s', which is not as fp8conv wrote it: choose another "
		       "output, or --restart to overwrite",
		       dir->path, name);
}

/* Adds the comment, and writes the file whole or not at all. */
static int place_put(const struct report_place *place, const char *name, struct buf *text,
		     struct err *err)
{
	add_mark(text);
	return outdir_put(&place->dir, name, text->data, text->len, err);
}

/* Is the place the directory? */
static bool place_is(const struct report_place *place, const char *directory)
{
	struct stat x, y;

	return !fstat(place->dir.fd, &x) && !stat(directory, &y) && x.st_dev == y.st_dev &&
	       x.st_ino == y.st_ino;
}

/* --- names --- */

char *report_base_name(const char *path)
{
	size_t end = strlen(path), begin;

	while (end > 1 && path[end - 1] == '/')
		end--;
	for (begin = end; begin && path[begin - 1] != '/';)
		begin--;
	return begin < end ? xstrndup(path + begin, end - begin) : xstrndup(path, end);
}

/* Returns the directory of a checkpoint as an absolute path without links, or that of the file.
 * The caller frees it. */
static char *directory_of(const char *path)
{
	char *real = realpath(path, NULL), *copy;
	struct stat st;

	copy = xstrdup(real ? real : path);
	free(real);
	if (!stat(copy, &st) && !S_ISDIR(st.st_mode) && strrchr(copy, '/') > copy)
		*strrchr(copy, '/') = '\0';
	return copy;
}

/* Returns "ORG/NAME" of a path in the hub's cache, ".../models--ORG--NAME/snapshots/COMMIT", or
 * NULL. */
static char *hub_name(const char *path)
{
	static const char mark[] = "/models--";
	const char *begin = strstr(path, mark), *middle;
	size_t n;

	if (!begin)
		return NULL;
	begin += sizeof mark - 1;
	n = strcspn(begin, "/");
	middle = memmem(begin, n, "--", 2);
	if (!middle || strncmp(begin + n, "/snapshots/", 11) != 0)
		return NULL;
	return xasprintf("%.*s/%.*s", (int)(middle - begin), begin, (int)(begin + n - middle - 2),
			 middle + 2);
}

/* Returns the name of the model in a directory: that of the hub, if its path or its card says it,
 * else that of the directory. */
static char *model_name(const char *directory, const struct card *card)
{
	char *name = hub_name(directory), *base, *said;

	if (name)
		return name;
	base = report_base_name(directory);
	/* A card that was downloaded with the model names its parents, seldom itself. */
	for (size_t i = 0; i < card->values[CARD_BASE_MODEL].n && !name; i++) {
		said = report_base_name(card->values[CARD_BASE_MODEL].texts[i]);
		if (!strcmp(said, base))
			name = xstrdup(card->values[CARD_BASE_MODEL].texts[i]);
		free(said);
	}
	if (!name)
		return base;
	free(base);
	return name;
}

/* --- files --- */

static bool is_quantized(const struct card *card)
{
	const char *relation = card_text(card, CARD_RELATION);

	return relation && !strcmp(relation, "quantized");
}

/* Reads the card of the source; without one that beside the checkpoint, which is a copy of it, or
 * the checkpoint's own.  Names the base model. */
static int read_cards(struct report *report, const struct report_params *params,
		      const struct checkpoint *checkpoint, struct err *err)
{
	char *source = params->source ? directory_of(params->source) : NULL;
	struct card *card = &report->card, own = { 0 };
	int rc = -1;

	if (checkpoint->directory && card_read(&own, params->io, checkpoint->directory, err))
		goto out;
	if (source && card_read(card, params->io, source, err))
		goto out;
	if (params->base_model)
		report->base_model = xstrdup(params->base_model);
	else if (source)
		report->base_model = model_name(source, card);
	else if (is_quantized(&own) && card_text(&own, CARD_BASE_MODEL))
		report->base_model = xstrdup(card_text(&own, CARD_BASE_MODEL));
	if (!card_is_empty(card)) {
		rc = 0;
		goto out;
	}
	card_release(card);
	*card = own;
	own = (struct card){ 0 };
	rc = 0;
out:
	card_release(&own);
	free(source);
	return rc;
}

/* ERR_INPUT where the calibration was of another model than the source. */
static int check_calibration(const struct report *report, const struct report_params *params,
			     struct err *err)
{
	struct checkpoint checkpoint = { 0 };
	char fingerprint[FINGERPRINT_SIZE];
	struct source source;
	int rc = -1;

	if (checkpoint_open(&checkpoint, params->io, params->source, params->n_threads, err) ||
	    checkpoint_rename(&checkpoint, &params->renames, err))
		goto out;
	source_init(&source, params->io, &checkpoint, NULL, -1);
	rc = fingerprint_make(&source, fingerprint, err);
	source_release(&source);
	if (!rc && strcmp(fingerprint, report->curves.model) != 0)
		rc = err_set(err, ERR_INPUT,
			     "'%s' belongs to another model: its fingerprint is '%s', but that of "
			     "'%s' is '%s': give one that was made of this model",
			     params->calibration, report->curves.model, params->source,
			     fingerprint);
out:
	checkpoint_release(&checkpoint);
	return rc;
}

static int read_measurements(struct report *report, const struct report_params *params,
			     struct err *err)
{
	if ((params->eval && evaluation_read(&report->evaluation, params->io, params->eval, err)) ||
	    benchmarks_read(&report->benchmarks, params->io, &params->benchmarks, err))
		return -1;
	report->has_evaluation = params->eval != NULL;
	if (!params->calibration)
		return 0;
	if (curves_read(&report->curves, params->io, params->calibration, err))
		return -1;
	report->has_curves = true;
	return params->source ? check_calibration(report, params, err) : 0;
}

/* --- the output --- */

/* Returns the SHA-256 of the source's card, whose copy a conversion put into the directory, as the
 * manifest records it; NULL if it does not. */
static const char *copied_card(const struct report *report, const struct checkpoint *checkpoint)
{
	const json_t *inputs = json_object_get(report->manifest, "inputs");

	if (!checkpoint->directory || !place_is(&report->place, checkpoint->directory))
		return NULL;
	return json_string_value(json_object_get(manifest_input(inputs, CARD_NAME), "sha256"));
}

static int open_place(struct report *report, const struct report_params *params,
		      const struct checkpoint *checkpoint, struct err *err)
{
	report->place = (struct report_place){ .restart = params->restart };
	if (outdir_open(&report->place.dir, params->io, params->output, OUTDIR_LOCK, false, err) ||
	    place_check(&report->place, CARD_NAME, copied_card(report, checkpoint), err) ||
	    place_check(&report->place, REPORT_PAGE_NAME, NULL, err))
		return -1;
	return 0;
}

int report_open(struct report *report, const struct report_params *params,
		const struct checkpoint *checkpoint, const struct detection *detection,
		struct err *err)
{
	char *directory = directory_of(checkpoint->path);
	const char *command;

	*report = (struct report){ .name = report_base_name(directory) };
	free(directory);
	if (manifest_read(&report->manifest, checkpoint, err) ||
	    (params->output && open_place(report, params, checkpoint, err)) ||
	    read_cards(report, params, checkpoint, err) || read_measurements(report, params, err))
		return -1;
	command = json_string_value(json_object_get(report->manifest, "command"));
	kept_find(&report->kept, checkpoint, detection,
		  command && !strcmp(command, "quantize")
			  ? json_object_get(report->manifest, "options")
			  : NULL);
	return 0;
}

int report_write(const struct report *report, struct report_files *files, struct progress *progress,
		 struct err *err)
{
	static const char *const names[] = { CARD_NAME, REPORT_PAGE_NAME };
	const struct report_place *place = &report->place;

	if (place_put(place, REPORT_PAGE_NAME, &files->page, err) ||
	    place_put(place, CARD_NAME, &files->card, err) || outdir_sync(&place->dir, err))
		return -1;
	return manifest_add_files(&place->dir, names, 2, progress, err);
}

void report_release(struct report *report)
{
	outdir_close(&report->place.dir);
	json_decref(report->manifest);
	card_release(&report->card);
	evaluation_release(&report->evaluation);
	benchmarks_release(&report->benchmarks);
	curves_release(&report->curves);
	kept_release(&report->kept);
	free(report->name);
	free(report->base_model);
	*report = (struct report){ 0 };
}
