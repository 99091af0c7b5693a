/* SPDX-License-Identifier: Apache-2.0
 *
 * The vocabulary and the merges, straight from the text: there are hundreds of thousands of them.
 */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "tokenizer/bpe.h"
#include "tokenizer/json.h"
#include "tokenizer/unicode.h"

#define N_JOIN_BITS	20
#define BYTES_PER_TOKEN 40 /* of a vocabulary, as a first guess */

static size_t pair_hash(uint32_t left, uint32_t right)
{
	uint64_t pair = (uint64_t)left << 32 | right;

	pair *= 0x9e3779b97f4a7c15u;
	return (size_t)(((pair ^ pair >> 32) * 0xd6e8feb86659fd93u) >> 32);
}

bool bpe_may_join(const struct bpe *bpe, uint32_t left, uint32_t right)
{
	size_t bit = pair_hash(left, right) & ((1u << N_JOIN_BITS) - 1);

	return bpe->all_join || bpe->joins[bit / 64] >> bit % 64 & 1;
}

static void set_join(struct bpe *bpe, uint32_t left, uint32_t right)
{
	size_t bit = pair_hash(left, right) & ((1u << N_JOIN_BITS) - 1);

	bpe->joins[bit / 64] |= (uint64_t)1 << bit % 64;
}

static struct merge *merge_slot(const struct merge *merges, size_t n_slots, uint32_t left,
				uint32_t right)
{
	size_t mask = n_slots - 1;

	for (size_t i = pair_hash(left, right) & mask;; i = (i + 1) & mask) {
		const struct merge *slot = &merges[i];

		if (slot->left == NO_TOKEN || (slot->left == left && slot->right == right))
			return (struct merge *)slot;
	}
}

const struct merge *bpe_merge_of(const struct bpe *bpe, uint32_t left, uint32_t right)
{
	const struct merge *slot = merge_slot(bpe->merges, bpe->n_merge_slots, left, right);

	return slot->left == NO_TOKEN ? NULL : slot;
}

static void reserve_merges(struct bpe *bpe, size_t n)
{
	size_t n_slots = bpe->n_merge_slots ? bpe->n_merge_slots : 64;
	struct merge *merges;

	if (2 * n <= bpe->n_merge_slots)
		return;
	while (n_slots < 2 * n)
		n_slots *= 2;
	merges = xreallocarray(NULL, n_slots, sizeof *merges);
	for (size_t i = 0; i < n_slots; i++)
		merges[i].left = NO_TOKEN;
	for (size_t i = 0; i < bpe->n_merge_slots; i++) {
		const struct merge *old = &bpe->merges[i];

		if (old->left != NO_TOKEN)
			*merge_slot(merges, n_slots, old->left, old->right) = *old;
	}
	free(bpe->merges);
	bpe->merges = merges;
	bpe->n_merge_slots = n_slots;
}

static int read_vocab(struct bpe *bpe, struct json_text text, struct err *err)
{
	struct json_members walk = { .text = text };
	struct json_member member;
	uint64_t id;
	int rc;

	vocab_reserve(&bpe->vocab, text.len / BYTES_PER_TOKEN);
	while ((rc = json_members_next(&walk, &member, err)) > 0) {
		if (!json_text_uint(member.value, &id) || id > MAX_TOKEN_ID)
			rc = err_set(err, ERR_INPUT,
				     "token '%s' has an id that is not from 0 to %d", member.key,
				     MAX_TOKEN_ID);
		else if (!vocab_add(&bpe->vocab, member.key, member.key_len, (uint32_t)id))
			rc = err_set(err, ERR_INPUT, "duplicate token '%s'", member.key);
		if (rc < 0)
			break;
	}
	json_members_release(&walk);
	return rc < 0 ? err_wrap(err, "vocab") : 0;
}

/* Sets the ids of single characters and of "<0x00>"... */
static void index_vocab(struct bpe *bpe)
{
	char name[8];
	uint32_t c;

	bpe->char_ids = xcalloc(UNICODE_END, sizeof *bpe->char_ids);
	for (size_t i = 0; i < bpe->vocab.n_slots; i++) {
		const struct vocab_slot *slot = &bpe->vocab.slots[i];
		const char *text = bpe->vocab.text.data + slot->begin;

		if (slot->id != NO_TOKEN && slot->len && utf8_size(*text) == slot->len) {
			utf8_decode(text, &c);
			bpe->char_ids[c] = slot->id + 1;
		}
	}
	for (int byte = 0; byte < 256; byte++) {
		snprintf(name, sizeof name, "<0x%02X>", byte);
		bpe->byte_ids[byte] =
			bpe->byte_fallback ? vocab_find(&bpe->vocab, name, 6) : NO_TOKEN;
	}
	bpe->unk_id = bpe->unk_token
			      ? vocab_find(&bpe->vocab, bpe->unk_token, strlen(bpe->unk_token))
			      : NO_TOKEN;
}

#define AHEAD 16

/* Merges whose strings are read and whose ids are still to be found: the slots of the vocabulary
 * are prefetched meanwhile. */
