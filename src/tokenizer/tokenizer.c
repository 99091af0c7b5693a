/* SPDX-License-Identifier: Apache-2.0
 *
 * The stages of a text: repair, split at added tokens, normalizer, split at normalized added
 * tokens, pre-tokenizer, model.  A piece goes through all stages before the next piece is made.
 */
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/progress.h"
#include "tokenizer/added.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json.h"
#include "tokenizer/step.h"
#include "tokenizer/unicode.h"

struct post_processor {
	struct token_ids before, after;
};

#define MAX_SPECIAL 1024 /* ids around a text */

static int add_id(struct token_ids *list, const json_t *id, const char *where, struct err *err)
{
	uint32_t value;

	if (list->n == MAX_SPECIAL)
		return err_set(err, ERR_INPUT, "%s has more than %d special tokens", where,
			       MAX_SPECIAL);
	if (json_token_id(id, where, &value, err))
		return -1;
	token_ids_add(list, value);
	return 0;
}

/* {"SpecialToken": {"id": "<s>", ...}}: its ids are in special_tokens. */
static int add_special(struct token_ids *list, const json_t *processor, const json_t *special,
		       const char *where, struct err *err)
{
	const char *name = json_member_string(special, where, "id", NULL, err);
	const json_t *token, *ids;

	if (!name)
		return -1;
	token = json_object_get(json_object_get(processor, "special_tokens"), name);
	ids = json_object_get(token, "ids");
	if (!json_is_array(ids))
		return err_set(err, ERR_INPUT, "%s has no special_tokens for '%s'", where, name);
	for (size_t i = 0; i < json_array_size(ids); i++)
		if (add_id(list, json_array_get(ids, i), where, err))
			return -1;
	return 0;
}

static int read_template(struct post_processor *post, const json_t *json, const char *where,
			 struct err *err)
{
	const json_t *single = json_member_array(json, where, "single", err);
	bool seen = false;

	if (!single)
		return -1;
	for (size_t i = 0; i < json_array_size(single); i++) {
		const json_t *piece = json_array_get(single, i);
		const json_t *special = json_object_get(piece, "SpecialToken");
		const json_t *sequence = json_object_get(json_object_get(piece, "Sequence"), "id");

		if (special) {
			if (add_special(seen ? &post->after : &post->before, json, special, where,
					err))
				return -1;
		} else if (!seen && json_is_string(sequence) &&
			   !strcmp(json_string_value(sequence), "A")) {
			seen = true;
		} else {
			return err_set(err, ERR_INPUT,
				       "single[%zu] of %s is neither a special token nor the text",
				       i, where);
		}
	}
	return seen ? 0 : err_set(err, ERR_INPUT, "%s leaves out the text", where);
}

/* "cls": ["<s>", 0], "sep": ["</s>", 2]. */
static int read_pair(struct post_processor *post, const json_t *json, const char *where,
		     struct err *err)
{
	const json_t *cls = json_object_get(json, "cls"), *sep = json_object_get(json, "sep");

	if (add_id(&post->before, json_array_get(cls, 1), where, err))
		return -1;
	return add_id(&post->after, json_array_get(sep, 1), where, err);
}

/* *n_around counts the processors that add tokens; the package takes one. */
static int read_one(struct post_processor *post, const json_t *json, const char *where,
		    int *n_around, struct err *err)
{
	const char *type = json_member_string(json, where, "type", NULL, err);

	if (!type)
		return -1;
	if (!strcmp(type, "ByteLevel")) /* offsets only */
		return 0;
	if ((*n_around)++)
		return err_set(err, ERR_INPUT, "%s: only one post-processor may add tokens", where);
	if (!strcmp(type, "TemplateProcessing"))
		return read_template(post, json, where, err);
	if (!strcmp(type, "RobertaProcessing") || !strcmp(type, "BertProcessing"))
		return read_pair(post, json, where, err);
	return err_set(err, ERR_INPUT, "%s has unsupported type '%s'", where, type);
}

/* Reads the value of "post_processor"; NULL or null adds no tokens.  The caller releases post, also
 * on failure.  ERR_INPUT with the key. */
static int post_read(struct post_processor *post, const json_t *json, struct err *err)
{
	const json_t *type = json_object_get(json, "type"), *list;
	char where[48];
	int n_around = 0;

	if (!json || json_is_null(json))
		return 0;
	if (!json_is_string(type) || strcmp(json_string_value(type), "Sequence") != 0)
		return read_one(post, json, "post_processor", &n_around, err);
	list = json_member_array(json, "post_processor", "processors", err);
	if (!list)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++) {
		snprintf(where, sizeof where, "post_processor[%zu]", i);
		if (read_one(post, json_array_get(list, i), where, &n_around, err))
			return -1;
	}
	return 0;
}

