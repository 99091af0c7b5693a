/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint to read: a directory in Hugging Face layout (an index with shards, or one
 * model.safetensors), one .safetensors file, or an index.json.  Opening reads headers only; no file
 * stays open.
 */
#ifndef FP8CONV_CKPT_CHECKPOINT_H
#define FP8CONV_CKPT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "ckpt/defect.h"
#include "ckpt/safetensors.h"

/* Names of a checkpoint's files. */
#define INDEX_NAME	     "model.safetensors.index.json"
#define MODEL_NAME	     "model.safetensors"
#define CONFIG_NAME	     "config.json"
#define HF_QUANT_CONFIG_NAME "hf_quant_config.json" /* of ModelOpt */

/* A tensor of the checkpoint: where it lies. */
struct tensor_ref {
	const struct st_tensor *tensor;
	size_t shard; /* index in checkpoint.shards */
};

struct shard {
	char *name;	     /* base name, as in the index: "model-00001-of-00002.safetensors" */
	struct st_file file; /* without by_name */
};

struct checkpoint {
	const struct io *io;
	char *path; /* as the user gave it */
	/* where its files lie; NULL for a single file or a stream (no config, no auxiliary
	 * files) */
	char *directory;
	size_t n_shards;
	struct shard *shards; /* by name, bytewise */
	size_t n_tensors;
	struct tensor_ref *tensors; /* of all shards, by shard, then by offset */
	struct tensor_ref *by_name; /* the same, sorted by name bytewise */
	bool has_index;		    /* it came with model.safetensors.index.json */
	bool has_total; /* of a survey: the index says that the tensors have so many bytes: */
	uint64_t index_total;
	struct buf config;   /* text of config.json; empty if there is none */
	uint64_t data_bytes; /* of all tensors */
};

/* Opens path.  Rules: the index wins over a glob; weight_map values are base names that end in
 * .safetensors (no '/', '\', NUL, control character, leading dot, at most 255 bytes); symbolic
 * links are followed and must end at regular files; a tensor must be in the shard the index says,
 * tensors that the index does not name and duplicates over shards are ERR_INPUT.  A directory
 * without index or model.safetensors is its one *.safetensors file, if there is exactly one.  A
 * path that ends in .json is an index; its shards lie beside it.  config.json: at most 16 MiB, not
 * parsed. The shards of an index are read by n_threads; the first that is bad gives the error,
 * whatever their number. */
int checkpoint_open(struct checkpoint *checkpoint, const struct io *io, const char *path,
		    int n_threads, struct err *err);

/* The same for whoever wants to know all that is wrong: shards that cannot be read are left out,
 * and tensors of one name are all there; defects lists them, and what the index says falsely,
 * total_size included.  ERR_INPUT where nothing can be read. */
int checkpoint_survey(struct checkpoint *checkpoint, const struct io *io, const char *path,
		      struct defects *defects, struct err *err);

/* A checkpoint of the one file that fd is (a spooled stream); name is for messages. */
int checkpoint_open_fd(struct checkpoint *checkpoint, const struct io *io, int fd, const char *name,
		       struct err *err);
void checkpoint_release(struct checkpoint *checkpoint);

/* The tensor of that name, or NULL.  log n. */
const struct tensor_ref *checkpoint_find(const struct checkpoint *checkpoint, const char *name);

/* The auxiliary files of the checkpoint's directory that belong in a converted copy: paths relative
 * to it, sorted, subfolders included; the caller frees each and the array.  None for a single
 * file.  Left out: *.safetensors, index files of weights (*.index.json), weights in other
 * containers (*.bin, *.pth, *.pt, *.ckpt, *.gguf, *.h5, *.msgpack, *.onnx*, *.ot), pickles (*.pkl,
 * *.pickle, *.joblib, *.dill), in whatever case; dot files and dot folders; at the top also
 * config.json, hf_quant_config.json and our own fp8conv*. Symbolic links to regular files count as
 * files; links to folders are not followed, links to nowhere are left out. */
int checkpoint_auxiliary(const struct checkpoint *checkpoint, char ***paths, size_t *n,
			 struct err *err);

#endif
