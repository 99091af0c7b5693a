/* SPDX-License-Identifier: Apache-2.0
 *
 * The supported normalizers and pre-tokenizers, a row each.
 */
#include <string.h>

#include <uninorm.h>

#include "tokenizer/json.h"
#include "tokenizer/step.h"
#include "tokenizer/unicode.h"

/* GPT-2's pattern, copied from the tokenizers package. */
#define GPT2_PATTERN                                                                     \
	"'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|" \
	"\\s+"

/* \w of Rust's regex crate. */
#define RUST_WORD "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\x{200c}\\x{200d}"

/* A component: its JSON and, for messages, its place in the file. */
struct component {
	const json_t *json;
	char where[112];
	const struct component_type *type; /* NULL: not known yet */
};

/* Reads the members of a component, and adds its steps. */
struct component_type {
	const char *name;
	int (*read)(struct steps *steps, const struct component *component, struct err *err);
	step_fn *rewrite; /* of components without members */
	const void *form;
};

static struct step *new_step(struct steps *steps, step_fn *rewrite, const char *content, size_t len)
{
	struct step *step = &steps->step[steps->n++];

	*step = (struct step){ .rewrite = rewrite, .behavior = ISOLATED };
	buf_add(&step->content, content, len);
	return step;
}

static int room_for(const struct steps *steps, size_t n, const struct component *component,
		    struct err *err)
{
	if (steps->n + n <= MAX_STEPS)
		return 0;
	return err_set(err, ERR_INPUT, "%s exceeds the limit of %d steps", component->where,
		       MAX_STEPS - 4);
}

/* Adds a split by a pattern in PCRE2's syntax. */
static int add_split(struct steps *steps, const struct component *component, const char *pattern,
		     enum behavior behavior, struct err *err)
{
	struct buf text = { 0 };
	struct step *step = new_step(steps, NULL, "", 0);
	int rc;

	buf_puts(&text, pattern);
	step->behavior = behavior;
	rc = regex_new(&step->regex, &text, err);
	buf_release(&text);
	return rc ? err_wrap(err, "%s", component->where) : 0;
}

static int read_behavior(const struct component *component, const char *fallback,
			 enum behavior *behavior, struct err *err)
{
	static const char *const names[] = {
		[REMOVED] = "Removed",
		[ISOLATED] = "Isolated",
		[MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
		[MERGED_WITH_NEXT] = "MergedWithNext",
		[CONTIGUOUS] = "Contiguous",
	};
	const char *name = fallback;

	if (!fallback || json_object_get(component->json, "behavior"))
		name = json_member_string(component->json, component->where, "behavior", NULL, err);
	if (!name)
		return -1;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!strcmp(name, names[i])) {
			*behavior = (enum behavior)i;
			return 0;
		}
	}
	return err_set(err, ERR_INPUT, "%s has unknown behavior '%s'", component->where, name);
}

/* Reads "pattern": {"String": ...} or {"Regex": ...}. */
static int read_pattern(struct step *step, const struct component *component, struct err *err)
{
	const json_t *pattern = json_object_get(component->json, "pattern");
	const json_t *string = json_object_get(pattern, "String");
	const json_t *regex = json_object_get(pattern, "Regex");
	const json_t *text = string ? string : regex;
	struct buf translated = { 0 };
	int rc = 0;

	if (json_object_size(pattern) != 1 || !json_is_string(text))
		return err_set(err, ERR_INPUT, "%s has no 'pattern' with one 'String' or 'Regex'",
			       component->where);
	if (string)
		regex_quote(json_string_value(text), json_string_length(text), &translated);
	else
		rc = regex_translate(json_string_value(text), json_string_length(text), &translated,
				     err);
	if (!rc)
		rc = regex_new(&step->regex, &translated, err);
	buf_release(&translated);
	return rc ? err_wrap(err, "pattern '%s' of %s", json_string_value(text), component->where)
		  : 0;
}

/* A component that has no members: one step. */
static int read_rewrite(struct steps *steps, const struct component *component, struct err *err)
{
	(void)err;
	new_step(steps, component->type->rewrite, "", 0)->form = component->type->form;
	return 0;
}

static int read_strip(struct steps *steps, const struct component *component, struct err *err)
{
	struct step *step = new_step(steps, step_strip, "", 0);

	if (json_member_bool(component->json, component->where, "strip_left", -1, &step->left, err))
		return -1;
	return json_member_bool(component->json, component->where, "strip_right", -1, &step->right,
				err);
}

