/* SPDX-License-Identifier: Apache-2.0
 *
 * Words to tokens.  A word begins as one symbol for each character; merges join neighbors, the
 * merge of lowest rank first, of equal ranks the leftmost.  The word is cut where no merge can ever
 * join two neighbors: a text without a pre-tokenizer (Llama 2) becomes many short runs.
 */
#include "tokenizer/bpe.h"

#include <stdlib.h>

#include "base/mem.h"
#include "tokenizer/unicode.h"

#define SHORT_RUN 32 /* symbols: up to here a scan of all pairs for each merge is fastest */

#define NONE UINT32_MAX

struct bpe_link {
	uint32_t previous, next; /* NONE at the ends */
	bool gone;
};

/* A possible merge of the symbol at `at` with the next one. */
struct bpe_step {
	uint32_t rank, at, id;
};

void bpe_work_release(struct bpe_work *work)
{
	free(work->symbols);
	free(work->links);
	free(work->queue);
	*work = (struct bpe_work){ 0 };
}

static void merge_short(const struct bpe *bpe, struct bpe_work *work)
{
	const struct merge *merges[SHORT_RUN];
	uint32_t *symbol = work->symbols;
	size_t n = work->n;

	for (size_t i = 0; i + 1 < n; i++)
		merges[i] = bpe_merge_of(bpe, symbol[i], symbol[i + 1]);
	for (;;) {
		size_t best = n;

		for (size_t i = 0; i + 1 < n; i++)
			if (merges[i] && (best == n || merges[i]->rank < merges[best]->rank))
				best = i;
		if (best == n)
			break;
		symbol[best] = merges[best]->id;
		n--;
		for (size_t i = best + 1; i < n; i++)
			symbol[i] = symbol[i + 1];
		for (size_t i = best + 1; i + 1 < n; i++)
			merges[i] = merges[i + 1];
		if (best)
			merges[best - 1] = bpe_merge_of(bpe, symbol[best - 1], symbol[best]);
		if (best + 1 < n)
			merges[best] = bpe_merge_of(bpe, symbol[best], symbol[best + 1]);
	}
	work->n = n;
}

static bool before(const struct bpe_step *a, const struct bpe_step *b)
{
	return a->rank < b->rank || (a->rank == b->rank && a->at < b->at);
}

static void queue_push(const struct bpe *bpe, struct bpe_work *work, uint32_t at, uint32_t next)
{
	const struct merge *merge = bpe_merge_of(bpe, work->symbols[at], work->symbols[next]);
	struct bpe_step step;
	size_t i, parent;

	if (!merge)
		return;
	step = (struct bpe_step){ merge->rank, at, merge->id };
	if (work->n_queue == work->cap_queue) {
		work->cap_queue = work->cap_queue ? 2 * work->cap_queue : 256;
		work->queue = xreallocarray(work->queue, work->cap_queue, sizeof *work->queue);
	}
	for (i = work->n_queue++; i; i = parent) {
		parent = (i - 1) / 2;
		if (!before(&step, &work->queue[parent]))
			break;
		work->queue[i] = work->queue[parent];
	}
	work->queue[i] = step;
}

static struct bpe_step queue_pop(struct bpe_work *work)
{
	struct bpe_step *queue = work->queue, top = queue[0], last = queue[--work->n_queue];
	size_t n = work->n_queue, i = 0;

	for (size_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(&queue[child + 1], &queue[child]))
			child++;
		if (!before(&queue[child], &last))
			break;
		queue[i] = queue[child];
	}
	queue[i] = last;
	return top;
}

static void link_all(const struct bpe *bpe, struct bpe_work *work)
{
	uint32_t n = (uint32_t)work->n;

	if (work->cap_links < n) {
		work->cap_links = n;
		work->links = xreallocarray(work->links, n, sizeof *work->links);
	}
	for (uint32_t i = 0; i < n; i++) {
		work->links[i] =
			(struct bpe_link){ i ? i - 1 : NONE, i + 1 < n ? i + 1 : NONE, false };
		if (i + 1 < n)
			queue_push(bpe, work, i, i + 1);
	}
}