struct merge_queue {
	struct merge_text {
		struct buf left, right, both;
	} text[AHEAD];
	size_t n_read, n_added; /* n_added is the rank of the next one */
};

/* Whether a token of a merge is a symbol that does not stand for characters. */
static bool is_other_symbol(const struct bpe *bpe, const struct buf *text, uint32_t id)
{
	return id == bpe->unk_id ||
	       (bpe->byte_fallback && text->len == 6 && !strncmp(text->data, "<0x", 3));
}

/* Sets the bit of two characters: a merge can happen only where the last character of the left
 * token precedes the first character of the right one. */
static void note_join(struct bpe *bpe, const struct merge_text *text, const struct merge *merge)
{
	uint32_t last, first;

	if (!text->left.len || !text->right.len || is_other_symbol(bpe, &text->left, merge->left) ||
	    is_other_symbol(bpe, &text->right, merge->right)) {
		bpe->all_join = true;
		return;
	}
	utf8_decode_back(text->left.data + text->left.len, &last);
	utf8_decode(text->right.data, &first);
	if (bpe->char_ids[last] && bpe->char_ids[first])
		set_join(bpe, bpe->char_ids[last] - 1, bpe->char_ids[first] - 1);
}

/* Adds the oldest merge of the queue. */
static int add_merge(struct bpe *bpe, struct merge_queue *queue, struct err *err)
{
	const struct merge_text *text = &queue->text[queue->n_added % AHEAD];
	const struct buf *parts[] = { &text->left, &text->right, &text->both };
	struct merge merge = { .rank = (uint32_t)queue->n_added };
	uint32_t *ids[] = { &merge.left, &merge.right, &merge.id };

	for (int i = 0; i < 3; i++) {
		*ids[i] = vocab_find(&bpe->vocab, parts[i]->data, parts[i]->len);
		if (*ids[i] == NO_TOKEN)
			return err_set(err, ERR_INPUT, "merge %zu: token '%s' is not in the vocab",
				       queue->n_added, parts[i]->data);
	}
	note_join(bpe, text, &merge);
	reserve_merges(bpe, queue->n_added + 1);
	/* of two merges of one pair the last wins */
	*merge_slot(bpe->merges, bpe->n_merge_slots, merge.left, merge.right) = merge;
	queue->n_added++;
	return 0;
}

/* Enters the merge whose strings were just read into the queue. */
static int queue_merge(struct bpe *bpe, struct merge_queue *queue, struct err *err)
{
	struct merge_text *text = &queue->text[queue->n_read % AHEAD];

	text->both.len = 0;
	buf_add(&text->both, text->left.data, text->left.len);
	buf_add(&text->both, text->right.data, text->right.len);
	vocab_prefetch(&bpe->vocab, text->left.data, text->left.len);
	vocab_prefetch(&bpe->vocab, text->right.data, text->right.len);
	vocab_prefetch(&bpe->vocab, text->both.data, text->both.len);
	queue->n_read++;
	return queue->n_read - queue->n_added == AHEAD ? add_merge(bpe, queue, err) : 0;
}

/* Reads "a b", with exactly one space.  Skips the "#version" line of old files. */
static int read_spaced(struct bpe *bpe, struct merge_queue *queue, struct json_text token,
		       struct err *err)
{
	struct merge_text *text = &queue->text[queue->n_read % AHEAD];
	const char *space;

	if (!json_text_string(token, &text->both))
		return err_set(err, ERR_INPUT, "merge %zu is not a valid string", queue->n_read);
	if (!strncmp(text->both.data, "#version", 8))
		return 0;
	space = strchr(text->both.data, ' ');
	if (!space || strchr(space + 1, ' '))
		return err_set(err, ERR_INPUT,
			       "merge %zu, '%s', is not two tokens with a space between",
			       queue->n_read, text->both.data);
	text->left.len = text->right.len = 0;
	buf_add(&text->left, text->both.data, (size_t)(space - text->both.data));
	buf_puts(&text->right, space + 1);
	return queue_merge(bpe, queue, err);
}

/* Reads ["a", "b"], from after its bracket. */
static int read_pair(struct bpe *bpe, struct merge_queue *queue, struct json_text json, size_t *at,
		     struct err *err)
{
	struct merge_text *text = &queue->text[queue->n_read % AHEAD];
	struct json_text left, comma, right;

	if (json_token(json, at, &left) != '"' || json_token(json, at, &comma) != ',' ||
	    json_token(json, at, &right) != '"' || json_token(json, at, &comma) != ']' ||
	    !json_text_string(left, &text->left) || !json_text_string(right, &text->right))
		return err_set(err, ERR_INPUT, "merge %zu is not a pair of strings", queue->n_read);
	return queue_merge(bpe, queue, err);
}

static int read_merge_list(struct bpe *bpe, struct merge_queue *queue, struct json_text json,
			   struct err *err)
{
	struct json_text token;
	size_t at = 0;
	int kind = json_token(json, &at, &token), style = 0;

