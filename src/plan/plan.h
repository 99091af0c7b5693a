/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan holds every name, type, shape, offset and size before the first byte is written.
 *
 * Order, to make one: plan_open(); the selection; plan_specs_begin(); plan_begin();
 * plan_unit_begin() and plan_add() for each output, in the order of the units; plan_layout(); the
 * configuration; plan_finish().  plan_release() at the end, also after a failure.
 */
#ifndef FP8CONV_PLAN_PLAN_H
#define FP8CONV_PLAN_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "ranks/group.h"
#include "base/io.h"
#include "backend/backend.h"
#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "compensate/compensate.h"
#include "format/format.h"
#include "recipe/recipe.h"
#include "select/select.h"
#include "select/skip_list.h"

enum on_nonfinite { NONFINITE_ERROR, NONFINITE_SATURATE, NONFINITE_SKIP };

/* Bytes for buffers without --max-memory. */
#define DEFAULT_MAX_MEMORY ((uint64_t)192 << 20)

/* The parameters of every conversion. */
struct convert_params {
	const struct io *io;
	const char *input;    /* MODEL, or "-" */
	struct texts renames; /* of its tensors */
	const char *output;   /* OUT, or "-"; may be NULL for a dry run */
	const char *temp_dir; /* directory for spooled streams */
	const char *preserve; /* --preserve-high-precision DIR, or NULL */
	enum on_nonfinite on_nonfinite;

	const struct backend *backend;
	int n_threads;	     /* >= 1 */
	uint64_t max_memory; /* bytes for buffers; 0: the default, 192 MiB */
	uint64_t io_memory;  /* bytes of these that the I/O table uses */
	/* the ranks that share compensated rounding, of which the leading one writes; NULL: this
	 * process does all */
	const struct group *group;

	bool exact; /* --exact: change no value of a low-bit weight, or make nothing */
	bool restart;
	bool hashes;			/* --manifest: SHA-256 of every input and output file */
	const struct signing_key *sign; /* --sign, with hashes; NULL: no signature */
	uint64_t max_shard_size; /* bytes of an output file's tensors; 0: files as the source's */
	int part;		 /* I of --part I/N, from 1; 0: everything */
	int n_parts;
	/* --part finish: write only index, config and auxiliary files, after every shard is
	 * there */
	bool part_finish;
};

/* The meanings of an output path: "-", a name that ends in .safetensors, or a directory. */
enum destination { DESTINATION_STREAM, DESTINATION_FILE, DESTINATION_DIRECTORY };
enum destination destination_of(const char *output);

/* The command of the plan; the manifest records the word. */
enum conversion { CONVERT_QUANTIZE, CONVERT_DEQUANTIZE, CONVERT_REPACK };

/* The contents of a tensor of the output. */
enum output_kind {
	OUTPUT_COPY,	 /* the bytes of its source; of FP8 codes, of its unit alone */
	OUTPUT_PART,	 /* the bytes of its unit, which is a part of the source */
	OUTPUT_CODES,	 /* its unit, quantized */
	OUTPUT_SCALE,	 /* written with the codes, which come before it */
	OUTPUT_VALUES,	 /* its unit, whose source is FP8, dequantized */
	OUTPUT_VALUE,	 /* one fp32 number in the plan */
	OUTPUT_RESCALED, /* scales in another type, for other tiles or of a part (rescale.h) */
};

/* Indices have 32 bits here: a plan may have millions of them. */
struct output {
	uint32_t unit; /* in selection.units */
	enum output_kind kind;
	bool is_scale;			 /* its values are checked as scales */
	float value;			 /* OUTPUT_VALUE */
	const struct tensor_ref *source; /* the unit's, or a scale of it */
};

struct output_shard {
	const char *name;	      /* as the input's, unless plan.max_shard_size is set */
	const struct st_file *source; /* the input's, or that of its first tensor */
	size_t n_tensors;
	struct st_tensor *tensors; /* with offsets; by unit, codes before scale */
	struct output *outputs;	   /* contents of each tensor; NULL for preserved sources */
	uint64_t header_size;	   /* bytes of output_shard_header() */
	uint64_t data_size;	   /* bytes after the header */
	uint64_t input_bytes;	   /* of the source's tensors: its share of totals.input_bytes */
};

