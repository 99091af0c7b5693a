/* SPDX-License-Identifier: Apache-2.0
 *
 * An entry without wildcards can begin in a module only where its first segment ends a segment of
 * the module, and there are few different first segments.  From each such place, the text up to
 * each end of a segment is looked up in a table of the entries.
 *
 * Modules mostly come sorted.  What the last one shares with this one, in whole segments, is not
 * looked up again if it matched nothing.
 */
#include "format/skip_match.h"

#include <fnmatch.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/pattern.h"
#include "base/sort.h"
#include "format/part_set.h"

/* Places of dots are compared in texts of at most this length. */
#define MAX_DOTS 256

/* The beginning of an entry. */
struct beginning {
	const char *entry;
	size_t n;
};

/* The places of dots in an entry.  As a regular expression, its dots match any character. */
struct dots {
	size_t n; /* length of the entry */
	uint64_t bits[MAX_DOTS / 64];
};

/* An entry with wildcards. */
struct wildcard {
	const char *entry;
	bool glob;
	char *expression; /* NULL: it is not one */
	struct pattern pattern;
};

/* A module in question. */
struct module {
	const char *text;
	size_t n;
	size_t experts; /* length of the prefix that vLLM asks for; 0: not of experts */
	bool listed;	/* only entries that list it */
	bool missed;	/* none matches it */
	size_t known;	/* length of its beginning, up to a dot, in which no part matches */
};

struct skip_match {
	struct part_set plain;	/* entries without wildcards */
	struct part_set firsts; /* their first segments */
	struct dots *dots;	/* different ones, by length */
	size_t n_dots, first_dots[MAX_DOTS + 2];
	struct beginning *prefixes; /* entries up to each "experts", by their last bytes */
	size_t n_prefixes;
	struct wildcard *wildcards;
	size_t n_wildcards;
	struct module last; /* the module before; of the one in question: */
	struct part_text parts;
	size_t *starts; /* places where an entry may begin */
	size_t n_starts;
	struct dots text_dots;
};

/* --- arranging the entries --- */

static bool has_wildcard(const char *entry)
{
	return !strncmp(entry, "re:", 3) || strpbrk(entry, "*?[](){}^$|+\\");
}

static void add_wildcard(struct skip_match *match, const char *entry)
{
	struct wildcard *wildcard;
	struct err ignored;

	ARRAY_GROW(match->wildcards, match->n_wildcards);
	wildcard = &match->wildcards[match->n_wildcards++];
	*wildcard = (struct wildcard){ .entry = entry };
	if (!strncmp(entry, "re:", 3)) {
		wildcard->expression = xasprintf("\\A(?:%s)", entry + 3);
	} else {
		wildcard->glob = strpbrk(entry, "*?[") != NULL;
		wildcard->expression = xasprintf("\\A(?:%s)(?:(?<=\\.)|(?=\\.|\\z))", entry);
	}
	if (!pattern_compile(&wildcard->pattern, "ignore", wildcard->expression, &ignored))
		return;
	free(wildcard->expression);
	wildcard->expression = NULL;
}

/* Compares texts from their last bytes on; a text that ends another one comes first. */
static int compare_ends(const void *a, const void *b)
{
	const struct beginning *x = a, *y = b;
	size_t n = x->n < y->n ? x->n : y->n;

	for (size_t i = 1; i <= n; i++) {
		int difference =
			(unsigned char)x->entry[x->n - i] - (unsigned char)y->entry[y->n - i];

		if (difference)
			return difference;
	}
	return (x->n > y->n) - (x->n < y->n);
}

/* Adds the entry up to each "experts". */
static void add_experts(struct skip_match *match, const char *entry)
{
	static const char word[] = "experts";
	const char *at = entry;
	struct beginning found;

	while ((at = strstr(at, word))) {
		at += sizeof word - 1;
		found = (struct beginning){ entry, (size_t)(at - entry) };
		if (match->n_prefixes &&
		    !compare_ends(&match->prefixes[match->n_prefixes - 1], &found))
			continue;
		ARRAY_GROW(match->prefixes, match->n_prefixes);
		match->prefixes[match->n_prefixes++] = found;
	}
}

