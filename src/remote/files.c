/* SPDX-License-Identifier: Apache-2.0 */
#include "remote/files.h"

#include <jansson.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/sort.h"
#include "base/text.h"
#include "base/words.h"
#include "remote/address.h"

#define CONNECTIONS 8
#define LIST_LIMIT  ((size_t)64 << 20)	/* bytes of the Hub's answer; 500 files have 200 KB */
#define INDEX_LIMIT ((size_t)512 << 20) /* as of an index on a disk */
#define MAX_SHARDS  ((size_t)10000)	/* files of an index; released models have some hundreds */
#define MAX_DEPTH   16			/* names of a path */
#define INDEX_NAME  "model.safetensors.index.json"

/* The files that folders of models have, by the lists of released models on the Hub in 2026. */
static const char *const known_names[] = {
	INDEX_NAME,
	"model.safetensors",
	"config.json",
	"hf_quant_config.json",
	"fp8conv-manifest.json",
	"generation_config.json",
	"tokenizer.json",
	"tokenizer_config.json",
	"tokenizer.model",
	"tokenizer.model.v3",
	"tiktoken.model",
	"tekken.json",
	"special_tokens_map.json",
	"added_tokens.json",
	"vocab.json",
	"vocab.txt",
	"merges.txt",
	"spiece.model",
	"chat_template.jinja",
	"chat_template.json",
	"preprocessor_config.json",
	"processor_config.json",
	"video_preprocessor_config.json",
	"params.json",
	"modules.json", /* of sentence-transformers, with the modules behind the model */
	"config_sentence_transformers.json",
	"sentence_bert_config.json",
	"1_Pooling/config.json",
	"2_Dense/config.json",
	"2_Dense/model.safetensors",
	"3_Dense/config.json",
	"3_Dense/model.safetensors",
	"README.md",
	"LICENSE",
	"LICENSE.md",
	"LICENSE.txt",
	"NOTICE",
	"USE_POLICY.md",
};

/* Those whose auto_map names Python files, as transformers reads them. */
static const char with_code[] =
	"config.json|tokenizer_config.json|processor_config.json|preprocessor_config.json";

/* Is it a path below the model, without steps upward and not deeper than any model's? */
static bool is_path(const char *name)
{
	size_t depth = 0;

	if (!*name || *name == '/' || name[text_control(name)] || strchr(name, '\\'))
		return false;
	for (const char *p = name; p; p = strchr(p, '/')) {
		p += *p == '/';
		if (++depth > MAX_DEPTH || !*p || *p == '/' || !strcmp(p, ".") ||
		    !strcmp(p, "..") || !strncmp(p, "./", 2) || !strncmp(p, "../", 3))
			return false;
	}
	return true;
}

static struct remote_file *add(struct remote_files *files, const char *name, const char *base)
{
	char *escaped = address_escape(name, true);

	ARRAY_GROW(files->list, files->n);
	files->list[files->n] = (struct remote_file){ .name = xstrdup(name),
						      .url = xasprintf("%s/%s", base, escaped),
						      .is_there = true };
	free(escaped);
	return &files->list[files->n++];
}

COMPARISON(compare_names, struct remote_file, strcmp(x->name, y->name))

/* Sorts the files, and leaves out those that are not there or come twice. */
static void settle(struct remote_files *files)
{
	size_t n = 0;

	if (files->n)
		qsort(files->list, files->n, sizeof *files->list, compare_names);
	for (size_t i = 0; i < files->n; i++) {
		struct remote_file *file = &files->list[i];

		if (file->is_there && (!n || strcmp(files->list[n - 1].name, file->name) != 0)) {
			struct remote_file kept = *file;

			*file = (struct remote_file){ 0 };
			files->list[n++] = kept;
		} else {
			remote_file_release(file);
		}
	}
	files->n = n;
}

struct file_probe {
	struct client *client;
	struct remote_file *list;
};

static int probe(void *context, int worker, size_t item, struct err *err)
{
	const struct file_probe *probing = context;

	(void)worker;
	return range_head(probing->client, &probing->list[item], err);
}

