/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/files.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "ckpt/listing.h"
#include "verify/config_diff.h"
#include "verify/values/origin.h"

/* The directory of the source, or a dequantized copy, is easily given instead of an output. */
static void check_quantized(struct verify *verify)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	if (!verify->opened.detection->n_weights && !checkpoint->n_expected)
		problem_add(&verify->result->problems, PROBLEM_NOTHING_QUANTIZED, NULL, NULL,
			    "no weight of '%s' is FP8", checkpoint->path);
}

/* Does another problem name the file? */
static bool is_reported(const struct verify *verify, const char *name)
{
	const struct problems *problems = &verify->result->problems;

	for (size_t i = 0; i < problems->n; i++)
		if (problems->list[i].file && !strcmp(problems->list[i].file, name))
			return true;
	return false;
}

/* Is the file of the model, or does another problem name it? */
static bool is_known(const struct verify *verify, const char *name)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;

	if (checkpoint_has_shard(checkpoint, name) || is_reported(verify, name))
		return true;
	/* Mistral's releases hold the weights in two layouts; engines choose one if there is an
	 * index. */
	return checkpoint->has_index && !fnmatch("consolidated*", name, 0);
}

/* Quantization and its reversal leave shards without tensors where a source had only scales. */
static bool is_without_tensors(const struct verify *verify, const char *name)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	char *path = xasprintf("%s/%s", checkpoint->directory, name);
	struct st_file file = { 0 };
	struct err ignored;
	bool is_empty = !st_open(&file, verify->params->io, path, &ignored) && !file.n_tensors;

	st_release(&file);
	free(path);
	return is_empty;
}

static int check_beside(struct verify *verify, struct err *err)
{
	const struct checkpoint *checkpoint = verify->opened.checkpoint;
	struct listing names = { 0 };
	int rc;

	if (!checkpoint->directory)
		return 0;
	rc = listing_safetensors(verify->params->io, checkpoint->directory, &names, err);
	for (size_t i = 0; i < names.n; i++)
		if (!rc && !is_known(verify, names.items[i]) &&
		    !is_without_tensors(verify, names.items[i]))
			problem_add(&verify->result->problems, PROBLEM_FILE_STRAY, NULL,
				    names.items[i], "'%s' lies beside the model, but %s",
				    names.items[i],
				    checkpoint->has_index ? "the index does not name it"
							  : "is not of it");
	listing_release(&names);
	return rc;
}

int verify_files(struct verify *verify, struct err *err)
{
	check_quantized(verify);
	return check_beside(verify, err);
}

#define JSON_LIMIT ((size_t)64 << 20) /* bytes of a file that is compared as JSON */

/* What must be the same in a file that was written anew. */
enum rewritten_rule { RULE_BYTES, RULE_KEYS, RULE_TOKENS, RULE_VOCABULARY, RULE_NOTHING };

static const struct {
	const char *pattern; /* of the base name */
	enum rewritten_rule rule;
} rules[] = {
	{ "params.json", RULE_KEYS },
	{ "generation_config.json", RULE_KEYS },
	{ "tokenizer.json", RULE_VOCABULARY },
	{ "tokenizer_config.json", RULE_TOKENS },
	{ "*.model", RULE_BYTES },
	{ "*.tiktoken", RULE_BYTES },
	{ "tekken.json", RULE_BYTES },
	{ "*.jinja", RULE_BYTES },
	{ "*.safetensors", RULE_BYTES },
	{ "merges.txt", RULE_BYTES },
	{ "vocab.txt", RULE_BYTES },
	{ "vocab.json", RULE_BYTES },
};

/* Texts for people: a release has its own. */
static const char *const for_people[] = { "*.md",  "LICENSE*", "NOTICE*", "*POLICY*", "*.png",
					  "*.jpg", "*.jpeg",   "*.gif",	  "*.svg",    "*.pdf" };

struct companions {
	struct verify *verify;
	const struct checkpoint *source;
	bool rewritten;
};

static enum rewritten_rule rule_of(const char *name)
{
	for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
		if (!fnmatch(rules[i].pattern, name, 0))
			return rules[i].rule;
	return RULE_NOTHING;
}

