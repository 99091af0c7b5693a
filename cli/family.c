/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/family.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static bool has_family(const struct families *families, const char *name)
{
	for (size_t i = 0; i < families->n; i++)
		if (!strcmp(families->list[i].name, name))
			return true;
	return false;
}

/* Is the row about names alone, and decides nothing? */
static bool is_name(const struct profile_row *row)
{
	return row->action == PROFILE_NAME || row->action == PROFILE_ENTRY;
}

static void add(struct families *families, const char *name, const struct arch *arch,
		const struct profile *profile)
{
	struct family family = { .name = xstrdup(name), .arch = arch };

	for (size_t i = 0; i < profile->n; i++) {
		const struct profile_row *row = profile->rows[i];

		family.has_rows |= !is_name(row);
		if (row->action == PROFILE_NOT_LOADED && !strcmp(row->pattern, "*") &&
		    !(row->on & (ON_RECIPES | ON_FORMATS)))
			family.refusing |= row->on & FOR_ENGINES;
	}
	ARRAY_GROW(families->list, families->n);
	families->list[families->n++] = family;
}

/* Finds the rows of a name, as if it were in a config.json. */
static void find_rows(struct profile *profile, const char *name)
{
	struct model_config config = { .model_types = { xstrdup(name) }, .n_model_types = 1 };

	profile_make(profile, &config, PROFILE_VENDOR);
	model_config_release(&config);
}

static void add_name(struct families *families, const char *name)
{
	struct profile profile;

	if (has_family(families, name))
		return;
	find_rows(&profile, name);
	add(families, name, arch_named(name), &profile);
	profile_release(&profile);
}

void families_all(struct families *families)
{
	*families = (struct families){ 0 };
	for (size_t i = 0; archs[i]; i++)
		add_name(families, archs[i]->name);
	for (const struct profile_row *row = profile_rows; row->families; row++) {
		char *names = xstrdup(row->families), *rest = names;

		for (char *name; !is_name(row) && (name = strsep(&rest, " "));)
			add_name(families, name);
		free(names);
		ARRAY_GROW(families->profile.rows, families->profile.n);
		families->profile.rows[families->profile.n++] = row;
	}
}

void families_one(struct families *families, const char *name)
{
	*families = (struct families){ 0 };
	find_rows(&families->profile, name);
	add(families, name, arch_named(name), &families->profile);
}

void families_of_model(struct families *families, const struct model_config *config)
{
	const char *class = config->architecture ? config->architecture : "";

	*families = (struct families){ 0 };
	profile_make(&families->profile, config, PROFILE_VENDOR);
	add(families, config->n_model_types ? config->model_types[0] : class, arch_of(config),
	    &families->profile);
}

void families_release(struct families *families)
{
	for (size_t i = 0; i < families->n; i++)
		free(families->list[i].name);
	free(families->list);
	profile_release(&families->profile);
	*families = (struct families){ 0 };
}
