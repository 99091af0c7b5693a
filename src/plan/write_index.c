/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/write_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"

#define PIECE ((size_t)256 << 10) /* bytes */

struct name {
	const char *tensor;
	const char *file;
};

/* The state of writing the text. */
struct index_text {
	size_t n;
	struct name *names; /* of the tensors of all shards, sorted */
	uint64_t total;	    /* bytes of tensors */
	size_t at;	    /* names already written */
	bool ended;
};

static int compare_names(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	return strcmp(x->tensor, y->tensor);
}

static void index_text_init(struct index_text *text, const struct output_shard *shards,
			    size_t n_shards)
{
	struct name *name;

	*text = (struct index_text){ 0 };
	for (size_t i = 0; i < n_shards; i++) {
		text->n += shards[i].n_tensors;
		text->total += shards[i].data_size;
	}
	name = text->names = xreallocarray(NULL, text->n, sizeof *name);
	for (size_t i = 0; i < n_shards; i++)
		for (size_t k = 0; k < shards[i].n_tensors; k++)
			*name++ = (struct name){ shards[i].tensors[k].name, shards[i].name };
	sort(text->names, text->n, sizeof *text->names, compare_names);
}

static void add_name(struct buf *piece, const struct name *name, bool first)
{
	buf_puts(piece, first ? "\n    " : ",\n    ");
	config_add_json_string(piece, name->tensor, strlen(name->tensor));
	buf_puts(piece, ": ");
	config_add_json_string(piece, name->file, strlen(name->file));
}

/* An outdir_piece_fn. */
static void next_piece(void *context, struct buf *piece)
{
	struct index_text *text = context;

	if (text->ended)
		return;
	if (!text->at)
		buf_printf(piece,
			   "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64
			   "\n  },\n  \"weight_map\": {",
			   text->total);
	for (; text->at < text->n && piece->len < PIECE; text->at++)
		add_name(piece, &text->names[text->at], !text->at);
	text->ended = text->at == text->n;
	if (text->ended)
		buf_puts(piece, text->n ? "\n  }\n}\n" : "}\n}\n");
}

int output_index_put(const struct output_shard *shards, size_t n, const struct outdir *dir,
		     struct err *err)
{
	struct index_text text;
	int rc;

	index_text_init(&text, shards, n);
	rc = outdir_put_pieces(dir, INDEX_NAME, next_piece, &text, err);
	free(text.names);
	return rc;
}

/* Checks that no scale has the name of an existing tensor. */
static int check_names(const struct index_text *text, struct err *err)
{
	for (size_t i = 1; i < text->n; i++)
		if (!strcmp(text->names[i - 1].tensor, text->names[i].tensor))
			return err_set(
				err, ERR_INPUT,
				"the output would have two tensors '%s': the source already has "
				"one",
				text->names[i].tensor);
	return 0;
}

int plan_index(struct plan *plan, struct err *err)
{
	struct index_text text;
	struct buf piece = { 0 };
	int rc;

	index_text_init(&text, plan->shards, plan->n_shards);
	rc = check_names(&text, err);
	if (!rc && (plan->source.has_index || plan->n_shards > 1)) {
		while (!text.ended) {
			piece.len = 0;
			next_piece(&text, &piece);
			plan->files.index_size += piece.len;
		}
	}
	buf_release(&piece);
	free(text.names);
	return rc;
}
