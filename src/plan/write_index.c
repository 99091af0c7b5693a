/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/write_index.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/sort.h"

#define PIECE ((size_t)256 << 10) /* bytes */

struct place {
	uint32_t shard, tensor;
};

/* The state of writing the text. */
struct index_text {
	const struct output_shard *shards;
	size_t n;
	struct place *places; /* of the tensors of all shards, sorted by name */
	uint64_t total;	      /* bytes of tensors */
	size_t at;	      /* names already written */
	bool ended;
};

static const char *name_at(const struct output_shard *shards, const struct place *place)
{
	return shards[place->shard].tensors[place->tensor].name;
}

static int compare_names(const void *a, const void *b, const void *shards)
{
	return strcmp(name_at(shards, a), name_at(shards, b));
}

static void index_text_init(struct index_text *text, const struct output_shard *shards,
			    size_t n_shards)
{
	struct place *place;

	*text = (struct index_text){ .shards = shards };
	for (size_t i = 0; i < n_shards; i++) {
		text->n += shards[i].n_tensors;
		text->total += shards[i].data_size;
	}
	place = text->places = xreallocarray(NULL, text->n, sizeof *place);
	for (uint32_t i = 0; i < n_shards; i++)
		for (uint32_t k = 0; k < shards[i].n_tensors; k++)
			*place++ = (struct place){ i, k };
	sort_in(text->places, text->n, sizeof *place, compare_names, shards);
}

static void add_name(struct buf *piece, const struct index_text *text, size_t i)
{
	const char *name = name_at(text->shards, &text->places[i]);
	const char *file = text->shards[text->places[i].shard].name;

	buf_puts(piece, i ? ",\n    " : "\n    ");
	config_add_json_string(piece, name, strlen(name));
	buf_puts(piece, ": ");
	config_add_json_string(piece, file, strlen(file));
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
		add_name(piece, text, text->at);
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
	free(text.places);
	return rc;
}

void output_index_text(const struct output_shard *shards, size_t n, struct buf *text)
{
	struct index_text index;
	struct buf piece = { 0 };

	index_text_init(&index, shards, n);
	while (!index.ended) {
		piece.len = 0;
		next_piece(&index, &piece);
		buf_add(text, piece.data, piece.len);
	}
	buf_release(&piece);
	free(index.places);
}

/* Checks that no scale has the name of an existing tensor. */
static int check_names(const struct index_text *text, struct err *err)
{
	for (size_t i = 1; i < text->n; i++)
		if (!compare_names(&text->places[i - 1], &text->places[i], text->shards))
			return err_set(
				err, ERR_INPUT,
				"the output would have two tensors '%s': the source already has "
				"one",
				name_at(text->shards, &text->places[i]));
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
	free(text.places);
	return rc;
}