static int read_prepend(struct steps *steps, const struct component *component, struct err *err)
{
	size_t len;
	const char *text =
		json_member_string(component->json, component->where, "prepend", &len, err);

	if (!text)
		return -1;
	if (!len)
		return err_set(err, ERR_INPUT, "%s has an empty 'prepend', which is unsupported",
			       component->where);
	new_step(steps, step_prepend, text, len);
	return 0;
}

static int read_replace(struct steps *steps, const struct component *component, struct err *err)
{
	size_t len;
	const char *text =
		json_member_string(component->json, component->where, "content", &len, err);

	if (!text)
		return -1;
	return read_pattern(new_step(steps, step_replace, text, len), component, err);
}

static int read_split(struct steps *steps, const struct component *component, struct err *err)
{
	struct step *step = new_step(steps, NULL, "", 0);

	if (read_behavior(component, NULL, &step->behavior, err) ||
	    json_member_bool(component->json, component->where, "invert", -1, &step->invert, err))
		return -1;
	return read_pattern(step, component, err);
}

static int read_byte_level(struct steps *steps, const struct component *component, struct err *err)
{
	bool prefix, use_regex;

	if (json_member_bool(component->json, component->where, "add_prefix_space", -1, &prefix,
			     err) ||
	    json_member_bool(component->json, component->where, "use_regex", true, &use_regex, err))
		return -1;
	if (prefix)
		new_step(steps, step_prepend_once, " ", 1);
	if (use_regex && add_split(steps, component, GPT2_PATTERN, ISOLATED, err))
		return -1;
	new_step(steps, step_bytes, "", 0);
	return 0;
}

static int read_digits(struct steps *steps, const struct component *component, struct err *err)
{
	bool individual;

	if (json_member_bool(component->json, component->where, "individual_digits", -1,
			     &individual, err))
		return -1;
	return add_split(steps, component, "\\p{N}", individual ? ISOLATED : CONTIGUOUS, err);
}

static int read_punctuation(struct steps *steps, const struct component *component, struct err *err)
{
	enum behavior behavior;

	if (read_behavior(component, "Isolated", &behavior, err))
		return -1;
	return add_split(steps, component, "[!-/:-@\\[-`{-~\\p{P}]", behavior, err);
}

static int read_whitespace_split(struct steps *steps, const struct component *component,
				 struct err *err)
{
	return add_split(steps, component, "\\s", REMOVED, err);
}

static int read_whitespace(struct steps *steps, const struct component *component, struct err *err)
{
	if (add_split(steps, component, "[" RUST_WORD "]+|[^" RUST_WORD "\\s]+", REMOVED, err))
		return -1;
	steps->step[steps->n - 1].invert = true;
	return 0;
}

/* Reads when to prepend the replacement; add_prefix_space is the older key. */
static int read_scheme(const struct component *component, const char **scheme, struct err *err)
{
	bool prefix;

	*scheme = "always";
	if (json_member_bool(component->json, component->where, "add_prefix_space", true, &prefix,
			     err))
		return -1;
	if (json_object_get(component->json, "prepend_scheme"))
		*scheme = json_member_string(component->json, component->where, "prepend_scheme",
					     NULL, err);
	else if (!prefix)
		*scheme = "never";
	if (!*scheme)
		return -1;
	if (strcmp(*scheme, "always") != 0 && strcmp(*scheme, "first") != 0 &&
	    strcmp(*scheme, "never") != 0)
		return err_set(err, ERR_INPUT, "%s has unknown prepend_scheme '%s'",
			       component->where, *scheme);
	if (!prefix && strcmp(*scheme, "never") != 0)
		return err_set(err, ERR_INPUT,
			       "%s has add_prefix_space false and prepend_scheme '%s'",
			       component->where, *scheme);
	return 0;
}