struct tokenizer {
	struct steps normalizer, pre_tokenizer;
	struct added_tokens added;
	struct bpe bpe;
	struct post_processor post;
};

/* Reads the members of the file: the model as text, the others as values. */
static int read_tokenizer(struct tokenizer *tokenizer, const struct buf *json, json_t *values,
			  struct err *err)
{
	struct large_member model[] = { { .key = "model" }, { 0 } };

	if (json_read_members((struct json_text){ json->data, json->len }, model, values, err))
		return -1;
	if (!model->text.len)
		return err_set(err, ERR_INPUT, "missing member 'model'");
	if (bpe_read(&tokenizer->bpe, model->text, err) ||
	    steps_read_normalizer(&tokenizer->normalizer, json_object_get(values, "normalizer"),
				  err) ||
	    steps_read_pre_tokenizer(&tokenizer->pre_tokenizer,
				     json_object_get(values, "pre_tokenizer"), err) ||
	    added_read(&tokenizer->added, json_object_get(values, "added_tokens"),
		       &tokenizer->bpe.vocab, &tokenizer->normalizer, err))
		return -1;
	return post_read(&tokenizer->post, json_object_get(values, "post_processor"), err);
}

int tokenizer_new(struct tokenizer **tokenizer, const struct buf *json, const char *file,
		  struct err *err)
{
	json_t *values = json_object();
	int rc;

	*tokenizer = xcalloc(1, sizeof **tokenizer);
	rc = read_tokenizer(*tokenizer, json, values, err);
	json_decref(values);
	if (rc) {
		tokenizer_free(*tokenizer);
		*tokenizer = NULL;
		err_wrap(err, "'%s'", file);
	}
	return rc;
}

void tokenizer_free(struct tokenizer *tokenizer)
{
	if (!tokenizer)
		return;
	steps_release(&tokenizer->normalizer);
	steps_release(&tokenizer->pre_tokenizer);
	added_release(&tokenizer->added);
	bpe_release(&tokenizer->bpe);
	token_ids_release(&tokenizer->post.before);
	token_ids_release(&tokenizer->post.after);
	free(tokenizer);
}

static size_t max_id(const struct token_ids *list, size_t max)
{
	for (size_t i = 0; i < list->n; i++)
		max = list->ids[i] > max ? list->ids[i] : max;
	return max;
}

size_t tokenizer_vocab_size(const struct tokenizer *tokenizer)
{
	size_t max = tokenizer->bpe.vocab.max_id;

	max = tokenizer->added.max_id > max ? tokenizer->added.max_id : max;
	return max_id(&tokenizer->post.after, max_id(&tokenizer->post.before, max)) + 1;
}

/* The memory of one call. */
struct encoding {
	const struct tokenizer *tokenizer;
	struct step_state normalizer[MAX_STEPS], pre_tokenizer[MAX_STEPS];
	struct bpe_work work;
	struct buf repaired;
	struct token_ids *out;
	struct regex_work *patterns;
	size_t budget; /* bytes that steps may still produce */
};

/* Takes n bytes from the budget: alternate steps that prepend and split could grow a text without
 * limit. */
static int spend(struct encoding *encoding, size_t n, struct err *err)
{
	if (n > encoding->budget || n > INT32_MAX)
		return step_too_much(err);
	encoding->budget -= n;
	return progress_stopped(encoding->patterns->stop, err);
}

static void encoding_free(struct encoding *encoding)
{
	for (int i = 0; i < MAX_STEPS; i++) {
		step_state_release(&encoding->normalizer[i]);
		step_state_release(&encoding->pre_tokenizer[i]);
	}
	bpe_work_release(&encoding->work);
	buf_release(&encoding->repaired);
	free(encoding);
}

/* Sets *range to the output of the step, which state holds. */
static int rewrite(struct encoding *encoding, const struct step *step, struct step_state *state,
		   struct text_range *range, struct err *err)
{
	state->out.len = 0;
	state->room = encoding->budget < INT32_MAX ? encoding->budget : INT32_MAX;
	state->search.work = encoding->patterns;
	if (step->rewrite(step, state, range, &state->out, err) ||
	    spend(encoding, state->out.len, err))
		return -1;
	range->text = state->out.data;
	range->len = state->out.len;
	return 0;
}

/* A part of the text after the first n_done steps of the pre-tokenizer. */
struct piece {
	struct encoding *encoding;
	size_t n_done;
	/* of the range that was split, if that range begins the whole text; else NULL */
	const char *start;
};

static int take_piece(void *context, const char *text, size_t len, struct err *err);

