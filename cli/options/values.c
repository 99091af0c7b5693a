/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/values.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/words.h"
#include "cli/peers.h"
#include "cli/place.h"
#include "cli/ranks.h"
#include "format/engine.h"
#include "recipe/static_amax.h"
#include "select/select.h"

#define MAX_COUNT 1024
#define MAX_LARGE 1000000000
#define MAX_PARTS 1000000

bool option_digits(const char *text, uint64_t *value, const char **end)
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

/* Multiplies by 10^K for "eK".  Returns false on overflow. */
static bool power_of_ten(const char **end, uint64_t *value)
{
	const char *rest;
	uint64_t power;

	if ((**end | 0x20) != 'e' || !option_digits(*end + 1, &power, &rest))
		return true;
	*end = rest;
	for (; power && *value; power--)
		if (__builtin_mul_overflow(*value, 10, value))
			return false;
	return true;
}

int option_number(const struct option_row *option, const char *text, uint64_t min, uint64_t max,
		  uint64_t *value, struct err *err)
{
	const char *end;

	if (!option_digits(text, value, &end) || !power_of_ten(&end, value) || *end ||
	    *value < min || *value > max)
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is not a number from %" PRIu64 " to %" PRIu64,
			       option->name, text, min, max);
	return 0;
}

static int read_int(const struct option_row *option, const char *value, uint64_t max, int *n,
		    struct err *err)
{
	uint64_t number = 0;

	if (option_number(option, value, 1, max, &number, err))
		return -1;
	*n = (int)number;
	return 0;
}

int option_count(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return read_int(option, value, MAX_COUNT, place, err);
}

int option_large(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return read_int(option, value, MAX_LARGE, place, err);
}

int option_positive(const struct option_row *option, const char *value, void *place,
		    struct err *err)
{
	char *end;
	double number = strtod(value, &end);

	if (end == value || *end || !(number > 0) || !isfinite(number))
		return err_set(err, ERR_USAGE, "option '--%s': '%s' is not a number above 0",
			       option->name, value);
	*(double *)place = number;
	return 0;
}

/* Returns what "K", "KB" or "KiB" multiplies by; -1 if the unit is unknown.  base: of all units
 * that do not end in "iB". */
static double unit_bytes(const char *unit, double base)
{
	static const char letters[] = "KMGT";
	const char *letter = *unit ? strchr(letters, *unit & ~0x20) : NULL;

	if (!*unit)
		return 1;
	if (!letter || !*letter)
		return -1;
	if (unit[1] && strcasecmp(unit + 1, "b") != 0 && strcasecmp(unit + 1, "ib") != 0)
		return -1;
	return pow(unit[1] && unit[2] ? 1024 : base, (double)(letter - letters + 1));
}

static int read_size(const struct option_row *option, const char *value, double base,
		     uint64_t *size, struct err *err)
{
	char *end;
	double n = strtod(value, &end);
	bool decimal = isdigit((unsigned char)*value) && !strpbrk(value, "xX");
	double unit = decimal && n > 0 ? unit_bytes(end, base) : -1;
	double bytes = n * unit;

	/* a fraction of a byte is a slip of the unit; 2^53: each integer below it is a double */
	if (unit < 0 || (unit == 1 && n != floor(n)) || !(bytes >= 1 && bytes <= 0x1p53))
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is not a size (bytes, or a number with K, M, G "
			       "or T: 512M, 1.5G)",
			       option->name, value);
	*size = (uint64_t)bytes;
	return 0;
}

int option_size(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return read_size(option, value, 1024, place, err);
}

int option_decimal_size(const struct option_row *option, const char *value, void *place,
			struct err *err)
{
	return read_size(option, value, 1000, place, err);
}

static int devices_refuse(const struct option_row *option, const char *value, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "option '--%s': '%s' is not a list of devices (numbers below %d, such as "
		       "0,1,3, or all)",
		       option->name, value, MAX_DEVICES);
}

static int device_add(const struct option_row *option, struct device_list *list, uint64_t number,
		      struct err *err)
{
	for (int i = 0; i < list->n; i++)
		if (list->numbers[i] == (int)number)
			return err_set(err, ERR_USAGE,
				       "option '--%s': duplicate device %d: give each one once",
				       option->name, list->numbers[i]);
	list->numbers[list->n++] = (int)number;
	return 0;
}

int option_devices(const struct option_row *option, const char *value, void *place, struct err *err)
{
	struct device_list *list = place;
	const char *at = value;
	uint64_t number;

	*list = (struct device_list){ .all = !strcmp(value, "all") };
	while (!list->all) {
		if (!option_digits(at, &number, &at) || number >= MAX_DEVICES ||
		    (*at && *at != ','))
			return devices_refuse(option, value, err);
		if (device_add(option, list, number, err))
			return -1;
		if (!*at++)
			break;
	}
	return 0;
}