#define NO_UNIT UINT32_MAX

/* The plan's part of a unit of the selection. */
struct plan_unit {
	const struct qspec *spec; /* its own, or the plan's */
	uint32_t shard;		  /* of its outputs */
	uint32_t first_output;	  /* in that shard; the others follow */
	uint32_t preserved;	  /* index of its source in the preserved shard's tensors */
	uint32_t next_in_group;	  /* the next unit of its scale group, or NO_UNIT */
	float input_scale_inv;	  /* with static_input */
	bool same_codes;	  /* copies the source's codes and scales; CONVERT_QUANTIZE */
};

/* The units with one per-tensor scale. */
struct plan_group {
	uint32_t first; /* unit; NO_UNIT: none is quantized */
	float amax;	/* of all its weights, if a calibration has it; else NaN */
};

/* The scale of a KV cache, from a calibration. */
struct cache_scale {
	size_t unit;	 /* whose outputs it follows */
	char *attention; /* "model.layers.0.self_attn" */
	char which;	 /* 'k' or 'v' */
	bool latent;	 /* of latent attention, where k and v are the same */
	float scale_inv;
};

struct plan_caches {
	size_t n;
	struct cache_scale *list; /* by unit, k before v */
};

struct plan_totals {
	size_t n_converted, n_kept; /* units */
	uint64_t input_bytes;	    /* of tensors */
	uint64_t output_bytes;	    /* of tensors; the index's total_size */
	uint64_t disk_bytes;	    /* of files, with auxiliary ones */
	uint64_t memory_bytes;	    /* of buffers */
};

/* The small files that make the output a checkpoint. */
struct plan_texts {
	struct buf config;	    /* config.json; empty if the source has none */
	struct buf quantization;    /* else the quantization_config, for its users to add */
	struct buf hf_quant_config; /* empty if the format has none */
	struct buf params;	    /* params.json; empty: a copy of the source's, or none */
	bool has_params;	    /* engines read the source's params.json */
	bool params_say;	    /* it tells vLLM how the output is quantized */
	uint64_t index_size;	    /* bytes of the index; 0 for a single file */
};

/* Compensated rounding of the units that have a spec there. */
struct plan_rounding {
	struct compensate_plan plan;
	const struct qspec **specs; /* by unit */
	float *group_amax;	    /* by scale group */
};

struct plan {
	enum conversion conversion;
	json_t *options; /* all options that decide the output's bytes, for the manifest */
	struct checkpoint source;
	int stream_fd; /* the spooled input stream, or -1 */

	const struct recipe *recipe; /* recipe and format are NULL for CONVERT_DEQUANTIZE */
	const struct format *format;
	const char *dtype; /* CONVERT_DEQUANTIZE: "bf16", "f16" or "f32"; else NULL */
	struct qspec spec; /* of recipe, after tuning */
	enum engine target;
	bool kv_cache;	  /* the output has scales of KV caches */
	bool kv_heads;	  /* one for each head; CONVERT_REPACK */
	bool weight_only; /* activations stay in high precision; CONVERT_REPACK */

	struct profile profile; /* the rows of the model's family; not for CONVERT_DEQUANTIZE */
	struct selection selection;
	struct skip_list skipped;	/* kept modules that the configuration names */
	struct plan_unit *units;	/* by unit of the selection */
	struct plan_group *groups;	/* by scale group; CONVERT_QUANTIZE */
	struct plan_rounding *rounding; /* NULL: to nearest */
	struct plan_caches caches;
	struct arena texts; /* names and shapes of outputs, and specs */

	uint64_t max_shard_size; /* bytes; 0: one output shard per source shard */
	size_t n_shards;
	struct output_shard *shards;
	struct output_shard *preserved; /* the sources of quantized units; NULL: not requested */
	struct plan_totals totals;
	struct plan_texts files;
};

/* Opens the source.  ERR_USAGE if source and output do not fit together. */
int plan_open(struct plan *plan, const struct convert_params *params, struct progress *progress,
	      struct err *err);

/* Takes the rows of the source's family. */
int plan_take_profile(struct plan *plan, enum profile_level level, struct err *err);

/* Sets plan->format to the one that a row of the family prefers for the scheme, if there is one and
 * the target loads it.  Called where the user names none. */
