/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv families: what each command can do with model families, and what families ask for beyond
 * the general rules, from the tables that the commands use.
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
#include "cli/family.h"
#include "cli/options/run.h"
#include "cli/options/values.h"
#include "cli/print/families.h"
#include "cli/remote.h"
#include "cli/print/message.h"

#define CONFIG_MAX ((size_t)16 << 20) /* bytes of a config.json */

struct settings {
	const char *family; /* or a model; NULL: all families */
	struct run_settings run;
};

static bool is_directory(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static int read_model(struct model_config *config, const char *directory,
		      const struct run_settings *run, struct err *err)
{
	struct model_io model;
	struct buf text = { 0 };
	struct stat status;
	char *path;
	int rc;

	if (model_io_open(&model, &directory, NULL, run, err))
		return -1;
	path = xasprintf("%s/" CONFIG_NAME, directory);
	if (model.io->fstatat(model.io, AT_FDCWD, directory, &status, 0) && errno == ENOENT)
		rc = mistaken_name(directory, err);
	else
		rc = io_read_file(model.io, AT_FDCWD, path, CONFIG_MAX, &text, err);
	if (rc == 0)
		rc = model_config_read(config, &text, err);
	buf_release(&text);
	free(path);
	model_io_close(&model);
	return rc;
}

/* Takes a family; a model, if no table has a family of that name. */
static int take_one(struct families *families, const struct settings *settings, struct err *err)
{
	const char *name = settings->family;
	struct model_config config;

	families_one(families, name);
	if (families->list[0].has_rows || families->list[0].arch ||
	    !(strchr(name, '/') || is_directory(name)))
		return 0;
	families_release(families);
	if (read_model(&config, name, &settings->run, err))
		return -1;
	families_of_model(families, &config);
	model_config_release(&config);
	return 0;
}

static int run(void *place, struct err *err)
{
	const struct settings *settings = place;
	struct families families = { 0 };

	if (!settings->family)
		families_all(&families);
	else if (take_one(&families, settings, err))
		return -1;
	(settings->run.json ? families_print_json : families_print_text)(&families);
	if (!settings->run.quiet && !families.profile.n && !families.list[0].arch)
		message_note("no table names '%s': the general rules decide", settings->family);
	families_release(&families);
	return 0;
}

const struct command command_families = {
	.name = "families",
	.args = "[FAMILY|MODEL]",
	.summary = "List what can be done with model families, and what they ask for",
	.examples = { "fp8conv families", "fp8conv families qwen3_moe" },
	.group = GROUP_INFORMATION,
	.shared = { { report_options, PLACE(run) }, { source_options, PLACE(run) } },
	.argument = { SECTION_NONE, "FAMILY", 0, "MODEL", NULL, option_text, PLACE(family) },
	.settings_size = sizeof(struct settings),
	.optional = true,
	.run = run,
};
