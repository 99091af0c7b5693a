/* SPDX-License-Identifier: Apache-2.0
 *
 * The leftmost token wins; of tokens that begin at one place, the longest.
 */
#include "tokenizer/added.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/sort.h"
#include "tokenizer/json.h"
#include "tokenizer/unicode.h"

#define MAX_GROWN 16 /* bytes of a pattern per byte of its token */

/* Is it white space that takes the white space around it along?  The package and this program
 * disagree where two of them meet. */
static bool is_greedy_space(const struct added_token *token)
{
	const char *text = token->content, *end = text + token->len;
	uint32_t c;
	size_t n = 1;

	while (token->len && text < end && (n = utf8_decode(text, &c), unicode_is_space(c)))
		text += n;
	return token->len && text == end && token->lstrip && token->rstrip;
}

static int read_token(struct added_token *token, const json_t *json, const char *where,
		      struct err *err)
{
	uint32_t id;
	const char *content = json_member_string(json, where, "content", &token->len, err);

	if (!content || json_token_id(json_object_get(json, "id"), where, &id, err) ||
	    json_member_bool(json, where, "single_word", -1, &token->single_word, err) ||
	    json_member_bool(json, where, "lstrip", -1, &token->lstrip, err) ||
	    json_member_bool(json, where, "rstrip", -1, &token->rstrip, err) ||
	    json_member_bool(json, where, "normalized", -1, &token->normalized, err))
		return -1;
	if (token->len > MAX_ADDED_LENGTH)
		return err_set(err, ERR_INPUT, "%s is %zu bytes long, more than the limit (%d)",
			       where, token->len, MAX_ADDED_LENGTH);
	token->content = xstrndup(content, token->len);
	if (is_greedy_space(token))
		return err_set(err, ERR_INPUT,
			       "%s is white space with lstrip and rstrip, which is unsupported",
			       where);
	return 0;
}

static int set_pattern(struct added_token *token, const struct steps *normalizer,
		       struct step_state *state, struct err *err)
{
	struct buf text = { 0 }, next = { 0 };
	int rc = 0;

	buf_add(&text, token->content, token->len);
	for (size_t i = 0; token->normalized && !rc && i < normalizer->n && text.len; i++) {
		const struct step *step = &normalizer->step[i];
		const struct text_range range = { text.data, text.len, .first = true };

		next.len = 0;
		state->room = MAX_GROWN * (token->len + 1);
		rc = step->rewrite(step, state, &range, &next, err);
		struct buf swap = text;
		text = next;
		next = swap;
		regex_search_release(&state->search);
	}
	if (!rc && !text.len)
		rc = err_set(err, ERR_INPUT, "added token '%s' is empty after normalization",
			     token->content);
	token->pattern = xmalloc(text.len + 1);
	memcpy(token->pattern, text.len ? text.data : "", text.len);
	token->pattern_len = text.len;
	buf_release(&text);
	buf_release(&next);
	return rc;
}

static int compare(const void *a, const void *b)
{
	const struct added_token *x = *(const struct added_token *const *)a,
				 *y = *(const struct added_token *const *)b;
	size_t n = x->pattern_len < y->pattern_len ? x->pattern_len : y->pattern_len;
	int order = memcmp(x->pattern, y->pattern, n);

	return order ? order
		     : (x->pattern_len > y->pattern_len) - (x->pattern_len < y->pattern_len);
}

static int make_set(struct added_set *set, const struct added_tokens *added, bool normalized,
		    struct err *err)
{
	set->tokens = xcalloc(added->n, sizeof *set->tokens);
	for (size_t i = 0; i < added->n; i++) {
		if (added->tokens[i].normalized != normalized)
			continue;
		set->tokens[set->n++] = &added->tokens[i];
		set->begins[(unsigned char)added->tokens[i].pattern[0]] = true;
	}
	sort(set->tokens, set->n, sizeof *set->tokens, compare);
	for (size_t i = 1; i < set->n; i++)
		if (!compare(&set->tokens[i - 1], &set->tokens[i]))
			return err_set(err, ERR_INPUT,
				       "added tokens '%s' and '%s' are equal after normalization",
				       set->tokens[i - 1]->content, set->tokens[i]->content);
	return 0;
}

/* Adds a token.  A repeated token gets the flags of its last entry. */
static void put_token(struct added_tokens *added, struct vocab *seen, struct added_token *token)
{
	uint32_t at = vocab_find(seen, token->content, token->len);

	if (at != NO_TOKEN) {
		struct added_token *old = &added->tokens[at];

		token->id = old->id;
		free(old->content);
		*old = *token;
		return;
	}
	vocab_add(seen, token->content, token->len, (uint32_t)added->n);
	added->tokens[added->n++] = *token;
	if (token->id > added->max_id)
		added->max_id = token->id;
}

