/* SPDX-License-Identifier: Apache-2.0
 *
 * A checkpoint to read: a directory in Hugging Face layout (an index with shards, or one
 * model.safetensors), one .safetensors file, or an index.json.  Opening reads headers only; no file
 * stays open.
 *
 * Order: checkpoint_open(), checkpoint_survey() or checkpoint_open_fd(); checkpoint_rename();
 * checkpoint_find(), checkpoint_auxiliary(); checkpoint_release(), also after a failure.
 */
#ifndef FP8CONV_CKPT_CHECKPOINT_H
#define FP8CONV_CKPT_CHECKPOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/io.h"
#include "base/sort.h"
#include "base/text.h"
#include "ckpt/defect.h"
#include "ckpt/listing.h"
#include "ckpt/safetensors.h"

/* Names of a checkpoint's files. */
#define INDEX_NAME	     "model.safetensors.index.json"
#define MODEL_NAME	     "model.safetensors"
#define TORCH_INDEX_END	     ".bin.index.json" /* of files of torch.save() */
#define CONFIG_NAME	     "config.json"
#define CARD_NAME	     "README.md"	    /* the model card */
#define REPORT_PAGE_NAME     "report.html"	    /* a page about an output, by `report` */
#define HF_QUANT_CONFIG_NAME "hf_quant_config.json" /* of ModelOpt */
#define PARAMS_NAME	     "params.json"	    /* of Mistral's own layout */

/* A tensor of the checkpoint, and the shard that holds it. */
struct tensor_ref {
	const struct st_tensor *tensor;
	size_t shard; /* index in checkpoint.shards */
};

/* Orders tensors by the places of their bytes. */
COMPARISON(compare_tensor_places, struct tensor_ref,
	   ORDER(x->shard, y->shard) ?: ORDER(x->tensor->begin, y->tensor->begin))

/* What a module of TransformerEngine saves beside its weights, "NAME._extra_state": bytes.  It is
 * no tensor of the model. */
struct extra_state {
	struct tensor_ref ref;
	const unsigned char *bytes; /* NULL: they lie in the shard */
	/* the module's weights, one for each of its products; none where they have other names */
	size_t n_weights;
	const struct st_tensor **weights; /* (n_weights) */
};

struct shard {
	char *name;	     /* base name, as in the index: "model-00001-of-00002.safetensors" */
	struct st_file file; /* without by_name */
	/* the bytes of the tensors lie in pieces in checkpoint.parts, and `file` says how they
	 * would lie in one file (gathered.h); NULL: they lie in the file */
	struct gathered *gathered;
};

struct checkpoint {
	const struct io *io;
	char *path; /* as the user gave it */
	/* directory of the files; NULL for a single file or a stream (no config, no auxiliary
	 * files) */
	char *directory;
	size_t n_shards;
	struct shard *shards; /* by name, bytewise */
	size_t n_files;
	const struct shard *files; /* that hold the bytes: the shards, or the parts */
	size_t n_parts;
	struct shard *parts; /* files of gathered shards, without tensors */
	struct arena extra;  /* of their views; new names */
	size_t n_tensors;
	struct tensor_ref *tensors; /* of all shards, by shard, then by offset */
	struct tensor_ref *by_name; /* the same, sorted by name bytewise */
	size_t n_states;
	struct extra_state *states; /* which are not among the tensors */
	/* of checkpoint_open_part() and a survey: weight files that the whole checkpoint has and
	 * that are here; both 0 where it is finished */
	size_t n_expected, n_found;
	bool is_job;	/* the unfinished directory is an output of this program */
	bool has_index; /* there is a model.safetensors.index.json */
	/* there is one too, but of another build: the directory has none of the files that it names
	 * and one whole set of others, which are the shards */
	bool has_stale_index;
	bool has_total; /* of a survey: index_total is the index's total_size, in bytes */
	uint64_t index_total;
	struct buf config;   /* text of config.json; empty if there is none */
	uint64_t data_bytes; /* of all tensors, and of states in shards */
};

