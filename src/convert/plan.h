/* SPDX-License-Identifier: Apache-2.0
 *
 * A plan holds every name, type, shape, offset and size before the first byte is written.
 *
 * Making one: plan_open(), the selection, plan_specs_begin(), plan_begin(), plan_add() for each
 * output in the order of the units, plan_layout(), the configuration, plan_finish().
 */
#ifndef FP8CONV_CONVERT_PLAN_H
#define FP8CONV_CONVERT_PLAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/progress.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"
#include "recipe/recipe.h"
#include "select/select.h"

struct convert_params;

/* Which command's plan it is; the manifest records the word. */
enum conversion { CONVERT_QUANTIZE, CONVERT_DEQUANTIZE, CONVERT_REPACK };

#define CONVERSION_WORDS "quantize|dequantize|repack"

/* What a tensor of the output is made of. */
enum output_kind {
	OUTPUT_COPY,	 /* the bytes of its source */
	OUTPUT_CODES,	 /* its unit, quantized */
	OUTPUT_SCALE,	 /* written with the codes, which stand before it */
	OUTPUT_VALUES,	 /* its unit, whose source is FP8, as values */
	OUTPUT_VALUE,	 /* one fp32 that the plan knows */
	OUTPUT_RESCALED, /* scales in another type or for other tiles (rescale.h) */
};

struct output {
	size_t unit; /* in selection.units */
	enum output_kind kind;
	float value;			 /* OUTPUT_VALUE */
	const struct tensor_ref *source; /* its unit's, or a scale of it */
};

struct output_shard {
	const char *name;	      /* same as the input's */
	const struct st_file *source; /* the input's */
	size_t n_tensors;
	struct st_tensor *tensors; /* laid out; by unit, codes before scale */
	struct output *outputs;	   /* what each of them is made of; NULL for preserved sources */
	uint64_t header_size;	   /* bytes; output_shard_header() makes them */
	uint64_t data_size;	   /* bytes after the header */
};

/* Beside a unit of the selection. */
struct plan_unit {
	const struct qspec *spec; /* its own, or the plan's */
	size_t first_output;	  /* in the shard of its source; its others follow */
	size_t preserved;	  /* its source in the preserved shard's tensors */
	float input_scale_inv;	  /* with static_input */
	size_t next_in_group;	  /* the next unit of its scale group; SIZE_MAX: none */
};

/* Units of one per-tensor scale. */
struct plan_group {
	size_t first; /* unit; SIZE_MAX: none is quantized */
	float amax;   /* of all its weights, where a calibration tells it; else NaN */
};

/* What a calibration says of the KV cache of an attention. */
struct cache_scale {
	size_t unit;	 /* beside which it lies */
	char *attention; /* "model.layers.0.self_attn" */
	char which;	 /* 'k' or 'v' */
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
	uint64_t disk_bytes;	    /* of files, auxiliary ones included */
	uint64_t memory_bytes;	    /* of buffers */
};

/* The small files that make the output a checkpoint. */
struct plan_texts {
	struct buf config;	    /* config.json */
	struct buf hf_quant_config; /* empty where the format has none */
	uint64_t index_size;	    /* bytes of the index; 0 where one file is enough */
};

struct plan {
	enum conversion conversion;
	json_t *options; /* all that decides the output's bytes, for the manifest */
	struct checkpoint source;
	int stream_fd; /* the spooled input stream, or -1 */

	const struct recipe *recipe; /* NULL, as format: CONVERT_DEQUANTIZE */
	const struct format *format;
	const char *dtype; /* CONVERT_DEQUANTIZE: "bf16", "f16" or "f32"; else NULL */
	struct qspec spec; /* of recipe, tuned */
	enum engine target;
	bool kv_cache; /* it has scales of KV caches */

	struct selection selection;
	struct plan_unit *units;   /* by unit of the selection */
	struct plan_group *groups; /* by scale group; CONVERT_QUANTIZE */
	struct plan_caches caches;
	struct arena texts; /* names and shapes of outputs, and specs, that the plan made */

	size_t n_shards;
	struct output_shard *shards;	/* one per source shard */
	struct output_shard *preserved; /* the sources of what is quantized; NULL: not asked for */
	struct plan_totals totals;
	struct plan_texts files;
};

/* Opens the source.  ERR_USAGE where it and the output do not go together. */
int plan_open(struct plan *plan, const struct convert_params *params, struct progress *progress,
	      struct err *err);

/* Every unit gets the plan's spec, whatever it had. */
void plan_specs_begin(struct plan *plan);

/* Unit u gets a spec of its own; units that follow each other share what is equal. */
void plan_spec_set(struct plan *plan, size_t u, const struct qspec *spec);

/* Room for the outputs of n_units units.  preserve: for those of plan.preserved too. */
void plan_begin(struct plan *plan, size_t n_units, bool preserve);

/* From here on plan_add() is about unit u. */
void plan_unit_begin(struct plan *plan, size_t u);

/* An output to add.  name must outlive the plan, the shape is copied. */
struct output_decl {
	enum output_kind kind;
	const struct tensor_ref *source; /* NULL: the unit's */
	char *name;
	enum dtype dtype;
	int n_dims;
	const uint64_t *shape;
};

/* One more output of unit u, in the shard of the unit's source.  Returns it, until the next is
 * added. */
struct output *plan_add(struct plan *plan, size_t u, const struct output_decl *decl);

/* The same for a scale as the format declares it; its name becomes the plan's. */
struct output *plan_add_scale(struct plan *plan, size_t u, enum output_kind kind,
			      const struct tensor_ref *source, struct scale_decl *decl);

/* A unit that stays as it is: its one output. */
void plan_keep(struct plan *plan, size_t u);

/* One more tensor of a shard, its name and shape to outlive the plan. */
void output_shard_add(struct output_shard *shard, const struct st_tensor *tensor);

/* Places, headers, indexes and byte counts.  ERR_INPUT: two outputs of one name. */
int plan_layout(struct plan *plan, struct err *err);

/* plan_config.c: config.json and hf_quant_config.json, for units that have recipe and spec, or are
 * kept.  ERR_USAGE where the format cannot have it. */
int plan_configuration(struct plan *plan, struct err *err);

/* What is known when config and hf_quant_config are there: the disk space, the progress to make. */
int plan_finish(struct plan *plan, struct progress *progress, struct err *err);

/* The shard's first bytes, put into an empty buf. */
void output_shard_header(const struct output_shard *shard, struct buf *header);

/* "quantize": the command that the plan is of. */
const char *plan_command(const struct plan *plan);

void plan_release(struct plan *plan);

#endif