static bool is_for_people(const char *name)
{
	for (size_t i = 0; i < sizeof for_people / sizeof *for_people; i++)
		if (!fnmatch(for_people[i], name, FNM_CASEFOLD))
			return true;
	return false;
}

static json_t *decode(const struct buf *text)
{
	return json_decode_python((struct json_text){ text->data, text->len }, &(struct err){ 0 });
}

/* Opens the file of one side, below its directory.  file->name is the caller's to free. */
static int side_open(struct file *file, uint64_t *size, const char *directory, const char *name,
		     struct err *err)
{
	struct file_identity identity = { 0 };
	char *path = xasprintf("%s/%s", directory, name);
	int rc = io_open_regular(file->io, AT_FDCWD, path, &file->fd, &identity, err);

	file->name = path;
	*size = identity.size;
	return rc;
}

static void side_close(const struct file *file)
{
	if (file->name && file->fd >= 0)
		file->io->close(file->io, file->fd);
	free((char *)file->name);
}

/* Returns a file as JSON; NULL where it is not. */
static json_t *read_json(const struct io *io, const char *path)
{
	struct buf text = { 0 };
	json_t *json = NULL;

	if (!io_read_file(io, AT_FDCWD, path, JSON_LIMIT, &text, &(struct err){ 0 }))
		json = decode(&text);
	buf_release(&text);
	return json;
}

static bool same_vocabulary(const json_t *was, const json_t *is)
{
	return json_equal(json_object_get(json_object_get(was, "model"), "vocab"),
			  json_object_get(json_object_get(is, "model"), "vocab"));
}

/* Compares two files of JSON, the bytes of which differ.  Returns whether they mean the same, or
 * were reported. */
static bool compare_json(const struct companions *companions, const char *name, const json_t *was,
			 const json_t *is)
{
	static const char *const tokens[] = { "bos_token",    "eos_token",     "unk_token",
					      "pad_token",    "chat_template", "add_bos_token",
					      "add_eos_token" };
	struct problems *problems = &companions->verify->result->problems;
	const struct config_pair pair = { name, was, is, companions->rewritten };

	if (!was || !is)
		return false;
	if (json_equal((json_t *)was, (json_t *)is))
		return true;
	switch (rule_of(name)) {
	case RULE_KEYS:
		config_diff(problems, &pair);
		return true;
	case RULE_TOKENS:
		if (companions->rewritten)
			config_diff_members(problems, &pair, tokens,
					    sizeof tokens / sizeof *tokens);
		else
			config_diff(problems, &pair);
		return true;
	case RULE_VOCABULARY:
		return companions->rewritten && same_vocabulary(was, is);
	default:
		return false;
	}
}

static bool is_json(const char *name)
{
	return !fnmatch("*.json", name, FNM_CASEFOLD);
}

static int compare_file(const struct companions *companions, const char *name, struct err *err)
{
	struct verify *verify = companions->verify;
	const struct io *io = verify->params->io;
	const char *base = text_after(name, '/');
	struct file sides[2] = { { io, -1, NULL }, { io, -1, NULL } };
	uint64_t sizes[2];
	json_t *was = NULL, *is = NULL;
	uint64_t at;
	int rc = -1;

	if (side_open(&sides[1], &sizes[1], verify->opened.checkpoint->directory, name, err)) {
		rc = err->kind == ERR_INPUT ? 0 : -1;
		if (!rc)
			problem_add(&verify->result->problems, PROBLEM_FILE_INVALID, NULL, name,
				    "%s", err->message);
		goto out;
	}
	if (side_open(&sides[0], &sizes[0], companions->source->directory, name, err) ||
	    io_compare(sides, sizes, &at, err))
		goto out;
	rc = 0;
	if (at == UINT64_MAX)
		goto out;
	if (is_json(base)) {
		was = read_json(io, sides[0].name);
		is = read_json(io, sides[1].name);
		if (compare_json(companions, base, was, is))
			goto out;
	}
	if (companions->rewritten && (!is_json(base) || is) && rule_of(base) == RULE_NOTHING)
		goto out;
	problem_add(&verify->result->problems, PROBLEM_FILE_CHANGED, NULL, name,
		    "'%s' is not the source's: byte %" PRIu64 " differs (%" PRIu64
		    " bytes, %" PRIu64 " in the source)",
		    name, at, sizes[1], sizes[0]);
out:
	json_decref(was);
	json_decref(is);
	side_close(&sides[0]);
	side_close(&sides[1]);
	return rc;
}

