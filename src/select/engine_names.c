/* SPDX-License-Identifier: Apache-2.0 */
#include "select/engine_names.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* OLD found in a name. */
struct found {
	const char *begin, *end;
	uint64_t number; /* of its "#" */
};

/* Whether the n bytes of OLD are at a place in the name, up to the end of a segment. */
static bool is_at(const char *old, size_t n, const char *place, struct found *found)
{
	found->begin = place;
	for (; n; n--, old++) {
		if (*old != '#') {
			if (*old != *place++)
				return false;
			continue;
		}
		if (!isdigit((unsigned char)*place))
			return false;
		found->number = strtoull(place, (char **)&place, 10);
	}
	found->end = place;
	return !*place || *place == '.';
}

static bool find_old(const char *old, size_t n, const char *module, struct found *found)
{
	const char *dot;

	if (*old == '^')
		return is_at(old + 1, n - 1, module, found);
	while (!is_at(old, n, module, found)) {
		dot = strchr(module, '.');
		if (!dot)
			return false;
		module = dot + 1;
	}
	return true;
}

char *engine_name_by(const struct profile *profile, const struct profile_row *row,
		     const char *module)
{
	const char *equals = strchr(row->pattern, '=');
	struct found found = { 0 };
	struct buf name = { 0 };

	if (!find_old(row->pattern, (size_t)(equals - row->pattern), module, &found))
		return NULL;
	buf_add(&name, module, (size_t)(found.begin - module));
	for (const char *new = equals + 1; *new; new ++) {
		bool adds = *new == '#' && new[1] == '+';

		if (*new != '#')
			buf_putc(&name, *new);
		else
			buf_printf(&name, "%" PRIu64,
				   found.number + (adds ? profile->n_layers : 0));
		new += adds;
	}
	buf_printf(&name, "%s", found.end);
	return name.data;
}

char *engine_name_of(const struct profile *profile, unsigned on, enum engine engine,
		     const char *module)
{
	const struct profile_row *row = NULL;
	char *name = NULL;

	on = (on & ~(unsigned)FOR_ENGINES) | profile_on_engine(engine);
	while (!name && (row = profile_next(profile, PROFILE_NAME, on, row)))
		if (row->on & FOR_ENGINES)
			name = engine_name_by(profile, row, module);
	return name;
}

/* Returns the entry of a row for a tensor: "#" becomes the first number of its path, and "re:" of
 * an expression is left out in hf. */
static char *entry_by(const struct profile_row *row, unsigned on, const char *tensor)
{
	bool marked = on & ON_HF && !strncmp(row->said, "re:", 3);
	struct buf entry = { 0 };
	size_t n;

	while (*tensor && !(*tensor >= '0' && *tensor <= '9'))
		tensor++;
	n = strspn(tensor, "0123456789");
	for (const char *at = row->said + (marked ? 3 : 0); *at; at++) {
		if (*at == '#')
			buf_add(&entry, tensor, n);
		else
			buf_putc(&entry, *at);
	}
	return entry.data;
}

char *engine_entry_of(const struct profile *profile, unsigned on, const char *tensor)
{
	const struct profile_row *row = NULL;
	int position;

	while ((row = profile_next(profile, PROFILE_ENTRY, on, row)))
		if (profile_pattern_matches(row->pattern, tensor, &position))
			return entry_by(row, on, tensor);
	return NULL;
}
