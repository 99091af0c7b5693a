/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/options/option.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/options/values.h"

#define MAX_COUNT 1024
#define MAX_LARGE 1000000000

struct option_spelling option_written(const struct option_row *option)
{
	struct option_spelling spelling;

	snprintf(spelling.text, sizeof spelling.text, "--%s", option->name);
	return spelling;
}

int option_choice(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return opt_choice(option_written(option).text, value, option->arg, place, err);
}

int option_text(const struct option_row *option, const char *value, void *place, struct err *err)
{
	int index;

	*(const char **)place = value;
	return strchr(option->arg, '|') ? option_choice(option, value, &index, err) : 0;
}

int option_flag(const struct option_row *option, const char *value, void *place, struct err *err)
{
	(void)option, (void)value, (void)err;
	*(bool *)place = true;
	return 0;
}

static int read_int(const struct option_row *option, const char *value, uint64_t max, int *n,
		    struct err *err)
{
	uint64_t number;

	if (opt_number(option_written(option).text, value, 1, max, &number, err))
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

int option_bytes(const struct option_row *option, const char *value, void *place, struct err *err)
{
	return opt_size(option_written(option).text, value, place, err);
}

int option_many(const struct option_row *option, const char *value, void *place, struct err *err)
{
	struct option_list *list = place;

	(void)option, (void)err;
	ARRAY_GROW(list->texts, list->n);
	list->texts[list->n++] = value;
	return 0;
}

int option_rules(const struct option_row *option, const char *value, void *place, struct err *err)
{
	struct option_rules *list = place;
	struct select_rule rule;

	if (opt_rule(option_written(option).text, value, &rule, err))
		return -1;
	ARRAY_GROW(list->rules, list->n);
	list->rules[list->n++] = rule;
	return 0;
}

bool option_repeats(const struct option_row *option)
{
	return option->read == option_many || option->read == option_rules;
}

int option_recipe(const struct option_row *option, const char *value, void *place, struct err *err)
{
	*(const char **)place = value;
	return opt_recipe(option_written(option).text, value, err) ? 0 : -1;
}