COMPARISON(compare_dots, struct dots, ORDER(x->n, y->n) ?: memcmp(x->bits, y->bits, sizeof x->bits))

static void add_dots(struct skip_match *match, const char *entry, size_t n)
{
	struct dots dots = { .n = n };

	for (size_t i = 0; i < n; i++)
		if (entry[i] == '.')
			dots.bits[i / 64] |= UINT64_C(1) << i % 64;
	if (match->n_dots && !compare_dots(&match->dots[match->n_dots - 1], &dots))
		return;
	ARRAY_GROW(match->dots, match->n_dots);
	match->dots[match->n_dots++] = dots;
}

static void add_plain(struct skip_match *match, const char *entry)
{
	size_t n = strlen(entry);

	part_set_add(&match->plain, entry, n);
	part_set_add(&match->firsts, entry, strcspn(entry, "."));
	add_experts(match, entry);
	if (n <= MAX_DOTS)
		add_dots(match, entry, n);
	else
		add_wildcard(match, entry);
}

/* Sorts, drops duplicates, and sets the begin of each length. */
static void arrange_dots(struct skip_match *match)
{
	size_t n = 0, length = 0;

	sort(match->dots, match->n_dots, sizeof *match->dots, compare_dots);
	for (size_t i = 0; i < match->n_dots; i++)
		if (!n || compare_dots(&match->dots[n - 1], &match->dots[i]))
			match->dots[n++] = match->dots[i];
	match->n_dots = n;
	for (size_t i = 0; i <= n; i++)
		for (; length <= (i < n ? match->dots[i].n : MAX_DOTS + 1); length++)
			match->first_dots[length] = i;
}

static void arrange_experts(struct skip_match *match)
{
	size_t n = 0;

	sort(match->prefixes, match->n_prefixes, sizeof *match->prefixes, compare_ends);
	for (size_t i = 0; i < match->n_prefixes; i++)
		if (!n || compare_ends(&match->prefixes[n - 1], &match->prefixes[i]))
			match->prefixes[n++] = match->prefixes[i];
	match->n_prefixes = n;
}

/* Returns the largest number of different first segments: those that the entry before lacks. */
static size_t count_firsts(const char *const *entries, size_t n)
{
	size_t n_firsts = 0;

	for (size_t i = 0; i < n; i++) {
		size_t length = strcspn(entries[i], ".") + 1;

		n_firsts += !i || strncmp(entries[i], entries[i - 1], length) != 0;
	}
	return n_firsts;
}

struct skip_match *skip_match_make(const char *const *entries, size_t n)
{
	struct skip_match *match = xcalloc(1, sizeof *match);

	part_set_init(&match->plain, n);
	part_set_init(&match->firsts, count_firsts(entries, n));
	for (size_t i = 0; i < n; i++) {
		if (has_wildcard(entries[i]))
			add_wildcard(match, entries[i]);
		else if (*entries[i])
			add_plain(match, entries[i]);
	}
	arrange_dots(match);
	arrange_experts(match);
	return match;
}

void skip_match_free(struct skip_match *match)
{
	if (!match)
		return;
	for (size_t i = 0; i < match->n_wildcards; i++) {
		if (match->wildcards[i].expression)
			pattern_release(&match->wildcards[i].pattern);
		free(match->wildcards[i].expression);
	}
	free(match->wildcards);
	part_set_release(&match->plain, &match->parts);
	part_set_release(&match->firsts, NULL);
	free(match->starts);
	free(match->dots);
	free(match->prefixes);
	free(match);
}

/* --- matchers --- */

static size_t segment_end(const struct module *module, size_t at)
{
	const char *dot = memchr(module->text + at, '.', module->n - at);

	return dot ? (size_t)(dot - module->text) : module->n;
}

/* Returns the length of the prefix that vLLM asks for where the module is of experts: up to a
 * segment "experts", or to one that ends so, before a number or last.  The search begins with the
 * segment at `begin`. */
