/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/remote.h"

#include <stdio.h>
#include <stdlib.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "ckpt/index.h"
#include "ckpt/torch_files.h"
#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/program.h"
#include "cli/signals.h"
#include "cli/print/message.h"

#define MAX_MEMORY   ((uint64_t)192 << 20)
#define LEAST_MEMORY ((uint64_t)8 << 20) /* bytes: eight blocks of one MiB */
#define RETRY_TIME   300		 /* seconds */
#define SHORT_FILE   ((size_t)64 << 10)	 /* bytes of a token, of a commit */
#define INDEX_FILE   ((size_t)512 << 20) /* bytes of an index */
#define COMMIT	     40			 /* digits */

/* Says it also with --quiet: it tells of the output's bytes. */
static void note_unversioned(const struct remote *remote)
{
	const char *url = remote_unversioned(remote);

	if (url)
		fprintf(program.err,
			"fp8conv: note: the server gives neither ETag nor Last-Modified for '%s': "
			"a change of the file while it is read would go unnoticed\n",
			url);
}

static const char *endpoint(void)
{
	const char *url = getenv("HF_ENDPOINT");

	return url && *url ? url : "https://huggingface.co";
}

/* Returns the path in a variable, where "~/" is the home directory, else base/name; NULL where both
 * are missing.  Takes base; the caller frees the path. */
static char *place(const char *variable, char *base, const char *name)
{
	const char *value = getenv(variable), *home = getenv("HOME");
	char *path = NULL;

	if (value && home && !strncmp(value, "~/", 2))
		path = xasprintf("%s%s", home, value + 1);
	else if (value && *value)
		path = xstrdup(value);
	else if (base)
		path = xasprintf("%s/%s", base, name);
	free(base);
	return path;
}

/* As constants.py of huggingface_hub 1.x. */
static char *hub_home(void)
{
	const char *home = getenv("HOME");

	return place("HF_HOME", place("XDG_CACHE_HOME", home ? xstrdup(home) : NULL, ".cache"),
		     "huggingface");
}

/* Takes the token of the environment, else that of `hf auth login`. */
static void find_token(struct model_io *model)
{
	const char *token = getenv("HF_TOKEN");
	struct buf text = { 0 };
	struct err ignored;

	if (token && *token) {
		model->token = xstrdup(token);
		model->token_name = xstrdup("HF_TOKEN");
		return;
	}
	model->token_name = place("HF_TOKEN_PATH", hub_home(), "token");
	if (!model->token_name ||
	    io_read_file(&io_system, AT_FDCWD, model->token_name, SHORT_FILE, &text, &ignored))
		return;
	model->token = xstrndup(text.data + strspn(text.data, " \r\n"),
				strcspn(text.data + strspn(text.data, " \r\n"), "\r\n"));
	buf_release(&text);
}

/* Is there a file, and what a link leads to? */
static bool has_file(const char *directory, const char *name)
{
	char *path = xasprintf("%s/%s", directory, name);
	bool found = access(path, R_OK) == 0;

	free(path);
	return found;
}

/* Has a snapshot all weights, and the configuration that a model needs? */
static bool is_whole(const char *snapshot)
{
	char *path = xasprintf("%s/model.safetensors.index.json", snapshot);
	struct weight_index index = { 0 };
	struct buf text = { 0 };
	struct err ignored;
	bool whole = has_file(snapshot, "config.json");

	if (whole && io_read_file(&io_system, AT_FDCWD, path, INDEX_FILE, &text, &ignored))
		whole = has_file(snapshot, "model.safetensors");
	else if (whole)
		whole = !index_read(&index, (struct json_text){ text.data, text.len }, path,
				    &ignored);
	for (size_t i = 0; i < index.n && whole; i += index_run(&index, i))
		whole = has_file(snapshot, index.entries[i].shard);
	index_release(&index);
	buf_release(&text);
	free(path);
	return whole;
}

/* Returns the commit that a branch or tag was when it was downloaded; a commit is itself. */
static char *commit_of(const char *model, const char *revision)
{
	char *path = xasprintf("%s/refs/%s", model, revision), *commit = NULL;
	struct buf text = { 0 };
	struct err ignored;

	if (!strstr(revision, "..") &&
	    !io_read_file(&io_system, AT_FDCWD, path, SHORT_FILE, &text, &ignored))
		revision = text.data;
	if (strspn(revision, "0123456789abcdef") >= COMMIT)
		commit = xstrndup(revision, COMMIT);
	buf_release(&text);
	free(path);
	return commit;
}