/* Asks for the files from `first` on. */
static int probe_from(struct remote_files *files, struct client *client, size_t first,
		      struct err *err)
{
	struct file_probe probing = { client, files->list + first };

	return pool_run(CONNECTIONS, files->n - first, probe, &probing, client->stop, err);
}

struct remote_file *remote_files_find(const struct remote_files *files, const char *name)
{
	for (size_t i = 0; i < files->n; i++)
		if (!strcmp(files->list[i].name, name))
			return &files->list[i];
	return NULL;
}

/* Adds the shards of an index, which may have millions of tensors, without a tree of it.  Text that
 * is no index adds none: the reader of checkpoints says what is wrong with it. */
static int add_shards(struct remote_files *files, struct json_text text, struct err *err)
{
	const char *base = files->root;
	struct json_members walk = { 0 };
	struct json_member member;
	struct remote_files shards = { 0 };
	struct buf name = { 0 };
	struct err ignored;
	int rc = 0;

	if (json_find(text, "weight_map", &walk.text, &ignored))
		return 0;
	while (walk.text.len && json_members_next(&walk, &member, &ignored) > 0) {
		if (!json_text_string(member.value, &name) || !is_path(name.data) ||
		    strchr(name.data, '/') ||
		    (shards.n && !strcmp(shards.list[shards.n - 1].name, name.data)))
			continue;
		add(&shards, name.data, base);
		if (shards.n < 2 * MAX_SHARDS)
			continue;
		settle(&shards); /* neighbors may alternate */
		if (shards.n > MAX_SHARDS)
			break;
	}
	settle(&shards);
	if (shards.n > MAX_SHARDS)
		rc = err_set(err, ERR_INPUT,
			     "the index in '%s' names more than %zu files: check the address", base,
			     MAX_SHARDS);
	for (size_t i = 0; i < shards.n && !rc; i++)
		if (!remote_files_find(files, shards.list[i].name))
			add(files, shards.list[i].name, base);
	remote_files_release(&shards);
	json_members_release(&walk);
	buf_release(&name);
	return rc;
}

/* Adds the file of a Python module. */
static void add_module(struct remote_files *files, const char *module, size_t n)
{
	char *name = xasprintf("%.*s.py", n < NAME_MAX ? (int)n : 0, module);

	if (*name != '.' && is_path(name) && !strchr(name, '/') && files->n < MAX_SHARDS &&
	    !remote_files_find(files, name))
		add(files, name, files->root);
	free(name);
}

/* Adds the modules of lines "from .x import y", as transformers looks for them. */
static int add_imports(struct remote_files *files, struct json_text text, struct err *err)
{
	static const char blanks[] = " \t";
	char *code = xstrndup(text.data, text.len);

	(void)err;
	for (const char *p = code; p; p = strchr(p, '\n')) {
		p += *p == '\n';
		p += strspn(p, blanks);
		if (strncmp(p, "from", 4) != 0)
			continue;
		p += 4 + strspn(p + 4, blanks);
		if (*p == '.')
			add_module(files, p + 1, strcspn(p + 1, " \t\r\n"));
	}
	free(code);
	return 0;
}

/* Adds the file of a class "modeling_x.XModel", not one of another model ("ORG/NAME--..."). */
static void add_class(struct remote_files *files, const json_t *value)
{
	const char *class = json_string_value(value), *dot = class ? strchr(class, '.') : NULL;

	if (dot)
		add_module(files, class, (size_t)(dot - class));
}

/* Adds the Python files that the auto_map of a configuration names, of one class or several. */
static int add_code(struct remote_files *files, struct json_text text, struct err *err)
{
	struct err ignored;
	json_t *config = json_decode(text, &ignored), *value;
	const char *key;
	size_t i;

	(void)err; /* what is wrong with the text is said by its reader */
	json_object_foreach(json_object_get(config, "auto_map"), key, value)
	{
		add_class(files, value);
		for (i = 0; i < json_array_size(value); i++)
			add_class(files, json_array_get(value, i));
	}
	json_decref(config);
	return 0;
}

