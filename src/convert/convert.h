/* SPDX-License-Identifier: Apache-2.0
 *
 * A conversion: plan, then execute.  A plan holds every name, type, shape, offset and size before
 * the first byte is written. Each command that writes a checkpoint makes one in its own way
 * (quantize.h, dequantize.h, repack.h); --dry-run prints it; all are executed here, and the
 * execution checks itself against the plan.
 */
#ifndef FP8CONV_CONVERT_CONVERT_H
#define FP8CONV_CONVERT_CONVERT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "backend/backend.h"
#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"
#include "select/select.h"
#include "recipe/recipe.h"

enum on_nonfinite { NONFINITE_ERROR, NONFINITE_SATURATE, NONFINITE_SKIP };

/* What all conversions are asked. */
struct convert_params {
	const struct io *io;
	const char *input;    /* MODEL, or "-" */
	const char *output;   /* OUT, or "-"; NULL with dry_run is allowed */
	const char *temp_dir; /* where streams are spooled */
	const char *preserve; /* --preserve-high-precision DIR, or NULL */
	enum on_nonfinite on_nonfinite;

	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes for buffers; 0 is the default, 192 MiB */

	bool restart;
	bool hashes; /* --manifest: SHA-256 of every input and output file */
	int part;    /* I of --part I/N, from 1; 0: everything */
	int n_parts;
	/* --part finish: only index, config and auxiliary files, once every shard is there */
	bool part_finish;
};

/* What a tensor of the output is made of. */
enum output_kind {
	OUTPUT_COPY,	 /* the bytes of its source */
	OUTPUT_CODES,	 /* its unit, quantized */
	OUTPUT_SCALE,	 /* written with the codes, which stand before it */
	OUTPUT_VALUES,	 /* its unit, whose source is FP8, as values */
	OUTPUT_VALUE,	 /* one fp32 that the plan knows */
	OUTPUT_RESCALED, /* scales in another type or for other tiles (recode.h) */
};

struct output {
	size_t unit; /* in selection.units */
	enum output_kind kind;
	float value;			 /* OUTPUT_VALUE */
	const struct tensor_ref *source; /* its unit's, or a scale of it */
};

/* What a calibration says of the KV cache of an attention. */
struct cache_scale {
	size_t unit;	 /* beside which it lies */
	char *attention; /* "model.layers.0.self_attn" */
	char which;	 /* 'k' or 'v' */
	float scale_inv;
};

struct output_shard {
	const char *name;	      /* same as the input's */
	const struct st_file *source; /* the input's */
	size_t n_tensors;
	struct st_tensor *tensors; /* laid out; by unit, codes before scale */
	struct output *outputs;	   /* what each of them is made of; NULL for preserved sources */
	uint64_t header_size;	   /* bytes; output_shard_header() makes them */
	uint64_t data_size;	   /* bytes behind the header */
};

struct plan {
	const struct io *io; /* the source's */
	const char *command; /* that made it */
	json_t *options;     /* all that decides the output's bytes, for the manifest */
	struct checkpoint source;
	struct selection selection;
	const struct format *format;
	const struct recipe *recipe; /* NULL, as format: it is dequantized */
	const char *dtype;	     /* dequantized: to "bf16", "f16" or "f32"; else NULL */
	struct qspec spec;	     /* of recipe, tuned */
	enum engine target;
	bool kv_cache;	    /* it has scales of KV caches */
	struct arena texts; /* names and shapes of outputs, and specs, where they are no others' */
	/* by unit: its first output in the shard of its source; the others follow it */
	size_t *unit_outputs;
	size_t n_shards;
	struct output_shard *shards; /* one per source shard */
	/* one per source shard: the sources of what is quantized; NULL if not asked for */
	struct output_shard *preserved;
	size_t *unit_preserved;	    /* by unit: index in the preserved shard's tensors */
	const struct qspec **specs; /* by unit; of quantized units, or just the one above */
	/* by group: its first unit; the others by group_next[unit], until SIZE_MAX */
	size_t *group_first;
	size_t *group_next;
	/* by group, of whole tensors: known from a calibration, else NaN; NULL: none is */
	float *group_amax;
	float *input_scale_inv; /* by unit, of those with static_input; NULL: there are none */
	size_t n_caches;
	struct cache_scale *caches; /* by unit, k before v */
	int stream_fd;		    /* the spooled input stream, or -1 */
	size_t n_converted, n_kept; /* units */
	uint64_t input_bytes;	    /* of tensors */
	uint64_t output_bytes;	    /* of tensors; the index's total_size */
	uint64_t disk_bytes;	    /* of files, auxiliary ones included */
	uint64_t memory_bytes;	    /* of buffers */
	struct buf config;	    /* config.json as it will be written */
	struct buf hf_quant_config; /* empty where the format has none */
	uint64_t index_size; /* bytes of model.safetensors.index.json; 0 where one file is enough */
};

struct convert_result {
	uint64_t saturated;
	uint64_t nonfinite;
	/* tensor with the lowest SQNR, in the plan; NULL if nothing was quantized in this run */
	const char *worst;
	double worst_sqnr;   /* dB */
	uint64_t bytes;	     /* of the source, that this run went through */
	size_t shards_done;  /* written by this run */
	size_t shards_found; /* finished before */
	/* index and config are there: always, save for a part that was not the last */
	bool complete;
};

/* What an output path means: "-", a name that ends in .safetensors, or a directory. */
enum destination { DESTINATION_STREAM, DESTINATION_FILE, DESTINATION_DIRECTORY };
enum destination destination_of(const char *output);

/* Executes the plan: all or nothing per file, index and config last. */
int convert_run(const struct plan *plan, const struct convert_params *params,
		struct progress *progress, struct convert_result *result, struct err *err);

/* The shard's first bytes, put into an empty buf. */
void output_shard_header(const struct output_shard *shard, struct buf *header);

void plan_release(struct plan *plan);

#endif