/* May a release that transformers saved lack the file?  A fast tokenizer is all in tokenizer.json,
 * and a template may be in another file. */
static bool may_be_missing(const struct companions *companions, const char *name)
{
	static const char *const needed[] = { "tokenizer.json", "tokenizer_config.json",
					      "generation_config.json" };

	if (!companions->rewritten || strchr(name, '/'))
		return false;
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
		if (!strcmp(name, needed[i]))
			return false;
	return true;
}

static int compare_files(const struct companions *companions, const struct listing *files,
			 struct err *err)
{
	struct verify *verify = companions->verify;

	for (size_t i = 0; i < files->n; i++) {
		const char *name = files->items[i];
		bool exists;

		if (is_for_people(text_after(name, '/')) || is_reported(verify, name))
			continue;
		exists = io_exists_in(verify->params->io, verify->opened.checkpoint->directory,
				      name);
		if (exists && compare_file(companions, name, err))
			return -1;
		if (!exists && !may_be_missing(companions, name))
			problem_add(&verify->result->problems, PROBLEM_FILE_MISSING, NULL, name,
				    "the source's '%s' is missing", name);
	}
	return 0;
}

/* Compares config.json.  A text that is not JSON is reported where it is read. */
static void compare_config(struct companions *companions)
{
	struct verify *verify = companions->verify;
	const struct buf *text = &verify->opened.checkpoint->config;
	json_t *was = decode(&companions->source->config), *is = decode(text);

	companions->rewritten = config_is_rewritten(was, is);
	if (was && is)
		config_diff(&verify->result->problems,
			    &(struct config_pair){ CONFIG_NAME, was, is, companions->rewritten });
	else if (was && !text->len)
		problem_add(&verify->result->problems, PROBLEM_FILE_MISSING, NULL, CONFIG_NAME,
			    "the source's 'config.json' is missing");
	json_decref(was);
	json_decref(is);
}

/* Loaders of transformers 5.24 and vLLM 0.32 take a generation_config.json that is not JSON for one
 * that is missing (except OSError), and lose its end-of-sequence tokens. */
static void check_generation(struct verify *verify)
{
	static const char name[] = "generation_config.json";
	const struct io *io = verify->params->io;
	char *path = xasprintf("%s/%s", verify->opened.checkpoint->directory, name);
	json_t *value = read_json(io, path);

	if (io_exists(io, path) && !json_is_object(value))
		problem_add(&verify->result->problems, PROBLEM_FILE_INVALID, NULL, name,
			    "it is not a JSON object: engines take the defaults of the "
			    "model's class silently, or stop");
	json_decref(value);
	free(path);
}

/* Reports files of the directory that loaders would read wrong, whatever the source has. */
static int check_own(struct verify *verify, struct err *err)
{
	struct listing files;

	check_generation(verify);
	if (checkpoint_left_out(verify->opened.checkpoint, &files, err)) {
		if (err->kind != ERR_INPUT)
			return -1;
		problem_add(&verify->result->problems, PROBLEM_FILE_INVALID, NULL, NULL, "%s",
			    err->message);
		return 0;
	}
	for (size_t i = 0; i < files.n; i++)
		if (!strcmp(files.items[i], "adapter_config.json"))
			problem_add(&verify->result->problems, PROBLEM_CONFIG_KEY, NULL,
				    files.items[i],
				    "the model is whole: transformers takes it for an adapter, and "
				    "stops; remove the file");
	listing_release(&files);
	return 0;
}

int verify_companions(struct verify *verify, struct err *err)
{
	struct companions companions = { .verify = verify };
	struct listing files;
	int rc;

	if (!verify->opened.checkpoint->directory || verify->opened.checkpoint->n_expected)
		return 0;
	if (check_own(verify, err))
		return -1;
	if (!verify->run.origin || !verify->run.origin->checkpoint.directory)
		return 0;
	companions.source = &verify->run.origin->checkpoint;
	compare_config(&companions);
	rc = checkpoint_auxiliary(companions.source, &files, err);
	if (!rc)
		rc = compare_files(&companions, &files, err);
	listing_release(&files);
	return rc;
}
