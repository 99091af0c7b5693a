/* SPDX-License-Identifier: Apache-2.0
 *
 * Notes on the directory of an output.  They stop nothing: a directory that cannot be read gives no
 * note.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"
#include "ckpt/mistaken.h"
#include "execute/execute.h"
#include "execute/execution.h"
#include "expect/expect.h"

#define LEFT_OUT_SHOWN 3 /* files that a note names */

static bool is_foreign(const void *source, const char *name)
{
	return name[0] != '.' && destination_of(name) == DESTINATION_FILE &&
	       !checkpoint_has_shard(source, name);
}

/* Returns the first name, bytewise, of a weight file in the output that this job did not write; the
 * caller frees it. */
static char *find_foreign(const struct plan *plan, const struct convert_params *params)
{
	struct listing names = { 0 };
	char *first;

	listing_names(&names,
		      &(struct directory){ params->io, AT_FDCWD, params->output, params->output },
		      is_foreign, &plan->source, &(struct err){ 0 });
	first = names.n ? xstrdup(names.items[0]) : NULL;
	listing_release(&names);
	return first;
}

static bool hash_file(const struct io *io, const char *directory, const char *name,
		      struct sha256 *sha256)
{
	char *path = xasprintf("%s/%s", directory, name);
	struct err ignored;
	bool good = !checksum_sha256(io, AT_FDCWD, path, &(struct progress){ 0 }, sha256, &ignored);

	free(path);
	return good;
}

/* Has an earlier run ended the job, and has the output got a README.md of its own, which stays? */
static bool keeps_readme(const struct plan *plan, const struct convert_params *params)
{
	struct sha256 ours, theirs;

	return !params->restart && io_exists_in(params->io, params->output, CONFIG_NAME) &&
	       hash_file(params->io, params->output, CARD_NAME, &ours) &&
	       hash_file(plan->source.io, plan->source.directory, CARD_NAME, &theirs) &&
	       strcmp(ours.hex, theirs.hex) != 0;
}

/* Notes on the small files of the model. */
static void note_files(struct plan *plan, const struct convert_params *params)
{
	struct notes *notes = &plan->selection.notes;
	const struct buf *text = &plan->files.quantization;
	json_t *quantization;
	char *line;

	if (plan->files.has_params && !plan->files.params_say &&
	    plan->conversion != CONVERT_DEQUANTIZE)
		notes_add(notes, NOTE_NO_CONFIG, NULL,
			  PARAMS_NAME
			  " cannot tell vLLM (config_format mistral) of this layout: use "
			  "--recipe current or delayed (or blockwise in compressed-tensors, where "
			  "whole heads fit its blocks), and keep no weight of a layer");
	if (text->len && !plan->files.has_params) {
		quantization = json_decode((struct json_text){ text->data, text->len },
					   &(struct err){ 0 });
		line = json_dumps(quantization, 0);
		notes_add(notes, NOTE_NO_CONFIG, NULL,
			  "the source has no config.json, so none is written: add "
			  "\"quantization_config\": %s to yours",
			  line);
		free(line);
		json_decref(quantization);
	}
	if (plan->source.directory && !keeps_readme(plan, params) &&
	    io_exists_in(plan->source.io, plan->source.directory, CARD_NAME))
		notes_add(notes, NOTE_README_COPIED, NULL,
			  CARD_NAME
			  " is copied from '%s' and describes the source model: write one "
			  "that describes the output, as 'fp8conv report' does, before you "
			  "publish it",
			  plan->source.directory);
}

/* Notes auxiliary files that are Git LFS pointers: the output would get copies of these. */
static void note_pointers(struct plan *plan, const struct io *io)
{
	struct listing files;
	char *first = NULL;
	size_t n_pointers = 0;

	checkpoint_auxiliary(&plan->source, &files, &(struct err){ 0 });
	for (size_t i = 0; i < files.n; i++) {
		char *path = xasprintf("%s/%s", plan->source.directory, files.items[i]);

		if (!mistaken_is_pointer(io, path) || n_pointers++) {
			free(path);
			continue;
		}
		first = path;
	}
	listing_release(&files);
	if (first)
		notes_add(
			&plan->selection.notes, NOTE_POINTER_COPIED, NULL,
			"%zu of the files to copy %s, for example '%s': run 'git lfs pull' in the "
			"source first",
			n_pointers,
			n_pointers == 1 ? "is a Git LFS pointer" : "are Git LFS pointers", first);
	free(first);
}