/* Splits "a|b|c" into words, NULL at the end.  Allocates one array and one text. */
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

static int choice_refuse(const struct option_row *option, const char *text,
			 const char *const *names, struct err *err)
{
	const char *nearest = words_nearest(text, names);
	struct buf list = { 0 };

	for (size_t i = 0; names[i]; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", names[i]);
	if (nearest)
		buf_printf(&list, " (did you mean '%s'?)", nearest);
	err_set(err, ERR_USAGE, "option '--%s': '%s' is not one of %s", option->name, text,
		list.data);
	buf_release(&list);
	return -1;
}

int option_choice(const struct option_row *option, const char *value, void *place, struct err *err)
{
	char *storage;
	const char **names = choices_split(option->arg, &storage);
	const char *peer = peer_word(PEER_VALUE, value);
	int rc = -1;

	for (int i = 0; names[i] && rc; i++) {
		if (strcmp(names[i], peer ? peer : value) != 0)
			continue;
		*(int *)place = i;
		rc = 0;
	}
	if (rc)
		choice_refuse(option, value, names, err);
	free(names);
	free(storage);
	return rc;
}

int option_text(const struct option_row *option, const char *value, void *place, struct err *err)
{
	const char *peer = strchr(option->arg, '|') ? peer_word(PEER_VALUE, value) : NULL;
	int index;

	*(const char **)place = peer ? peer : value;
	return strchr(option->arg, '|') ? option_choice(option, value, &index, err) : 0;
}

int option_output(const struct option_row *option, const char *value, void *place, struct err *err)
{
	*(const char **)place = value;
	if (!*value)
		return err_set(err, ERR_USAGE, "option '--%s' is empty: give a name", option->name);
	if (!strncmp(value, "--", 2))
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is an option, not a name (or give ./%s)",
			       option->name, value, value);
	if (strstr(value, "://"))
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is an address: name a directory or file here, "
			       "and copy it there ('hf upload')",
			       option->name, value);
	if (strcmp(value, "~") != 0 && strncmp(value, "~/", 2) != 0)
		return 0;
	return err_set(err, ERR_USAGE,
		       "option '--%s': '%s' would be in a directory named '~', which the shell "
		       "replaces at the start of a word only: give '--%s %s', or $HOME",
		       option->name, value, option->name, value);
}

int option_new_file(const struct option_row *option, const char *value, void *place,
		    struct err *err)
{
	if (option_output(option, value, place, err))
		return -1;
	return strcmp(value, "-") ? 0
				  : err_set(err, ERR_USAGE,
					    "option '--%s': '-' (standard output) is not supported "
					    "here: name a file or directory",
					    option->name);
}

int option_flag(const struct option_row *option, const char *value, void *place, struct err *err)
{
	(void)option, (void)value, (void)err;
	*(bool *)place = true;
	return 0;
}

int option_append(const struct option_row *option, const char *value, void *place, struct err *err)
{
	struct texts *texts = place;

	(void)option, (void)err;
	ARRAY_GROW(texts->list, texts->n);
	texts->list[texts->n++] = value;
	return 0;
}

/* Fails for a kind of FP8 as the name of a recipe, which many users try first. */
static int all_are_fp8(const struct option_row *option, const char *value, struct err *err)
{
	struct buf list = { 0 };

	for (size_t i = 0; recipes[i]; i++)
		buf_printf(&list, "%s%s", i ? ", " : "", recipes[i]->name);
	err_set(err, ERR_USAGE,
		"option '--%s': '%s' is not a recipe (every recipe makes FP8): "
		"choose one of %s; blockwise is the default, channelwise accepts "
		"matrices of any shape (see 'fp8conv recipes')",
		option->name, value, list.data);
	buf_release(&list);
	return -1;
}

static int other_than_fp8(const struct option_row *option, const char *value, struct err *err)
{
	return err_set(err, ERR_USAGE,
		       "option '--%s': '%s' is not FP8, which is all that fp8conv writes: use %s",
		       option->name, value, peer_tool(value));
}

int option_recipe(const struct option_row *option, const char *value, void *place, struct err *err)
{
	const char *peer = peer_word(PEER_RECIPE, value);
	const char **name = place;

	*name = peer ? peer : value;
	for (size_t i = 0; recipes[i]; i++)
		if (!strcasecmp(recipes[i]->name, *name)) {
			*name = recipes[i]->name;
			return 0;
		}
	if (peer_tool(value))
		return other_than_fp8(option, value, err);
	if (strcasestr(value, "fp8") || strcasestr(value, "float8") || strcasestr(value, "e4m3"))
		return all_are_fp8(option, value, err);
	recipe_find(value, err);
	return err_wrap(err, "option '--%s'", option->name);
}