static int read_tokens(struct added_tokens *added, const json_t *json, const struct vocab *vocab,
		       struct err *err)
{
	struct vocab seen = { 0 };
	uint32_t next_id = (uint32_t)vocab->n;
	char where[48];
	int rc = 0;

	for (size_t i = 0; i < json_array_size(json); i++) {
		struct added_token token = { 0 };

		snprintf(where, sizeof where, "added_tokens[%zu]", i);
		rc = read_token(&token, json_array_get(json, i), where, err);
		if (rc || !token.len) {
			free(token.content);
			if (rc)
				break;
			continue;
		}
		token.id = vocab_find(vocab, token.content, token.len);
		if (token.id == NO_TOKEN && vocab_find(&seen, token.content, token.len) == NO_TOKEN)
			token.id = next_id++;
		put_token(added, &seen, &token);
	}
	vocab_release(&seen);
	return rc;
}

int added_read(struct added_tokens *added, const json_t *json, const struct vocab *vocab,
	       const struct steps *normalizer, struct err *err)
{
	struct regex_work patterns = { 0 };
	struct step_state state = { .search.work = &patterns };
	int rc;

	if (json && !json_is_null(json) && !json_is_array(json))
		return err_set(err, ERR_INPUT, "added_tokens is not a list");
	added->tokens = xcalloc(json_array_size(json), sizeof *added->tokens);
	rc = read_tokens(added, json, vocab, err);
	for (size_t i = 0; !rc && i < added->n; i++)
		rc = set_pattern(&added->tokens[i], normalizer, &state, err);
	step_state_release(&state);
	if (rc || make_set(&added->raw, added, false, err))
		return -1;
	return make_set(&added->normalized, added, true, err);
}

void added_release(struct added_tokens *added)
{
	for (size_t i = 0; i < added->n; i++) {
		free(added->tokens[i].content);
		free(added->tokens[i].pattern);
	}
	free(added->tokens);
	free(added->raw.tokens);
	free(added->normalized.tokens);
	*added = (struct added_tokens){ 0 };
}

/* Returns the first of set->tokens[low, high) whose byte `depth` is at least c.  All of them are
 * longer than depth, save the first, which may be exactly as long. */
static size_t first_at_least(const struct added_set *set, size_t low, size_t high, size_t depth,
			     unsigned c)
{
	const struct added_token *const *tokens = set->tokens + low;
	size_t i;

	SEARCH(i, high - low,
	       tokens[i]->pattern_len <= depth || (unsigned char)tokens[i]->pattern[depth] < c);
	return low + i;
}

/* Returns the longest token that text begins with, or NULL. */
static const struct added_token *longest(const struct added_set *set, const char *text, size_t len)
{
	const struct added_token *found = NULL;
	size_t low = 0, high = set->n;

	for (size_t depth = 0; depth < len && low < high; depth++) {
		unsigned c = (unsigned char)text[depth];

		low = first_at_least(set, low, high, depth, c);
		high = first_at_least(set, low, high, depth, c + 1);
		if (low < high && set->tokens[low]->pattern_len == depth + 1)
			found = set->tokens[low];
	}
	return found;
}

static bool stands_alone(const char *text, size_t len, size_t begin, size_t end)
{
	uint32_t c;

	if (begin) {
		utf8_decode_back(text + begin, &c);
		if (unicode_is_word(c))
			return false;
	}
	if (end < len) {
		utf8_decode(text + end, &c);
		if (unicode_is_word(c))
			return false;
	}
	return true;
}

/* Extends [*begin, *end) by the white space that the token strips, but not below from. */
static void strip(const struct added_token *token, const char *text, size_t len, size_t from,
		  size_t *begin, size_t *end)
{
	uint32_t c;
	size_t n;

	while (token->lstrip && *begin > from &&
	       (n = utf8_decode_back(text + *begin, &c), unicode_is_space(c)))
		*begin -= n;
	while (token->rstrip && *end < len &&
	       (n = utf8_decode(text + *end, &c), unicode_is_space(c)))
		*end += n;
}

const struct added_token *added_find(const struct added_set *set, const char *text, size_t len,
				     struct added_search *search, size_t *begin, size_t *end)
{
	while (set->n && search->at < len) {
		const struct added_token *token = NULL;

		*begin = search->at;
		if (set->begins[(unsigned char)text[*begin]])
			token = longest(set, text + *begin, len - *begin);
		*end = search->at += token ? token->pattern_len : 1;
		if (!token || (token->single_word && !stands_alone(text, len, *begin, *end)))
			continue;
		strip(token, text, len, search->done, begin, end);
		search->done = *end; /* the next token may begin in the stripped white space */
		return token;
	}
	return NULL;
}