static size_t experts_prefix(const struct module *module, size_t begin)
{
	static const char word[] = "experts";
	const size_t n_word = sizeof word - 1;

	for (size_t end; begin < module->n; begin = end + 1) {
		end = segment_end(module, begin);
		if (end - begin < n_word || memcmp(module->text + end - n_word, word, n_word) != 0)
			continue;
		if (end - begin == n_word || end == module->n ||
		    (module->text[end + 1] >= '0' && module->text[end + 1] <= '9'))
			return end;
	}
	return 0;
}

/* Whether an engine looks for the part [begin, end) of the module, both at segments' ends but for
 * a begin that is not whole. */
static bool is_sought(const struct module *module, size_t begin, bool whole, size_t end)
{
	if (module->listed)
		return whole && (!begin || end == module->n);
	return whole || end == module->n || end == module->experts;
}

static const char *match_from(const struct skip_match *match, const struct module *module,
			      size_t begin)
{
	bool whole = !begin || module->text[begin - 1] == '.';
	const char *entry;

	for (size_t end = begin < module->known ? module->known : begin; end < module->n; end++) {
		end = segment_end(module, end);
		if (!is_sought(module, begin, whole, end))
			continue;
		entry = part_set_find(&match->plain, &match->parts, begin, end);
		if (entry)
			return entry;
	}
	return NULL;
}

static const char *match_plain(const struct skip_match *match, const struct module *module)
{
	for (size_t i = 0; i < match->n_starts; i++) {
		const char *entry = match_from(match, module, match->starts[i]);

		if (entry)
			return entry;
	}
	return NULL;
}

/* Looks up the first n bytes of a module with dots in the given places. */
static const char *find_dotted(const struct skip_match *match, const char *module,
			       const struct dots *dots)
{
	char text[MAX_DOTS];

	for (size_t i = 0; i < dots->n; i++)
		text[i] = (char)(dots->bits[i / 64] >> i % 64 & 1 ? '.' : module[i]);
	return part_set_get(&match->plain, text, dots->n);
}

/* Whether an entry with these dots can match, as a regular expression, text with those: it has all
 * of them.  extra: and more. */
static bool has_dots(const struct dots *entry, const struct dots *text, bool extra)
{
	uint64_t more = 0;

	for (size_t i = 0; i < MAX_DOTS / 64; i++) {
		if (text->bits[i] & ~entry->bits[i])
			return false;
		more |= entry->bits[i] & ~text->bits[i];
	}
	return !extra || more;
}

/* Looks for an entry of n bytes that matches the beginning of the module; text has the module's
 * dots. */
static const char *match_beginning(const struct skip_match *match, const struct module *module,
				   const struct dots *text, size_t n, bool extra)
{
	for (size_t i = match->first_dots[n]; i < match->first_dots[n + 1]; i++) {
		const char *entry;

		if (!has_dots(&match->dots[i], text, extra))
			continue;
		entry = find_dotted(match, module->text, &match->dots[i]);
		if (entry)
			return entry;
	}
	return NULL;
}

/* Entries as regular expressions, from the start of the module to a boundary: before a dot, after
 * it, or at the end. */
static const char *match_dotted(struct skip_match *match, const struct module *module)
{
	struct dots *text = &match->text_dots;
	const char *entry;

	for (size_t begin = module->known, end; begin < module->n; begin = end + 1) {
		end = segment_end(module, begin);
		if (end > MAX_DOTS)
			return NULL;
		entry = match_beginning(match, module, text, end, true);
		if (entry || end == module->n || end == MAX_DOTS)
			return entry;
		text->bits[end / 64] |= UINT64_C(1) << end % 64;
		entry = match_beginning(match, module, text, end + 1, false);
		if (entry)
			return entry;
	}
	return NULL;
}