/* Notes files of the source that the output does not get; all: names each. */
static void note_left_out(struct plan *plan, bool all)
{
	struct buf names = { 0 };
	struct listing files;
	size_t n, shown;

	checkpoint_left_out(&plan->source, &files, &(struct err){ 0 });
	n = files.n;
	shown = all || n < LEFT_OUT_SHOWN ? n : LEFT_OUT_SHOWN;
	for (size_t i = 0; i < shown; i++)
		buf_printf(&names, "%s'%s'", i ? ", " : "", files.items[i]);
	listing_release(&files);
	if (shown < n)
		buf_printf(&names, " and %zu more (all with --verbose)", n - shown);
	if (n)
		notes_add(&plan->selection.notes, NOTE_FILES_LEFT_OUT, NULL,
			  "%zu %s of the source %s in the output: %s; copy what the model needs", n,
			  n == 1 ? "file" : "files", n == 1 ? "is not" : "are not", names.data);
	buf_release(&names);
}

static void note_index(struct plan *plan)
{
	if (plan->source.has_stale_index)
		notes_add(&plan->selection.notes, NOTE_INDEX_STALE, NULL,
			  INDEX_NAME " of the source names files of another build, none of which "
				     "is there: '%s'%s converted",
			  plan->source.shards[0].name,
			  plan->source.n_shards > 1 ? " and its set are" : " is");
}

/* Notes what the source lacks: the output will lack it too. */
static void note_gaps(struct plan *plan)
{
	struct expect_gaps gaps;
	const struct expect_gap *first = NULL;
	size_t n = 0;

	if (expect_find(&gaps, &plan->source, &(struct err){ 0 }))
		return;
	for (size_t i = 0; i < gaps.n; i++) {
		if (gaps.list[i].kind == EXPECT_MTP)
			continue;
		if (!n++)
			first = &gaps.list[i];
	}
	if (n == 1)
		notes_add(&plan->selection.notes, NOTE_INCOMPLETE, first->tensor,
			  "the source is incomplete: %s", first->message);
	else if (n)
		notes_add(&plan->selection.notes, NOTE_INCOMPLETE, first->tensor,
			  "the source is incomplete in %zu places, first: %s", n, first->message);
	expect_release(&gaps);
}

void output_notes_add(struct plan *plan, const struct convert_params *params, bool all)
{
	const char *directory = plan->source.directory;
	struct notes *notes = &plan->selection.notes;
	char *foreign;

	note_index(plan);
	note_gaps(plan);
	if (params->output && destination_of(params->output) != DESTINATION_DIRECTORY) {
		if (plan->source.config.len && plan->conversion != CONVERT_DEQUANTIZE)
			notes_add(notes, NOTE_NO_CONFIG, NULL,
				  "'%s' has no config.json, where engines read how it is "
				  "quantized: give a directory as output",
				  params->output);
		return;
	}
	note_left_out(plan, all);
	if (!params->output)
		return;
	if (directory && directory_holds(directory, params->output))
		notes_add(notes, NOTE_OUTPUT_INSIDE, NULL,
			  "output '%s' lies inside the model '%s': an upload or a copy of the "
			  "model takes both",
			  params->output, directory);
	else if (directory && directory_holds(params->output, directory))
		notes_add(notes, NOTE_OUTPUT_INSIDE, NULL,
			  "the model '%s' lies inside output '%s': an upload or a copy of the "
			  "output takes both",
			  directory, params->output);
	/* Engines that find an index load its files only. */
	foreign = plan->files.index_size ? NULL : find_foreign(plan, params);
	if (foreign)
		notes_add(
			notes, NOTE_OUTPUT_BESIDE, NULL,
			"'%s' also contains '%s', which this job did not write: some engines load "
			"every .safetensors file there",
			params->output, foreign);
	free(foreign);
	note_files(plan, params);
	note_pointers(plan, params->io);
}