int option_format(const struct option_row *option, const char *value, void *place, struct err *err)
{
	const char *peer = peer_word(PEER_FORMAT, value);

	*(const char **)place = peer ? peer : value;
	if (peer_tool(value))
		return other_than_fp8(option, value, err);
	for (int i = ENGINE_VLLM; i < N_ENGINES; i++)
		if (!strcasecmp(engine_name((enum engine)i), value))
			return err_set(err, ERR_USAGE,
				       "option '--%s': '%s' is an engine: give --target %s",
				       option->name, value, engine_name((enum engine)i));
	return 0;
}

int option_target(const struct option_row *option, const char *value, void *place, struct err *err)
{
	const char *peer = peer_word(PEER_TARGET, value);
	const char **name = place;

	for (int i = ENGINE_VLLM; i < N_ENGINES; i++)
		if (!strcasecmp(engine_name((enum engine)i), peer ? peer : value)) {
			*name = engine_name((enum engine)i);
			return 0;
		}
	return option_text(option, value, place, err);
}

int option_amax_algo(const struct option_row *option, const char *value, void *place,
		     struct err *err)
{
	struct static_choice choice;

	(void)option;
	*(const char **)place = value;
	return static_choice_read(&choice, "--amax-algo", value, err);
}

/* Splits the value at the last '='. */
int option_append_rule(const struct option_row *option, const char *value, void *place,
		       struct err *err)
{
	struct select_rules *rules = place;
	const char *equals = strrchr(value, '=');
	struct select_rule rule = { 0 };
	const char *recipe;

	if (!equals || equals == value || !equals[1])
		return err_set(err, ERR_USAGE, "option '--%s': '%s' is not RE=RECIPE or RE=skip",
			       option->name, value);
	if (strcmp(equals + 1, "skip") != 0) {
		if (option_recipe(option, equals + 1, &recipe, err))
			return -1;
		rule.recipe = recipe_find(recipe, err);
	}
	rule.pattern = xstrndup(value, (size_t)(equals - value));
	ARRAY_GROW(rules->list, rules->n);
	rules->list[rules->n++] = rule;
	return 0;
}

void option_release(const struct option_row *option, void *place)
{
	struct texts *texts = place;
	struct select_rules *rules = place;

	if (option->read == option_append)
		free(texts->list);
	if (option->read != option_append_rule)
		return;
	for (size_t i = 0; i < rules->n; i++)
		free((char *)rules->list[i].pattern);
	free(rules->list);
}

/* Reads "auto", or "auto/N" where the engine does not tell the number of tasks. */
static int auto_part(const struct option_row *option, const char *text, int *part, int *n_parts,
		     struct err *err)
{
	const char *end = text + strlen("auto");
	struct task_place place;
	uint64_t n = 0;

	if (*end && (!option_digits(end + 1, &n, &end) || *end || n < 1 || n > MAX_PARTS))
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is not auto/N with N from 1 to %d",
			       option->name, text, MAX_PARTS);
	if (place_find(&place, n, err))
		return err_wrap(err, "option '--%s': '%s'", option->name, text);
	*part = (int)place.index + 1;
	*n_parts = (int)place.n;
	return 0;
}

/* Reads "I/N", "auto" or "auto/N"; `others` names them, and what else the option takes. */
static int read_place(const struct option_row *option, const char *text, int *part, int *n_parts,
		      const char *others, struct err *err)
{
	const char *end;
	uint64_t i, n;

	if (!strncmp(text, "auto", 4) && (!text[4] || text[4] == '/'))
		return auto_part(option, text, part, n_parts, err);
	if (!option_digits(text, &i, &end) || *end != '/' || !option_digits(end + 1, &n, &end) ||
	    *end || i < 1 || i > n || n > MAX_PARTS)
		return err_set(err, ERR_USAGE,
			       "option '--%s': '%s' is not I/N with I from 1 to N%s", option->name,
			       text, others);
	*part = (int)i;
	*n_parts = (int)n;
	return 0;
}

int option_part(const struct option_row *option, const char *text, int *part, int *n_parts,
		bool *finish, struct err *err)
{
	*finish = strcmp(text, "finish") == 0;
	if (*finish)
		return 0;
	return read_place(option, text, part, n_parts, ", 'auto' or 'finish'", err);
}

int option_rank(const struct option_row *option, const char *text, void *place, struct err *err)
{
	int *rank = place;

	rank[0] = rank[1] = 0;
	if (!strcmp(text, "mpi")) {
		rank[0] = RANKS_MPI;
		return 0;
	}
	return read_place(option, text, &rank[0], &rank[1], ", 'auto' or 'mpi'", err);
}

int option_mpi(const struct option_row *option, const char *text, void *place, struct err *err)
{
	bool *wanted = place;

	if (strcmp(text, "mpi") != 0)
		return err_set(err, ERR_USAGE, "option '--%s': '%s' is not 'mpi'", option->name,
			       text);
	*wanted = true;
	return 0;
}