/* Entries that have the prefix of the experts anywhere inside. */
static const char *match_experts(const struct skip_match *match, const struct module *module)
{
	const struct beginning prefix = { module->text, module->experts };
	const struct beginning *found;
	size_t i;

	if (prefix.n < module->known)
		return NULL;
	SEARCH(i, match->n_prefixes, compare_ends(&match->prefixes[i], &prefix) < 0);
	if (!prefix.n || i == match->n_prefixes)
		return NULL;
	found = &match->prefixes[i];
	if (found->n < prefix.n ||
	    memcmp(found->entry + found->n - prefix.n, prefix.entry, prefix.n) != 0)
		return NULL;
	return found->entry;
}

static const char *match_wildcards(const struct skip_match *match, const char *module)
{
	for (size_t i = 0; i < match->n_wildcards; i++) {
		const struct wildcard *wildcard = &match->wildcards[i];
		struct err ignored;
		bool matches = wildcard->glob && !fnmatch(wildcard->entry, module, 0);

		if (matches ||
		    (wildcard->expression &&
		     !pattern_match(&wildcard->pattern, module, &matches, &ignored) && matches))
			return wildcard->entry;
	}
	return NULL;
}

static const char *match_any(struct skip_match *match, const struct module *module)
{
	const char *entry;
	char *prefix;

	entry = match_plain(match, module);
	if (!entry && !module->listed)
		entry = match_dotted(match, module);
	if (!entry && !module->listed)
		entry = match_experts(match, module);
	if (entry || !match->n_wildcards)
		return entry;
	entry = match_wildcards(match, module->text);
	if (entry || !module->experts)
		return entry;
	prefix = xstrndup(module->text, module->experts);
	entry = match_wildcards(match, prefix);
	free(prefix);
	return entry;
}

/* --- questions --- */

/* Forgets what is known of the module in question from its byte `from` on. */
static void forget(struct skip_match *match, size_t from)
{
	while (match->n_starts && match->starts[match->n_starts - 1] >= from)
		match->n_starts--;
	for (size_t i = 0; i < MAX_DOTS / 64; i++)
		if (from < 64 * (i + 1))
			match->text_dots.bits[i] &=
				from > 64 * i ? (UINT64_C(1) << from % 64) - 1 : 0;
}

/* Finds the places in the module, from its segment at `begin` on, where an entry may begin. */
static void find_starts(struct skip_match *match, const struct module *module, size_t begin)
{
	for (size_t end = 0; begin < module->n; begin++) {
		if (begin >= end)
			end = segment_end(module, begin);
		if (!part_set_has_length(&match->firsts, end - begin) ||
		    !part_set_find(&match->firsts, &match->parts, begin, end))
			continue;
		ARRAY_GROW(match->starts, match->n_starts);
		match->starts[match->n_starts++] = begin;
	}
}

/* Returns the place after the last dot of the first n bytes; 0: there is none. */
static size_t last_segment(const struct module *module, size_t n)
{
	const char *dot = memrchr(module->text, '.', n);

	return dot ? (size_t)(dot - module->text) + 1 : 0;
}

/* Begins where the module differs from the one before. */
static const char *ask(struct skip_match *match, const char *text, bool listed)
{
	struct module module = { .text = text, .n = strlen(text), .listed = listed };
	const struct module *last = &match->last;
	size_t known = part_set_read(&match->parts, text, module.n);
	const char *entry;

	known = last->missed && last->listed == listed ? last_segment(&module, known) : 0;
	if (last->experts + 1 < known && last->experts)
		module.experts = last->experts;
	else if (!listed)
		module.experts =
			experts_prefix(&module, last_segment(&module, known ? known - 1 : 0));
	if (module.experts && module.experts < known && module.experts != last->experts)
		known = 0; /* more parts that end there are sought than before */
	forget(match, known);
	find_starts(match, &module, known);
	module.known = known;
	entry = match_any(match, &module);
	module.missed = !entry;
	match->last = module;
	return entry;
}

const char *skip_match_conflict(struct skip_match *match, const char *module)
{
	return ask(match, module, false);
}

const char *skip_match_lists(struct skip_match *match, const char *module)
{
	return ask(match, module, true);
}
