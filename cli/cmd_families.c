/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv families: what model families ask for beyond the general rules, from the table that
 * quantize uses.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/io.h"
#include "base/mem.h"
#include "ckpt/checkpoint.h"
#include "ckpt/mistaken.h"
#include "cli/command.h"
#include "cli/options/values.h"
#include "cli/print/families.h"

#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a config.json */

struct settings {
	const char *family; /* or a model; NULL: all families */
	bool json;
};

static const struct option_row argument = { .name = "FAMILY",
					    .arg = "MODEL",
					    .read = option_text,
					    .offset = offsetof(struct settings, family) };

static bool is_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int read_model(struct model_config *config, const char *directory, struct err *err)
{
	struct buf text = { 0 };
	struct stat status;
	char *path;
	int rc;

	if (stat(directory, &status) && errno == ENOENT)
		return mistaken_name(directory, err);
	path = xasprintf("%s/" CONFIG_NAME, directory);
	rc = io_read_file(&io_system, AT_FDCWD, path, CONFIG_MAX, &text, err);
	if (rc == 0)
		rc = model_config_read(config, &text, err);
	buf_release(&text);
	free(path);
	return rc;
}

/* Takes the rows of a family; of a model, if no family of the table has that name. */
static int take_rows(struct profile *profile, const char *family, struct err *err)
{
	struct model_config config = { .model_types = { xstrdup(family) }, .n_model_types = 1 };

	profile_make(profile, &config, PROFILE_VENDOR);
	if (!profile->n && (strchr(family, '/') || is_directory(family))) {
		model_config_release(&config);
		profile_release(profile);
		if (read_model(&config, family, err))
			return -1;
		profile_make(profile, &config, PROFILE_VENDOR);
	}
	model_config_release(&config);
	return 0;
}

static void take_all(struct profile *profile)
{
	for (const struct profile_row *row = profile_rows; row->families; row++) {
		ARRAY_GROW(profile->rows, profile->n);
		profile->rows[profile->n++] = row;
	}
}

static int run(const struct command *command, int argc, char **argv, struct err *err)
{
	struct settings settings = { 0 };
	struct profile profile = { 0 };
	int rc = command_parse(command, argc, argv, &settings, err);

	if (rc)
		return rc < 0 ? -1 : 0;
	if (!settings.family)
		take_all(&profile);
	else if (take_rows(&profile, settings.family, err))
		return -1;
	(settings.json ? families_print_json : families_print_text)(&profile);
	if (!profile.n)
		fprintf(stderr,
			"fp8conv families: note: no row is about '%s': the general rules decide\n",
			settings.family);
	profile_release(&profile);
	return 0;
}

const struct command command_families = {
	.name = "families",
	.args = "[FAMILY|MODEL]",
	.summary = "List what model families ask for beyond the general rules, with sources",
	.group = GROUP_INFORMATION,
	.shared = { { facts_options, offsetof(struct settings, json) } },
	.argument = &argument,
	.optional = true,
	.run = run,
};