/* Runs the other steps and the model.  Each split recurses: at most MAX_STEPS levels. */
static int pre_tokenize(struct encoding *encoding, size_t n_done, struct text_range range,
			struct err *err)
{
	const struct tokenizer *tokenizer = encoding->tokenizer;

	for (; n_done < tokenizer->pre_tokenizer.n; n_done++) {
		const struct step *step = &tokenizer->pre_tokenizer.step[n_done];
		struct step_state *state = &encoding->pre_tokenizer[n_done];

		if (!step->rewrite) {
			struct piece piece = { encoding, n_done + 1,
					       range.first ? range.text : NULL };
			const struct piece_taker taker = { take_piece, &piece };

			state->search.work = encoding->patterns;
			return step_split(step, state, &range, &taker, err);
		}
		if (rewrite(encoding, step, state, &range, err))
			return -1;
		if (!range.len)
			return 0;
	}
	return bpe_encode(&tokenizer->bpe, &encoding->work, range.text, range.len, encoding->out,
			  err);
}

static int take_piece(void *context, const char *text, size_t len, struct err *err)
{
	const struct piece *piece = context;
	const struct text_range range = { text, len, .first = text == piece->start };

	if (spend(piece->encoding, len, err))
		return -1;
	return pre_tokenize(piece->encoding, piece->n_done, range, err);
}

/* Returns the part [begin, end) of a range. */
static struct text_range part_of(struct text_range range, size_t begin, size_t end)
{
	return (struct text_range){ range.text + begin, end - begin, range.first && !begin };
}

/* Encodes a range whose added tokens are those of the set: rest() encodes what lies between. */
static int
encode_around(struct encoding *encoding, const struct added_set *set, struct text_range range,
	      int (*rest)(struct encoding *encoding, struct text_range range, struct err *err),
	      struct err *err)
{
	const struct added_token *token;
	struct added_search search = { 0 };
	size_t begin, end, done = 0;

	while ((token = added_find(set, range.text, range.len, &search, &begin, &end))) {
		if (done < begin && rest(encoding, part_of(range, done, begin), err))
			return -1;
		token_ids_add(encoding->out, token->id);
		done = end;
	}
	return done == range.len ? 0 : rest(encoding, part_of(range, done, range.len), err);
}

static int encode_normalized(struct encoding *encoding, struct text_range range, struct err *err)
{
	return pre_tokenize(encoding, 0, range, err);
}

static int encode_raw(struct encoding *encoding, struct text_range range, struct err *err)
{
	const struct tokenizer *tokenizer = encoding->tokenizer;
	const struct steps *normalizer = &tokenizer->normalizer;

	for (size_t i = 0; i < normalizer->n; i++) {
		if (rewrite(encoding, &normalizer->step[i], &encoding->normalizer[i], &range, err))
			return -1;
		if (!range.len)
			return 0;
	}
	return encode_around(encoding, &tokenizer->added.normalized, range, encode_normalized, err);
}

static int encode_text(struct encoding *encoding, const char *text, size_t len, struct err *err)
{
	struct text_range range = { text, len, .first = true };

	if (json_utf8_prefix((struct json_text){ text, len }) != len) {
		utf8_add_repaired(&encoding->repaired, text, len);
		range.text = encoding->repaired.data;
		range.len = encoding->repaired.len;
	}
	return encode_around(encoding, &encoding->tokenizer->added.raw, range, encode_raw, err);
}

bool tokenizer_repeats(const struct tokenizer *tokenizer, const uint32_t *ids, size_t n)
{
	size_t n_before = tokenizer->post.before.n;

	return n_before && n > n_before && ids[n_before] == ids[0];
}

static void add_all(struct token_ids *out, const struct token_ids *list)
{
	for (size_t i = 0; i < list->n; i++)
		token_ids_add(out, list->ids[i]);
}

int tokenizer_encode(const struct tokenizer *tokenizer, const struct tokenizer_text *text,
		     struct token_ids *out, struct err *err)
{
	struct regex_work alone = { 0 };
	struct encoding *encoding;
	int rc;

	if (text->len > INT32_MAX)
		return err_set(err, ERR_INPUT, "a text is %zu bytes long, more than the limit (%d)",
			       text->len, INT32_MAX);
	encoding = xcalloc(1, sizeof *encoding);
	encoding->tokenizer = tokenizer;
	encoding->out = out;
	encoding->patterns = text->patterns ? text->patterns : &alone;
	encoding->budget = MAX_GROWTH * (text->len + 4096);
	if (text->add_special_tokens)
		add_all(out, &tokenizer->post.before);
	rc = encode_text(encoding, text->text, text->len, err);
	if (!rc && text->add_special_tokens)
		add_all(out, &tokenizer->post.after);
	encoding_free(encoding);
	return rc;
}