/* Opens path by these rules.  An index takes precedence over other files.  weight_map values are
 * base names that end in .safetensors (no '/', '\', NUL, control character, leading dot, at most
 * 255 bytes).  Symbolic links are followed and must end at regular files.  A tensor must be in
 * the shard that the index names; tensors missing from the index and duplicates over shards are
 * ERR_INPUT.  A directory without index or model.safetensors must have exactly one whole set of
 * files (file_set.h) or one *.safetensors file.  An index none of whose files is there is passed
 * over where the directory has model.safetensors or a whole set, and not both.  A directory with
 * the files of a distributed save has one shard for each file that they make together
 * (slices.h); one such file, and files of another program's ranks, are ERR_INPUT (mistaken.h).
 * A path that ends in .json is an index, with its shards in the same directory.  config.json has
 * at most 16 MiB, is not empty, and is not parsed.  An unfinished directory (unfinished.h, or an
 * index that names absent files) is ERR_INPUT.  n_threads read the shards of an index; the error
 * is that of the first bad shard, with any number of threads. */
int checkpoint_open(struct checkpoint *checkpoint, const struct io *io, const char *path,
		    int n_threads, struct err *err);

/* The same, but opens the files that an unfinished directory has. */
int checkpoint_open_part(struct checkpoint *checkpoint, const struct io *io, const char *path,
			 struct err *err);

/* The same for a caller that lists all defects: leaves out shards that cannot be read, and keeps
 * all tensors of one name.  defects gets these, and every false statement of the index, total_size
 * included.  ERR_INPUT where nothing can be read. */
int checkpoint_survey(struct checkpoint *checkpoint, const struct io *io, const char *path,
		      struct defects *defects, struct err *err);

/* Opens the one file fd (a spooled stream) as a checkpoint; name is for messages. */
int checkpoint_open_fd(struct checkpoint *checkpoint, const struct io *io, int fd, const char *name,
		       struct err *err);
void checkpoint_release(struct checkpoint *checkpoint);

/* Renames tensors by the expressions of --rename (base/rename.h), one after the other.  The files
 * stay as they are, and their index has the old names.  ERR_USAGE with both tensors where two would
 * have one name, for a name that no file may have, and for an expression that matches no tensor. */
int checkpoint_rename(struct checkpoint *checkpoint, const struct texts *renames, struct err *err);

/* Returns what to do about an unfinished directory, for messages. */
const char *checkpoint_advice(const struct checkpoint *checkpoint);

/* Is there a shard of that name, or a file with the bytes of shards? */
bool checkpoint_has_shard(const struct checkpoint *checkpoint, const char *name);

/* Adds a state, whose ref is as long-lived as the checkpoint.  For its readers. */
void checkpoint_add_state(struct checkpoint *checkpoint, const struct extra_state *state);

/* Returns the tensor of that name, or NULL, in O(log n). */
const struct tensor_ref *checkpoint_find(const struct checkpoint *checkpoint, const char *name);

/* Lists the auxiliary files of the checkpoint's directory that belong in a converted copy: paths
 * relative to it, sorted, with those in subdirectories.  The caller releases the listing, which is
 * empty after a failure.  A single file has none.  Left out are:
 *   - weights in other containers (*.bin, *.pth, *.pt, *.ckpt, *.gguf, *.h5, *.msgpack, *.onnx*,
 *     *.ot, *.distcp) and pickles (*.pkl, *.pickle, *.joblib, *.dill), in upper or lower case;
 *   - *.safetensors and *.index.json at the top that are not of the model; in a subdirectory where
 *     they are the whole model once more, another layout of it (original/) or slices;
 *   - adapter_config.json without adapter_model.safetensors;
 *   - links to directories, which are not followed;
 *   - without being listed by checkpoint_left_out(): the files of the model, config.json,
 *     hf_quant_config.json and fp8conv* at the top, outputs of this program, dot files.
 * ERR_INPUT for anything else that is not a regular file or a link to one, for a directory with the
 * name of a file that loaders read ("tokenizer.json"), and for such a file of 0 bytes. */
int checkpoint_auxiliary(const struct checkpoint *checkpoint, struct listing *files,
			 struct err *err);

/* Lists what checkpoint_auxiliary() leaves out, in the same way; links to directories end in a
 * slash. */
int checkpoint_left_out(const struct checkpoint *checkpoint, struct listing *files,
			struct err *err);

#endif
