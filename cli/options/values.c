/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/values.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/words.h"

#define MAX_PARTS 1000000

/* Reads digits; *end is behind them.  False: none, or more than 64 bits. */
static bool digits(const char *text, uint64_t *value, const char **end)
{
	uint64_t n = 0;
	const char *p = text;

	for (; *p >= '0' && *p <= '9'; p++) {
		uint64_t digit = (uint64_t)(*p - '0');

		if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, digit, &n))
			return false;
	}
	*value = n;
	*end = p;
	return p > text;
}

int opt_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *value,
	       struct err *err)
{
	const char *end;

	if (!digits(text, value, &end) || *end || *value < min || *value > max)
		return err_set(err, ERR_USAGE,
			       "option '%s': '%s' is not a number from %llu to %llu", option, text,
			       (unsigned long long)min, (unsigned long long)max);
	return 0;
}

int opt_size(const char *option, const char *text, uint64_t *bytes, struct err *err)
{
	static const char suffixes[] = "KMG";
	const char *end, *suffix;
	uint64_t n;
	unsigned shift = 0;

	if (!digits(text, &n, &end))
		goto bad;
	if (*end) {
		suffix = strchr(suffixes, *end & ~0x20);
		if (!suffix || !*suffix || end[1])
			goto bad;
		shift = 10 * (unsigned)(suffix - suffixes + 1);
	}
	if (n == 0 || n > UINT64_MAX >> shift)
		goto bad;
	*bytes = n << shift;
	return 0;
bad:
	return err_set(err, ERR_USAGE,
		       "option '%s': '%s' is not a size (bytes, or with K, M or G behind the "
		       "number: 512M)",
		       option, text);
}

/* The words of "a|b|c", NULL at the end.  One allocation for the array, one for the text. */
static const char **choices_split(const char *choices, char **text)
{
	const char **names = NULL;
	size_t n = 0;
	char *p = *text = xstrdup(choices);

	while (p) {
		char *bar = strchr(p, '|');

		if (bar)
			*bar++ = '\0';
		ARRAY_GROW(names, n);
		names[n++] = p;
		p = bar;
	}
	ARRAY_GROW(names, n);
	names[n] = NULL;
	return names;
}

static int choice_refuse(const char *option, const char *text, const char *const *names,
			 struct err *err)
{
	const char *nearest = words_nearest(text, names);
	struct buf list = { 0 };

	for (size_t i = 0; names[i]; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
	if (nearest)
		err_set(err, ERR_USAGE, "option '%s': '%s' is not one of %s (did you mean '%s'?)",
			option, text, list.data, nearest);
	else
		err_set(err, ERR_USAGE, "option '%s': '%s' is not one of %s", option, text,
			list.data);
	buf_release(&list);
	return -1;
}

int opt_choice(const char *option, const char *text, const char *choices, int *index,
	       struct err *err)
{
	char *storage;
	const char **names = choices_split(choices, &storage);
	int rc = -1;

	for (int i = 0; names[i] && rc; i++) {
		if (strcmp(names[i], text) != 0)
			continue;
		*index = i;
		rc = 0;
	}
	if (rc)
		choice_refuse(option, text, names, err);
	free(names);
	free(storage);
	return rc;
}

const struct recipe *opt_recipe(const char *option, const char *name, struct err *err)
{
	const struct recipe *recipe = recipe_find(name, err);

	if (!recipe)
		err_wrap(err, "option '%s'", option);
	return recipe;
}

int opt_rule(const char *option, const char *text, struct select_rule *rule, struct err *err)
{
	const char *equals = strrchr(text, '=');

	if (!equals || equals == text || !equals[1])
		return err_set(err, ERR_USAGE, "option '%s': '%s' is not RE=RECIPE or RE=skip",
			       option, text);
	rule->recipe = NULL;
	if (strcmp(equals + 1, "skip") != 0) {
		rule->recipe = opt_recipe(option, equals + 1, err);
		if (!rule->recipe)
			return -1;
	}
	rule->pattern = xstrndup(text, (size_t)(equals - text));
	return 0;
}

int opt_part(const char *option, const char *text, int *part, int *n_parts, bool *finish,
	     struct err *err)
{
	const char *end;
	uint64_t i, n;

	*finish = strcmp(text, "finish") == 0;
	if (*finish)
		return 0;
	if (!digits(text, &i, &end) || *end != '/' || !digits(end + 1, &n, &end) || *end || i < 1 ||
	    i > n || n > MAX_PARTS)
		return err_set(err, ERR_USAGE,
			       "option '%s': '%s' is not I/N with I from 1 to N, or 'finish'",
			       option, text);
	*part = (int)i;
	*n_parts = (int)n;
	return 0;
}

const char *opt_temp_dir(void)
{
	const char *dir = getenv("TMPDIR");

	return dir && *dir ? dir : "/tmp";
}

int online_cpus(void)
{
	cpu_set_t set;
	long n;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return CPU_COUNT(&set);
	n = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
	return n < 1 ? 1 : n > 1024 ? 1024 : (int)n;
}