void plan_prefer_format(struct plan *plan, const struct scheme *scheme);

/* Checks by values what headers of a coded source do not show: the tensors that repeat the shapes
 * of low-bit weights, and whether FP8 weights are multiplied by their scales.  Skips the scales if
 * a manifest shows that this program wrote them. */
int plan_check_source(struct plan *plan, const struct io *io, struct err *err);

/* Compares the source with the fingerprint of the model that the file at `path` is of: ERR_INPUT
 * where they differ. */
int plan_check_model(const struct plan *plan, const char *path, const char *fingerprint,
		     struct err *err);

/* Resets every unit to the plan's spec. */
void plan_specs_begin(struct plan *plan);

/* Gives unit u its own spec; adjacent units share equal specs. */
void plan_spec_set(struct plan *plan, size_t u, const struct qspec *spec);

/* Allocates the outputs of n_units units.  preserve: also the outputs of plan.preserved. */
void plan_begin(struct plan *plan, size_t n_units, bool preserve);

/* From now on, plan_add() adds outputs of unit u. */
void plan_unit_begin(struct plan *plan, size_t u);

/* An output to add.  name must outlive the plan; the shape is copied. */
struct output_decl {
	enum output_kind kind;
	const struct tensor_ref *source; /* NULL: the unit's */
	char *name;
	enum dtype dtype;
	int n_dims;
	const uint64_t *shape;
};

/* Adds an output of unit u to the shard of the unit's source.  Returns it; the pointer is valid
 * until the next call. */
struct output *plan_add(struct plan *plan, size_t u, const struct output_decl *decl);

/* The same for a scale as the format declares it; the plan takes over its name. */
struct output *plan_add_scale(struct plan *plan, size_t u, enum output_kind kind,
			      const struct tensor_ref *source, struct scale_decl *decl);

/* Adds the one output of a unit that is kept. */
void plan_keep(struct plan *plan, size_t u);

/* Adds a tensor to a shard; its name and shape must outlive the plan. */
void output_shard_add(struct output_shard *shard, const struct st_tensor *tensor);

/* shard_size.c: lays the outputs into files of at most plan.max_shard_size bytes of tensors, as
 * Hugging Face's split_torch_state_dict_into_shards() does; the outputs of a unit stay together. */
void plan_cut_shards(struct plan *plan);

/* Returns the place of the first output after i, in a shard with outputs, that is of another unit:
 * for (i = 0; i < n_tensors; i = output_unit_end(shard, i)) */
size_t output_unit_end(const struct output_shard *shard, size_t i);

/* Computes places, headers, index sizes and byte counts.  ERR_INPUT if two outputs have one
 * name. */
int plan_layout(struct plan *plan, struct err *err);

/* plan_config.c: makes config.json and hf_quant_config.json from the units' recipes and specs.
 * ERR_USAGE if the format cannot describe them. */
int plan_configuration(struct plan *plan, struct err *err);

/* plan_params.c: where the user names no format and engines read the source's params.json, takes
 * the format by which that can tell vLLM of the scheme. */
int plan_params_format(struct plan *plan, const struct scheme *scheme, struct err *err);

/* plan_params.c: where engines read the source's params.json, sets files.params to a params.json
 * that says so of a quantization_config (text) with the scheme, as far as vLLM reads it there;
 * quantization NULL: to one without such a statement. */
int plan_params(struct plan *plan, const struct scheme *scheme, const char *quantization,
		struct err *err);

/* Computes disk space and the progress's total, after config and hf_quant_config are made, and adds
 * the options of every conversion to plan->options. */
int plan_finish(struct plan *plan, const struct convert_params *params, struct progress *progress,
		struct err *err);

/* Returns the texts as a list, for plan->options. */
json_t *plan_texts_json(const struct texts *texts);

/* Writes the shard's header to an empty buf. */
void output_shard_header(const struct output_shard *shard, struct buf *header);

/* Returns the name of the plan's command: "quantize". */
const char *plan_command(const struct plan *plan);

void plan_release(struct plan *plan);

/* The low-bit weights that a plan quantizes, after splitting. */
struct low_bit_totals {
	size_t n;
	uint64_t n_values;
	const char *kind; /* "mxfp4"; NULL: none */
};
struct low_bit_totals low_bit_total(const struct plan *plan);

#endif
