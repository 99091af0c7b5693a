/* SPDX-License-Identifier: Apache-2.0 */
#include "select/profile.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "names/tensor_name.h"

#define ACTION(action, word, phrase) [action] = { word, phrase },

const struct profile_action_words profile_actions[] = { PROFILE_ACTIONS(ACTION) };

/* --- families --- */

static bool is_family(const struct profile_row *row, const char *name)
{
	const char *word = row->families;

	while (*word) {
		size_t n = strcspn(word, " ");

		if (segment_matches(word, n, name, strlen(name)))
			return true;
		word += n;
		word += *word == ' ';
	}
	return false;
}

static bool is_wanted(const struct profile_row *row, enum profile_level level)
{
	if (row->action == PROFILE_NAME || row->action == PROFILE_ENTRY)
		return true;
	return level == PROFILE_VENDOR || (level == PROFILE_ENGINE && !row->vendor);
}

/* Adds the rows, in the order of the table, of the families that names say; returns whether the
 * table has one of them. */
static bool add_rows(struct profile *profile, char *const *names, size_t n)
{
	bool found = false;

	for (const struct profile_row *row = profile_rows; row->families; row++) {
		bool is_of = false;

		for (size_t i = 0; i < n && !is_of; i++)
			is_of = is_family(row, names[i]);
		found |= is_of;
		if (!is_of || !is_wanted(row, profile->level))
			continue;
		ARRAY_GROW(profile->rows, profile->n);
		profile->rows[profile->n++] = row;
	}
	return found;
}

void profile_make(struct profile *profile, const struct model_config *config,
		  enum profile_level level)
{
	*profile = (struct profile){ .level = level, .n_layers = config->size[CONFIG_LAYERS] };
	if (!add_rows(profile, &config->quant_method, config->quant_method != NULL) &&
	    !add_rows(profile, config->model_types, config->n_model_types) && config->architecture)
		add_rows(profile, &config->architecture, 1);
}

void profile_release(struct profile *profile)
{
	free(profile->rows);
	*profile = (struct profile){ 0 };
}

/* --- conditions --- */

unsigned profile_on_granularity(enum granularity granularity)
{
	static const unsigned bits[] = { [GRANULARITY_TENSOR] = ON_TENSOR,
					 [GRANULARITY_CHANNEL] = ON_CHANNELWISE,
					 [GRANULARITY_BLOCK] = ON_BLOCKWISE,
					 [GRANULARITY_MX] = ON_MXFP8 };

	return bits[granularity];
}

unsigned profile_on_format(const struct format *format)
{
	if (!strcmp(format->name, "hf"))
		return ON_HF;
	return strcmp(format->name, "modelopt") ? ON_COMPRESSED : ON_MODELOPT;
}

unsigned profile_on_engine(enum engine engine)
{
	static const unsigned bits[N_ENGINES] = { [ENGINE_VLLM] = FOR_VLLM,
						  [ENGINE_SGLANG] = FOR_SGLANG,
						  [ENGINE_TRTLLM] = FOR_TRTLLM,
						  [ENGINE_TRANSFORMERS] = FOR_TRANSFORMERS };

	return bits[engine];
}

unsigned profile_conditions(const struct format *format, const struct scheme *scheme,
			    enum engine target)
{
	return profile_on_granularity(scheme->granularity) | profile_on_format(format) |
	       (target == ENGINE_ANY ? FOR_ENGINES : profile_on_engine(target));
}

static bool holds(unsigned conditions, unsigned on, unsigned group)
{
	return !(conditions & group) || (conditions & on & group);
}

static bool applies(const struct profile_row *row, unsigned on)
{
	return holds(row->on, on, ON_RECIPES) && holds(row->on, on, ON_FORMATS) &&
	       holds(row->on, on, FOR_ENGINES);
}

/* --- patterns --- */

#define MAX_SEGMENT 128 /* bytes of a segment of a pattern */

/* The same with braces: tries each word of the list. */
static bool braces_match(const char *pattern, size_t n, const char *text, size_t n_text,
			 int *position)
{
	const char *open = memchr(pattern, '{', n), *close, *word;
	char plain[MAX_SEGMENT];

	if (!open)
		return segment_matches(pattern, n, text, n_text);
	close = memchr(open, '}', n - (size_t)(open - pattern));
	word = open + 1;
	for (int i = 0; word < close; i++) {
		size_t n_word = strcspn(word, ",}");
		size_t n_head = (size_t)(open - pattern),
		       n_tail = n - (size_t)(close + 1 - pattern);

		memcpy(plain, pattern, n_head);
		memcpy(plain + n_head, word, n_word);
		memcpy(plain + n_head + n_word, close + 1, n_tail);
		if (segment_matches(plain, n_head + n_word + n_tail, text, n_text)) {
			*position = i;
			return true;
		}
		word += n_word + 1;
	}
	return false;
}

static bool path_matches(const char *pattern, const char *text, const char *end, int *position)
{
	size_t n = strcspn(pattern, "."), n_text;
	const char *dot;

	if (n == 1 && *pattern == '*') {
		pattern += 1 + (pattern[1] == '.');
		if (!*pattern)
			return true;
		for (; text; text = dot ? dot + 1 : NULL) {
			dot = memchr(text, '.', (size_t)(end - text));
			if (path_matches(pattern, text, end, position))
				return true;
		}
		return false;
	}
	dot = memchr(text, '.', (size_t)(end - text));
	n_text = (size_t)((dot ? dot : end) - text);
	if (!braces_match(pattern, n, text, n_text, position))
		return false;
	if (!dot || !pattern[n])
		return !dot && (!pattern[n] || !strcmp(pattern + n, ".*"));
	return path_matches(pattern + n + 1, dot + 1, end, position);
}

bool profile_pattern_matches(const char *pattern, const char *tensor, int *position)
{
	*position = 0;
	return path_matches(pattern, tensor, tensor + module_len(tensor), position);
}

/* --- search --- */

static bool decides(enum profile_action action)
{
	return action < PROFILE_CONFIG;
}

struct profile_match profile_find(const struct profile *profile, const char *tensor, unsigned on)
{
	struct profile_match match = { 0 };

	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		if (!decides(row->action) || !applies(row, on) ||
		    !profile_pattern_matches(row->pattern, tensor, &match.position))
			continue;
		match.row = row;
		return match;
	}
	return match;
}

/* The kind of the sets of rows.  Two rows of a family bond no modules of one parent. */
#define BOND 'B'

bool profile_fusion(const struct profile_match *match, const char *tensor, struct fusion *fusion)
{
	const char *dot;

	if (!match->row ||
	    (match->row->action != PROFILE_BOND && match->row->action != PROFILE_TABLE))
		return fusion_of_name(fusion, tensor);
	dot = memrchr(tensor, '.', module_len(tensor));
	*fusion = (struct fusion){ .kind = BOND,
				   .parent_len = dot ? (size_t)(dot + 1 - tensor) : 0,
				   .position = match->position };
	return true;
}

const struct profile_row *profile_next(const struct profile *profile, enum profile_action action,
				       unsigned on, const struct profile_row *before)
{
	bool passed = !before;

	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		if (passed && row->action == action && applies(row, on))
			return row;
		passed |= row == before;
	}
	return NULL;
}
