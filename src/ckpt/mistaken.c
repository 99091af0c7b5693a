/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt/mistaken.h"

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "ckpt/checkpoint.h"
#include "ckpt/listing.h"
#include "ckpt/slices.h"

#define TO_SAFETENSORS "convert it to safetensors first, as save_pretrained() of transformers does"

#define POINTER_LIMIT 1024 /* bytes; pointers are shorter */

/* The start of a pickle is also the size of a header, which then is far beyond the file. */
static bool is_pickle(const unsigned char start[8], uint64_t size)
{
	uint64_t n = 0;

	for (int i = 7; i >= 0; i--)
		n = n << 8 | start[i];
	return start[0] == 0x80 && start[1] >= 2 && start[1] <= 5 && n > size;
}

static int refuse_pointer(const char *path, struct err *err)
{
	return err_set(err, ERR_INPUT,
		       "'%s' is a Git LFS pointer, not the file: run 'git lfs pull'", path);
}

int mistaken_file(const char *path, const unsigned char start[8], uint64_t size, struct err *err)
{
	if (!memcmp(start, "version ", 8))
		return refuse_pointer(path, err);
	if (!memcmp(start, "GGUF", 4))
		return err_set(err, ERR_INPUT,
			       "'%s' is a GGUF file: fp8conv reads safetensors, so give the model "
			       "that it was made from",
			       path);
	if (!memcmp(start, "PK\3\4", 4) || is_pickle(start, size))
		return err_set(err, ERR_INPUT,
			       "'%s' is a pickle of PyTorch, which can run code: " TO_SAFETENSORS,
			       path);
	return 0;
}

static bool is_pointer(const struct buf *text)
{
	static const char start[] = "version https://";

	return text->len >= sizeof start - 1 && !memcmp(text->data, start, sizeof start - 1);
}

int mistaken_text(const char *path, const struct buf *text, struct err *err)
{
	return is_pointer(text) ? refuse_pointer(path, err) : 0;
}

bool mistaken_is_pointer(const struct io *io, const char *path)
{
	struct buf text = { 0 };
	struct err ignored;
	bool found = !io_read_file(io, AT_FDCWD, path, POINTER_LIMIT, &text, &ignored) &&
		     is_pointer(&text);

	buf_release(&text);
	return found;
}

/* Is it "org/model", the form of names on the Hugging Face Hub? */
static bool is_hub_name(const char *path)
{
	const char *slash = strchr(path, '/');

	return slash && slash > path && path[0] != '.' && slash[1] && !strchr(slash + 1, '/');
}

int mistaken_name(const char *path, struct err *err)
{
	if (strstr(path, "://"))
		return err_set(
			err, ERR_INPUT,
			"'%s' is not an address of a model that is read here: give "
			"https://... or hf://ORG/NAME as the model or its source, or "
			"download it, as 'hf download ORG/NAME' does, and give the directory",
			path);
	if (is_hub_name(path))
		return err_set(err, ERR_INPUT,
			       "no file or directory '%s' (for a model on the Hub give hf://%s)",
			       path, path);
	errno = ENOENT;
	return err_errno(err, "cannot open '%s'", path);
}

/* Does a slice begin behind the start of its tensor?  Text of another form says so too. */
static bool has_offset(const char *text)
{
	struct err ignored;
	json_t *info = json_decode((struct json_text){ text, strlen(text) }, &ignored);
	bool found = !json_is_object(info);
	const char *name;
	json_t *tensor, *offset;
	size_t i;

	json_object_foreach(info, name, tensor)
	{
		const json_t *offsets = json_object_get(tensor, "saved_offsets");

		found |= !json_is_array(offsets);
		json_array_foreach(offsets, i, offset) found |=
			!json_is_integer(offset) || json_integer_value(offset);
	}
	json_decref(info);
	return found;
}

static bool has_index_beside(const char *path, const struct io *io)
{
	char *index = xasprintf("%.*s" INDEX_NAME, (int)(text_after(path, '/') - path), path);
	bool found = io && io_exists(io, index);

	free(index);
	return found;
}