	if (kind != '[')
		return err_set(err, ERR_INPUT, "not a list");
	for (bool more = json_token(json, &at, &token) != ']'; more;) {
		kind = style ? json_token(json, &at, &token) : *token.data;
		if ((kind != '"' && kind != '[') || (style && kind != style))
			return err_set(
				err, ERR_INPUT,
				"merge %zu is not of the form of the other merges (\"a b\" or "
				"[\"a\", \"b\"])",
				queue->n_read);
		style = kind;
		if (kind == '"' ? read_spaced(bpe, queue, token, err)
				: read_pair(bpe, queue, json, &at, err))
			return -1;
		kind = json_token(json, &at, &token);
		if (kind != ',' && kind != ']')
			return err_set(err, ERR_INPUT, "missing comma before merge %zu",
				       queue->n_read);
		more = kind == ',';
	}
	while (queue->n_added < queue->n_read)
		if (add_merge(bpe, queue, err))
			return -1;
	return 0;
}

static int read_merges(struct bpe *bpe, struct json_text json, struct err *err)
{
	struct merge_queue queue = { 0 };
	int rc;

	for (int i = 0; i < AHEAD; i++) {
		buf_puts(&queue.text[i].left, "");
		buf_puts(&queue.text[i].right, "");
		buf_puts(&queue.text[i].both, "");
	}
	reserve_merges(bpe, bpe->vocab.n); /* about as many as tokens */
	bpe->joins = xcalloc((1u << N_JOIN_BITS) / 64, sizeof *bpe->joins);
	rc = read_merge_list(bpe, &queue, json, err);
	for (int i = 0; i < AHEAD; i++) {
		buf_release(&queue.text[i].left);
		buf_release(&queue.text[i].right);
		buf_release(&queue.text[i].both);
	}
	return rc ? err_wrap(err, "merges") : 0;
}

/* Whether two strings have the same id: then an id does not determine the characters of its
 * token. */
static bool ids_repeat(const struct vocab *vocab)
{
	uint64_t *seen = xcalloc(vocab->max_id / 64 + 1, sizeof *seen);
	bool repeat = false;

	for (size_t i = 0; i < vocab->n_slots; i++) {
		uint32_t id = vocab->slots[i].id;

		if (id == NO_TOKEN)
			continue;
		repeat |= seen[id / 64] >> id % 64 & 1;
		seen[id / 64] |= (uint64_t)1 << id % 64;
	}
	free(seen);
	return repeat;
}

/* Refuses members that change the encoding and are not supported. */
static int refuse_unknown(const json_t *members, struct err *err)
{
	static const char *const affixes[] = { "continuing_subword_prefix", "end_of_word_suffix" };
	const json_t *type = json_object_get(members, "type");

	if (type && (!json_is_string(type) || strcmp(json_string_value(type), "BPE") != 0))
		return err_set(err, ERR_INPUT, "type '%s' is not supported (supported: BPE)",
			       json_is_string(type) ? json_string_value(type) : "?");
	if (json_number_value(json_object_get(members, "dropout")) != 0)
		return err_set(err, ERR_INPUT, "dropout is not supported");
	for (size_t i = 0; i < sizeof affixes / sizeof *affixes; i++)
		if (json_string_length(json_object_get(members, affixes[i])))
			return err_set(err, ERR_INPUT, "'%s' is not supported", affixes[i]);
	return 0;
}

static int read_flags(struct bpe *bpe, const json_t *members, struct err *err)
{
	const json_t *unk = json_object_get(members, "unk_token");

	if (refuse_unknown(members, err) ||
	    json_member_bool(members, "it", "fuse_unk", false, &bpe->fuse_unk, err) ||
	    json_member_bool(members, "it", "byte_fallback", false, &bpe->byte_fallback, err) ||
	    json_member_bool(members, "it", "ignore_merges", false, &bpe->ignore_merges, err))
		return -1;
	if (json_is_string(unk))
		bpe->unk_token = xstrdup(json_string_value(unk));
	return 0;
}

int bpe_read(struct bpe *bpe, struct json_text model, struct err *err)
{
	struct large_member large[] = { { .key = "vocab" }, { .key = "merges" }, { 0 } };
	const struct json_text *vocab = &large[0].text, *merges = &large[1].text;
	json_t *members = json_object();
	int rc = -1;

	if (json_read_members(model, large, members, err) || read_flags(bpe, members, err))
		goto out;
	if (!vocab->len || !merges->len) {
		err_set(err, ERR_INPUT, "missing member '%s'", vocab->len ? "merges" : "vocab");
		goto out;
	}
	if (read_vocab(bpe, *vocab, err))
		goto out;
	index_vocab(bpe);
	bpe->all_join = ids_repeat(&bpe->vocab);
	rc = read_merges(bpe, *merges, err);
out:
	json_decref(members);
	return rc ? err_wrap(err, "model") : 0;
}

void bpe_release(struct bpe *bpe)
{
	vocab_release(&bpe->vocab);
	free(bpe->char_ids);
	free(bpe->merges);
	free(bpe->joins);
	free(bpe->unk_token);
	*bpe = (struct bpe){ 0 };
}