/* Adds the files that a text names. */
typedef int named_fn(struct remote_files *files, struct json_text text, struct err *err);

/* Reads file number i, adds the files that it names, and asks for them. */
static int list_named(struct remote_files *files, struct client *client, size_t i,
		      named_fn *add_named, struct err *err)
{
	struct remote_file *file = &files->list[i];
	size_t first = files->n, n;
	void *text;
	int rc = 0;

	if (file->size > INDEX_LIMIT)
		return 0;
	n = (size_t)file->size;
	if (buffer_alloc(&text, n + 1, file->name, err))
		return -1;
	memcpy(text, file->head, file->n_head);
	if (n > file->n_head)
		rc = range_read(client, file, file->n_head, n - file->n_head,
				(char *)text + file->n_head, err);
	if (!rc) {
		rc = add_named(files, (struct json_text){ text, n }, err);
		if (!rc)
			rc = probe_from(files, client, first, err);
	}
	free(text);
	return rc;
}

/* Lists a plain folder.  index: the base name that the user gave, or NULL. */
static int list_folder(struct remote_files *files, struct client *client, const char *index,
		       struct err *err)
{
	for (size_t i = 0; i < sizeof known_names / sizeof *known_names; i++)
		add(files, known_names[i], files->root);
	if (index && !remote_files_find(files, index))
		add(files, index, files->root);
	if (probe_from(files, client, 0, err))
		return -1;
	for (size_t i = 0; i < files->n; i++) {
		const struct remote_file *file = &files->list[i];
		named_fn *add_named = !strcmp(file->name, index ? index : INDEX_NAME) ? add_shards
				      : words_find(with_code, file->name) >= 0	      ? add_code
				      : text_ends(file->name, ".py")		      ? add_imports
										      : NULL;

		if (file->is_there && file->head && add_named &&
		    list_named(files, client, i, add_named, err))
			return -1;
	}
	settle(files);
	return 0;
}

/* Lists one file of weights. */
static int list_file(struct remote_files *files, struct client *client, const char *name,
		     const char *address, struct err *err)
{
	struct remote_file *file = add(files, name, files->root);

	free(file->url); /* as the user wrote it: it may contain %XX */
	file->url = xstrdup(address);
	if (range_head(client, file, err))
		return -1;
	if (!file->is_there)
		return err_set(err, ERR_INPUT, "the server has no file '%s': check the address",
			       address);
	return 0;
}

static int list_url(struct remote_files *files, struct client *client, const char *address,
		    struct err *err)
{
	const char *name;
	struct shown_address shown;

	if (address_check(address, err))
		return -1;
	if (strpbrk(address, "?#"))
		return err_set(err, ERR_INPUT,
			       "address '%s' has a query: give the address of a folder or of a "
			       ".safetensors file without one",
			       address_show(address, &shown));
	if (text_ends(address, ".distcp") || text_ends(address, "/.metadata"))
		return err_set(err, ERR_INPUT,
			       "'%s' is a part of a distributed checkpoint, whose files no server "
			       "lists: download them all, and give their folder",
			       address_show(address, &shown));
	if (!address_is_weights(address) && !text_ends(address, ".json")) {
		files->root = xstrdup(address);
		return list_folder(files, client, NULL, err);
	}
	name = strrchr(address, '/') + 1;
	files->root = xstrndup(address, (size_t)(name - 1 - address));
	if (address_is_weights(name))
		return list_file(files, client, name, address, err);
	return list_folder(files, client, name, err);
}

/* Adds a file of the Hub's list. */
static int add_listed(struct remote_files *files, const json_t *entry, const char *base,
		      struct err *err)
{
	const char *name = json_string_value(json_object_get(entry, "rfilename"));
	const json_t *size = json_object_get(entry, "size");
	struct remote_file *file;

	if (!name || !is_path(name))
		return err_set(err, ERR_INPUT,
			       "the Hub lists a file '%s' for '%s', which is not a "
			       "path below the model",
			       name ? name : "", files->root);
	file = add(files, name, base);
	file->is_pinned = true;
	if (json_is_integer(size) && json_integer_value(size) >= 0) {
		file->has_size = true;
		file->size = (uint64_t)json_integer_value(size);
	}
	return 0;
}