int mistaken_slice(const struct st_file *file, const struct io *io, struct err *err)
{
	const char *sharding = st_metadata_find(file, SHARDING_KEY);

	if (sharding && (slices_is_name(text_after(file->path, '/')) || has_offset(sharding) ||
			 !has_index_beside(file->path, io)))
		return err_set(err, ERR_INPUT,
			       "'%s' holds one rank's slices of tensors (" SHARDING_KEY
			       " in its header): give the directory that has the files of "
			       "all ranks, shard-00001-model-00001-of-00001.safetensors and "
			       "so on, without another model",
			       file->path);
	return 0;
}

static bool is_match(const void *pattern, const char *name)
{
	return name[0] != '.' && !fnmatch(pattern, name, FNM_CASEFOLD);
}

/* Lists the names in a directory that match a pattern, sorted; none where it cannot be read. */
static void list(const struct io *io, const char *directory, const char *pattern,
		 struct listing *names)
{
	listing_names(names, &(struct directory){ io, AT_FDCWD, directory, directory }, is_match,
		      pattern, &(struct err){ 0 });
}

int mistaken_rank(const struct io *io, const char *path, struct err *err)
{
	/* vLLM's save_sharded_state, TensorRT-LLM's checkpoints, Megatron and its converters */
	static const char *const patterns[] = {
		"*-rank-[0-9]*-part-[0-9]*.safetensors",
		"rank[0-9]*.safetensors",
		"*tp_[0-9]*.safetensors",
		"*[tm]p_rank_[0-9]*.safetensors",
	};
	const char *slash = strrchr(path, '/'), *name = text_after(path, '/');
	char *directory = slash ? xstrndup(path, (size_t)(slash - path + 1)) : xstrdup(".");
	int rc = 0;

	for (size_t i = 0; i < sizeof patterns / sizeof *patterns && !rc; i++) {
		struct listing names = { 0 };

		if (fnmatch(patterns[i], name, FNM_CASEFOLD))
			continue;
		list(io, directory, patterns[i], &names);
		if (names.n > 1)
			rc = err_set(err, ERR_INPUT,
				     "'%s' is one rank's part of a model (beside '%s'): give the "
				     "model that it was made from, or join the parts first",
				     path, names.items[!strcmp(names.items[0], name)]);
		listing_release(&names);
	}
	free(directory);
	return rc;
}

/* Tells which snapshot of a model in the Hub's cache to give.  directory: of the snapshots. */
static int tell_snapshots(const struct io *io, const char *given, const char *snapshots,
			  struct err *err)
{
	struct listing names = { 0 };

	list(io, snapshots, "*", &names);
	if (!names.n)
		err_set(err, ERR_INPUT,
			"'%s' is a directory of the Hub's cache without a snapshot: run 'hf "
			"download' again",
			given);
	else if (names.n == 1)
		err_set(err, ERR_INPUT, "'%s' is a directory of the Hub's cache: give '%s/%s'",
			given, snapshots, names.items[0]);
	else
		err_set(err, ERR_INPUT,
			"'%s' is a directory of the Hub's cache: give one of its %zu snapshots, as "
			"'%s/%s'",
			given, names.n, snapshots, names.items[0]);
	listing_release(&names);
	return -1;
}

/* Returns 0 where the directory is not of the Hub's cache. */
static int check_cache(const struct io *io, const char *directory, struct err *err)
{
	char *snapshots = xasprintf("%s/snapshots", directory);
	struct listing models = { 0 };
	int rc = 0;

	list(io, directory, "models--*", &models);
	if (io_exists(io, snapshots))
		rc = tell_snapshots(io, directory, snapshots, err);
	else if (!strcmp(text_after(directory, '/'), "snapshots"))
		rc = tell_snapshots(io, directory, directory, err);
	else if (models.n)
		rc = err_set(err, ERR_INPUT,
			     "'%s' is the Hub's cache: give a snapshot of one of its models, as "
			     "'%s/%s/snapshots/REVISION'",
			     directory, directory, models.items[0]);
	listing_release(&models);
	free(snapshots);
	return rc;
}

/* A file that says what a directory holds. */
struct mistaken_row {
	const char *pattern, *what, *advice;
};