static void merge_long(const struct bpe *bpe, struct bpe_work *work)
{
	size_t n = 0;

	link_all(bpe, work);
	while (work->n_queue) {
		struct bpe_step step = queue_pop(work);
		struct bpe_link *link = &work->links[step.at];
		const struct merge *merge;

		if (link->gone || link->next == NONE)
			continue;
		merge = bpe_merge_of(bpe, work->symbols[step.at], work->symbols[link->next]);
		if (!merge || merge->id != step.id) /* one of the two was merged since */
			continue;
		work->symbols[step.at] = step.id;
		work->links[link->next].gone = true;
		link->next = work->links[link->next].next;
		if (link->next != NONE) {
			work->links[link->next].previous = step.at;
			queue_push(bpe, work, step.at, link->next);
		}
		if (link->previous != NONE)
			queue_push(bpe, work, link->previous, step.at);
	}
	for (size_t i = 0; i < work->n; i++)
		if (!work->links[i].gone)
			work->symbols[n++] = work->symbols[i];
	work->n = n;
}

/* Merges the symbols of the run, and appends the result to out. */
static void end_run(const struct bpe *bpe, struct bpe_work *work, struct token_ids *out)
{
	if (work->n > SHORT_RUN)
		merge_long(bpe, work);
	else if (work->n > 1)
		merge_short(bpe, work);
	for (size_t i = 0; i < work->n; i++)
		token_ids_add(out, work->symbols[i]);
	work->n = 0;
}

static void add_symbol(const struct bpe *bpe, struct bpe_work *work, uint32_t symbol,
		       struct token_ids *out)
{
	if (work->n && !bpe_may_join(bpe, work->symbols[work->n - 1], symbol))
		end_run(bpe, work, out);
	if (work->n == work->cap) {
		work->cap = work->cap ? 2 * work->cap : 256;
		work->symbols = xreallocarray(work->symbols, work->cap, sizeof *work->symbols);
	}
	work->symbols[work->n++] = symbol;
}

/* Adds the bytes of a character as symbols.  Returns false where a byte has no token. */
static bool add_bytes(const struct bpe *bpe, struct bpe_work *work, const char *p, size_t n,
		      struct token_ids *out)
{
	for (size_t i = 0; i < n; i++)
		if (bpe->byte_ids[(unsigned char)p[i]] == NO_TOKEN)
			return false;
	for (size_t i = 0; i < n; i++)
		add_symbol(bpe, work, bpe->byte_ids[(unsigned char)p[i]], out);
	return true;
}

int bpe_encode(const struct bpe *bpe, struct bpe_work *work, const char *word, size_t len,
	       struct token_ids *out, struct err *err)
{
	uint32_t whole = bpe->ignore_merges ? vocab_find(&bpe->vocab, word, len) : NO_TOKEN;
	bool unknown = false; /* one waits to be fused with the next */
	size_t n;

	if (whole != NO_TOKEN) {
		token_ids_add(out, whole);
		return 0;
	}
	work->n = work->n_queue = 0;
	for (const char *end = word + len; word < end; word += n) {
		uint32_t c;

		n = utf8_decode(word, &c);
		if (bpe->char_ids[c]) {
			if (unknown)
				add_symbol(bpe, work, bpe->unk_id, out);
			unknown = false;
			add_symbol(bpe, work, bpe->char_ids[c] - 1, out);
		} else if (bpe->byte_fallback && add_bytes(bpe, work, word, n, out)) {
			continue; /* as in the package: in front of an unknown one that waits */
		} else if (bpe->unk_token) {
			if (bpe->unk_id == NO_TOKEN)
				return err_set(err, ERR_INPUT,
					       "character U+%04X has no token, and unk_token '%s' "
					       "is not a token either",
					       c, bpe->unk_token);
			if (unknown && !bpe->fuse_unk)
				add_symbol(bpe, work, bpe->unk_id, out);
			unknown = true;
		}
	}
	if (unknown)
		add_symbol(bpe, work, bpe->unk_id, out);
	end_run(bpe, work, out);
	return 0;
}