/* Reads the Hub's answer about a revision. */
static int read_list(struct remote_files *files, const char *endpoint, const char *repo,
		     const json_t *info, struct err *err)
{
	const char *commit = json_string_value(json_object_get(info, "sha"));
	const json_t *siblings = json_object_get(info, "siblings");
	char *base;
	int rc = 0;

	if (!commit || strlen(commit) != strspn(commit, "0123456789abcdef") ||
	    !json_is_array(siblings))
		return err_set(err, ERR_INPUT,
			       "the answer of '%s' about '%s' is not a list of files", endpoint,
			       files->root);
	files->commit = xstrdup(commit);
	base = xasprintf("%s/%s/resolve/%s", endpoint, repo, commit);
	for (size_t i = 0; i < json_array_size(siblings) && !rc; i++)
		rc = add_listed(files, json_array_get(siblings, i), base, err);
	free(base);
	settle(files);
	return rc;
}

static int probe_weights(void *context, int worker, size_t item, struct err *err)
{
	const struct file_probe *probing = context;

	if (!text_ends(probing->list[item].name, ".safetensors"))
		return 0;
	return probe(context, worker, item, err);
}

/* Lists ORG/NAME at a revision. */
static int list_repo(struct remote_files *files, struct client *client, const char *repo,
		     const char *revision, struct err *err)
{
	char *escaped = address_escape(revision, false);
	char *url = xasprintf("%s/api/models/%s/revision/%s?blobs=true", client->endpoint, repo,
			      escaped);
	struct buf text = { 0 };
	json_t *info = NULL;
	int rc = -1;

	if (range_text(client, url, LIST_LIMIT, &text, err))
		goto out;
	info = json_decode((struct json_text){ text.data, text.len }, err);
	if (!info)
		err_wrap(err, "the answer of '%s'", url);
	else
		rc = read_list(files, client->endpoint, repo, info, err);
	if (!rc) {
		struct file_probe probing = { client, files->list };

		rc = pool_run(CONNECTIONS, files->n, probe_weights, &probing, client->stop, err);
	}
out:
	json_decref(info);
	buf_release(&text);
	free(url);
	free(escaped);
	return rc;
}

/* Lists hf://ORG/NAME[@REV]. */
static int list_hub(struct remote_files *files, struct client *client, const char *address,
		    struct err *err)
{
	char *repo, *revision;
	int rc;

	files->root = xstrdup(address);
	if (address_check(client->endpoint, err))
		return err_wrap(err, "HF_ENDPOINT");
	if (strpbrk(client->endpoint, "?#"))
		return err_set(err, ERR_INPUT, "HF_ENDPOINT has a query: leave it out");
	if (address_split_hub(address, &repo, &revision, err))
		return -1;
	rc = list_repo(files, client, repo, revision, err);
	free(repo);
	free(revision);
	return rc;
}

int remote_files_list(struct remote_files *files, struct client *client, const char *address,
		      struct err *err)
{
	size_t n = strlen(address);
	char *text;
	int rc;

	while (n && address[n - 1] == '/')
		n--;
	text = xstrndup(address, n);
	rc = !strncasecmp(text, "hf:", 3) ? list_hub(files, client, text, err)
					  : list_url(files, client, text, err);
	free(text);
	return rc;
}

const char *remote_files_unversioned(const struct remote_files *files)
{
	for (size_t i = 0; i < files->n; i++) {
		const struct remote_file *file = &files->list[i];

		if (!file->is_pinned && file->version && !*file->version &&
		    file->size > file->n_head)
			return file->url;
	}
	return NULL;
}

void remote_files_release(struct remote_files *files)
{
	for (size_t i = 0; i < files->n; i++)
		remote_file_release(&files->list[i]);
	free(files->list);
	free(files->root);
	free(files->commit);
	*files = (struct remote_files){ 0 };
}