static int check_rows(const struct io *io, const char *directory, const struct mistaken_row *rows,
		      size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++) {
		struct listing names = { 0 };
		bool found;

		list(io, directory, rows[i].pattern, &names);
		found = names.n > 0;
		if (found)
			err_set(err, ERR_INPUT,
				"found no .safetensors file in '%s', but '%s', %s: %s", directory,
				names.items[0], rows[i].what, rows[i].advice);
		listing_release(&names);
		if (found)
			return -1;
	}
	return 0;
}

int mistaken_trainer(const struct io *io, const char *directory, struct err *err)
{
	static const char megatron[] =
		"export it to Hugging Face with AutoBridge.export_ckpt() of Megatron-Bridge first";
	static const char deepspeed[] = "run DeepSpeed's zero_to_fp32.py on it first, with "
					"--safe_serialization";
	static const char maxtext[] = "export it with to_huggingface.py of MaxText first";
	static const struct mistaken_row rows[] = {
		{ "common.pt", "of a checkpoint of Megatron (torch_dist)", megatron },
		{ "latest_checkpointed_iteration.txt", "of checkpoints of Megatron", megatron },
		{ "iter_*", "a checkpoint of Megatron", megatron },
		{ "zero_to_fp32.py", "of a checkpoint of DeepSpeed", deepspeed },
		{ "*zero_pp_rank_*", "of a checkpoint of DeepSpeed (ZeRO)", deepspeed },
		{ "global_step*", "of a checkpoint of DeepSpeed", deepspeed },
		{ "mp_rank_*", "a rank's part of a checkpoint of Megatron or DeepSpeed",
		  "export it with Megatron-Bridge, or run DeepSpeed's zero_to_fp32.py, first" },
		{ "*.nemo", "a checkpoint of NeMo",
		  "export it to Hugging Face with llm.export_ckpt() of NeMo 2 first" },
		{ "model_config.yaml", "of a checkpoint of NeMo",
		  "export it to Hugging Face with llm.export_ckpt() of NeMo 2 first" },
		{ "_CHECKPOINT_METADATA", "of a checkpoint of orbax", maxtext },
		{ "manifest.ocdbt", "of a checkpoint of orbax", maxtext },
	};

	return check_rows(io, directory, rows, sizeof rows / sizeof *rows, err);
}

/* Returns 0 where the directory has no pickles of torch. */
static int check_torch(const struct io *io, const char *directory, const char *advice,
		       struct err *err)
{
	const struct mistaken_row rows[] = {
		{ "pytorch_model*.bin", "a pickle of PyTorch", advice },
		{ "*.pt", "a pickle of PyTorch", advice },
		{ "*.pth", "a pickle of PyTorch", advice },
		{ "*.bin", "a pickle of PyTorch", advice },
		{ "*.distcp", "a part of a checkpoint of torch.distributed", advice },
	};

	return check_rows(io, directory, rows, sizeof rows / sizeof *rows, err);
}

/* Returns 0 where the directory has no weights in another container. */
static int check_others(const struct io *io, const char *directory, struct err *err)
{
	static const struct mistaken_row rows[] = {
		{ "model_index.json", "the index of a pipeline of diffusers",
		  "give the directory of one component, as its 'transformer'" },
		{ "*.gguf", "a GGUF file", "give the model that it was made from" },
	};

	return mistaken_trainer(io, directory, err) ||
			       check_rows(io, directory, rows, sizeof rows / sizeof *rows, err) ||
			       check_torch(io, directory,
					   "give option '--from-torch' to read its tensors", err)
		       ? -1
		       : 0;
}

int mistaken_torch(const struct io *io, const char *directory, const char *advice, struct err *err)
{
	struct listing names = { 0 };
	bool is_other;

	list(io, directory, "*.safetensors", &names);
	is_other = names.n > 0;
	listing_release(&names);
	if (is_other)
		return 0;
	return mistaken_trainer(io, directory, err) || check_torch(io, directory, advice, err) ? -1
											       : 0;
}

int mistaken_directory(const struct io *io, const char *directory, struct err *err)
{
	if (check_cache(io, directory, err) || check_others(io, directory, err))
		return -1;
	return err_set(err, ERR_INPUT, "found no %s, %s or other .safetensors file in '%s'",
		       INDEX_NAME, MODEL_NAME, directory);
}