/* Returns the directory of the whole snapshot of an address in the Hub's cache; NULL: none. */
static char *find_snapshot(const char *address)
{
	char *cache = place("HF_HUB_CACHE", hub_home(), "hub"), *repo, *revision, *snapshot = NULL;

	if (cache && remote_split_hub(address, &repo, &revision)) {
		size_t n_org = strcspn(repo, "/");
		char *model =
			xasprintf("%s/models--%.*s--%s", cache, (int)n_org, repo, repo + n_org + 1);
		char *commit = commit_of(model, revision);

		snapshot = commit ? xasprintf("%s/snapshots/%s", model, commit) : NULL;
		if (snapshot && !is_whole(snapshot)) {
			free(snapshot);
			snapshot = NULL;
		}
		free(commit);
		free(model);
		free(repo);
		free(revision);
	}
	free(cache);
	return snapshot;
}

/* Puts another address, or a directory, in the place of *path.  Is it still an address? */
static bool settle_path(struct model_io *model, int i, const char **path, bool quiet)
{
	char *snapshot, *page;

	if (!path || !*path || !remote_is_address(*path))
		return false;
	page = remote_hub_page(*path, endpoint());
	if (page)
		*path = model->paths[i] = page;
	snapshot = find_snapshot(*path);
	if (!snapshot)
		return true;
	if (!quiet)
		message_note("%s is read from the Hub's cache: %s", *path, snapshot);
	free(page);
	*path = model->paths[i] = snapshot;
	return false;
}

static void tell_lost(const char *url, const char *reason, double seconds)
{
	message_note("no answer for '%s' (%s): it is tried again for %.0f seconds", url, reason,
		     seconds);
}

/* Opens one remote above the table of `model`. */
static int open_address(struct model_io *model, const char *address, const struct run_settings *run,
			uint64_t memory, struct err *err)
{
	struct remote **remote = &model->remotes[model->remotes[0] ? 1 : 0];
	struct remote_params params = {
		.address = address,
		.endpoint = endpoint(),
		.token = model->token,
		.token_name = model->token_name,
		.ca_file = getenv("SSL_CERT_FILE"),
		.memory = memory > LEAST_MEMORY ? memory : LEAST_MEMORY,
		.retry_time = run->retry_time ? run->retry_time : RETRY_TIME,
		.tell = run->quiet ? NULL : tell_lost,
		.now = (uint64_t)(process_now() * 1e6),
		.stop = signals_watch(),
	};

	if (remote_open(remote, model->io, &params, err))
		return -1;
	note_unversioned(*remote);
	model->io = remote_io(*remote);
	model->memory += params.memory;
	return 0;
}

/* Puts the file of torch.save() in place of its directory, where that has no .safetensors file. */
static int find_torch(struct model_io *model, int i, const char **path, struct err *err)
{
	struct listing names = { 0 };
	char *found;
	struct stat st;
	size_t n;

	if (!path || !*path || model->io->fstatat(model->io, AT_FDCWD, *path, &st, 0) ||
	    !S_ISDIR(st.st_mode))
		return 0;
	if (listing_safetensors(model->io, *path, &names, err))
		return -1;
	n = names.n;
	listing_release(&names);
	if (n)
		return 0;
	found = torch_files_find(model->io, *path, err);
	if (!found)
		return -1;
	free(model->paths[i]);
	*path = model->paths[i] = found;
	return 0;
}

int model_io_open(struct model_io *model, const char **path, const char **source,
		  const struct run_settings *run, struct err *err)
{
	bool has_path, has_source;
	uint64_t memory;

	*model = (struct model_io){ .io = &io_system };
	has_path = settle_path(model, 0, path, run->quiet);
	has_source = settle_path(model, 1, source, run->quiet);
	memory =
		(run->max_memory ? run->max_memory : MAX_MEMORY) / (has_path && has_source ? 6 : 3);
	if (has_path || has_source)
		find_token(model);
	if ((has_path && open_address(model, *path, run, memory, err)) ||
	    (has_source && open_address(model, *source, run, memory, err)) ||
	    (run->from_torch &&
	     (find_torch(model, 0, path, err) || find_torch(model, 1, source, err)))) {
		model_io_close(model);
		return -1;
	}
	return 0;
}

uint64_t model_io_rest(const struct model_io *model, uint64_t max_memory)
{
	return max_memory > model->memory ? max_memory - model->memory : max_memory ? 1 : 0;
}

void model_io_note(const struct model_io *model)
{
	struct buf text = { 0 };

	if (!model->remotes[0])
		return;
	units_size(&text, remote_bytes(model->remotes[0]) +
				  (model->remotes[1] ? remote_bytes(model->remotes[1]) : 0));
	message_note("read %s from the server", text.data);
	buf_release(&text);
}

void model_io_close(struct model_io *model)
{
	remote_close(model->remotes[1]); /* stands above the other one */
	remote_close(model->remotes[0]);
	free(model->paths[0]);
	free(model->paths[1]);
	free(model->token);
	free(model->token_name);
	*model = (struct model_io){ 0 };
}