static int read_metaspace(struct steps *steps, const struct component *component, struct err *err)
{
	struct buf pattern = { 0 };
	const char *replacement, *scheme;
	bool split;
	size_t len;
	int rc = 0;

	replacement =
		json_member_string(component->json, component->where, "replacement", &len, err);
	if (!replacement || read_scheme(component, &scheme, err) ||
	    json_member_bool(component->json, component->where, "split", true, &split, err))
		return -1;
	if (!len || utf8_size(replacement[0]) != len)
		return err_set(err, ERR_INPUT, "%s has a 'replacement' that is not one character",
			       component->where);
	buf_puts(&pattern, " ");
	rc = regex_new(&new_step(steps, step_replace, replacement, len)->regex, &pattern, err);
	if (!rc && strcmp(scheme, "never") != 0)
		new_step(steps, step_prepend_once, replacement, len)->only_first =
			!strcmp(scheme, "first");
	pattern.len = 0;
	regex_quote(replacement, len, &pattern);
	if (!rc && split)
		rc = add_split(steps, component, pattern.data, MERGED_WITH_NEXT, err);
	buf_release(&pattern);
	return rc;
}

static const struct component_type normalizers[] = {
	{ "NFC", read_rewrite, step_normalize, &uninorm_nfc },
	{ "NFD", read_rewrite, step_normalize, &uninorm_nfd },
	{ "NFKC", read_rewrite, step_normalize, &uninorm_nfkc },
	{ "NFKD", read_rewrite, step_normalize, &uninorm_nfkd },
	{ "Lowercase", read_rewrite, step_lowercase, NULL },
	{ "Strip", .read = read_strip },
	{ "StripAccents", read_rewrite, step_strip_marks, NULL },
	{ "Prepend", .read = read_prepend },
	{ "Replace", .read = read_replace },
	{ "ByteLevel", read_rewrite, step_bytes, NULL },
	{ 0 },
};

static const struct component_type pre_tokenizers[] = {
	{ "ByteLevel", .read = read_byte_level },
	{ "Split", .read = read_split },
	{ "Digits", .read = read_digits },
	{ "Metaspace", .read = read_metaspace },
	{ "Whitespace", .read = read_whitespace },
	{ "WhitespaceSplit", .read = read_whitespace_split },
	{ "Punctuation", .read = read_punctuation },
	{ 0 },
};

static int read_component(struct steps *steps, const struct component_type *types,
			  struct component *component, const char *type, struct err *err)
{
	for (; types->name; types++) {
		if (strcmp(type, types->name) != 0)
			continue;
		if (room_for(steps, 3, component, err))
			return -1;
		component->type = types;
		return types->read(steps, component, err);
	}
	return err_set(err, ERR_INPUT, "%s has unsupported type '%s'", component->where, type);
}

/* Components to read, the next one last.  A Sequence is replaced by its members. */
struct agenda {
	struct component component[MAX_STEPS];
	size_t n;
};

static int open_sequence(struct agenda *agenda, const struct component *sequence,
			 const char *members, struct err *err)
{
	const json_t *list = json_member_array(sequence->json, sequence->where, members, err);
	size_t n = json_array_size(list);

	if (!list)
		return -1;
	if (n > MAX_STEPS - agenda->n)
		return err_set(err, ERR_INPUT, "%s has more than %d members", sequence->where,
			       MAX_STEPS);
	for (size_t i = n; i-- > 0; agenda->n++) {
		struct component *next = &agenda->component[agenda->n];

		next->json = json_array_get(list, i);
		snprintf(next->where, sizeof next->where, "%.88s[%zu]", sequence->where, i);
	}
	return 0;
}

static int read_steps(struct steps *steps, const json_t *json, const char *key, const char *members,
		      const struct component_type *types, struct err *err)
{
	struct agenda agenda = { .component[0].json = json, .n = 1 };

	if (!json || json_is_null(json))
		return 0;
	snprintf(agenda.component[0].where, sizeof agenda.component[0].where, "%s", key);
	for (size_t n_read = 0; agenda.n; n_read++) {
		struct component component = agenda.component[--agenda.n];
		const char *type =
			json_member_string(component.json, component.where, "type", NULL, err);

		if (!type)
			return -1;
		if (n_read / 4 == MAX_STEPS)
			return err_set(err, ERR_INPUT, "%s has too many members", key);
		if (!strcmp(type, "Sequence") ? open_sequence(&agenda, &component, members, err)
					      : read_component(steps, types, &component, type, err))
			return -1;
	}
	return 0;
}

int steps_read_normalizer(struct steps *steps, const json_t *json, struct err *err)
{
	return read_steps(steps, json, "normalizer", "normalizers", normalizers, err);
}

int steps_read_pre_tokenizer(struct steps *steps, const json_t *json, struct err *err)
{
	return read_steps(steps, json, "pre_tokenizer", "pretokenizers", pre_tokenizers, err);
}
