/* SPDX-License-Identifier: Apache-2.0
 *
 * A format decides names, shapes, types and configuration of a quantized checkpoint.  It never
 * reads a weight and never decides a number.  Each format is one file format_<name>.c with one row,
 * listed by the build; its schemes are a table of variants (variant.h).  detect.h uses the same
 * tables to read checkpoints.
 *
 * Order: format_select(); for each weight format_refuse_shape(), then format_scale() and
 * format_input_scale(); for each attention module format_kv_scale(); last format_configure().
 *
 * Source: the loaders of vLLM 7cfb97e, SGLang 0.5.15, TensorRT-LLM, transformers 5.23.0;
 * compressed-tensors 0.20.0; ModelOpt a2fbac7.
 */
#ifndef FP8CONV_FORMAT_FORMAT_H
#define FP8CONV_FORMAT_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/buf.h"
#include "base/err.h"
#include "format/engine.h"
#include "num/dtype.h"
#include "num/qspec.h"

/* How a set of modules is quantized, in terms that all formats share. */
struct scheme {
	enum granularity granularity;
	struct tile tile; /* of the weight */
	enum fp8_format fp8_format;
	bool pow2;	   /* all scales are powers of two: "ue8m0" */
	bool static_input; /* activations have a static input_scale */
};

/* Returns the scheme of weights that are quantized by the spec. */
struct scheme scheme_from_qspec(const struct qspec *weight, bool static_input);

/* Writes "per-tensor static", "per-tensor dynamic", "channelwise", "blockwise 128x128" or "mxfp8",
 * for messages. */
#define SCHEME_NAME_SIZE 64
void scheme_name(const struct scheme *scheme, char name[SCHEME_NAME_SIZE]);

/* A scale tensor that a format adds for a weight or an attention module. */
struct scale_decl {
	char *name; /* the caller frees it */
	enum dtype dtype;
	int n_dims;
	uint64_t shape[4];
};

/* Modules of one scheme, for the configuration. */
struct module_set {
	struct scheme scheme;
	const char *const *modules; /* full module paths, sorted: "model.layers.0.mlp.up_proj" */
	size_t n_modules;
};

/* Low-bit weights that an output takes over from its source as they are, with what the source's
 * configuration says of them. */
struct passed {
	const json_t *config;	    /* the source's "quantization_config"; NULL: missing */
	const char *expert_dtype;   /* of config.json, "" without one */
	const char *kind;	    /* low_bit_kind() */
	const char *const *modules; /* full paths */
	size_t n_modules;	    /* 0: there are none */
};

/* The contents of a configuration. */
struct quantization {
	const struct module_set *sets; /* the first is the default one: it has the most modules */
	size_t n_sets;
	const char *const *tables; /* embeddings in FP8, by full path, sorted */
	size_t n_tables;
	const char *const *kept; /* linear modules left in high precision, by full path, sorted */
	size_t n_kept;
	bool kv_cache;
	bool kv_heads;	  /* each head has its own scales of the cache */
	bool weight_only; /* activations stay in high precision, where the format can say so */
	enum engine target;
	const char *tool_version;
	struct passed passed;
};

struct variant;
struct declaration;
struct config_check;

/* How engines know that lm_head is FP8: never, by a target that names it ("Linear" does not mean
 * ParallelLMHead), or because the list of kept modules lacks it.
 *
 * Source: vLLM 0.32 and SGLang 0.5.23, compressed_tensors.py get_lm_head_scheme(), modelopt.py. */
enum fp8_head { FP8_HEAD_NEVER, FP8_HEAD_NAMED, FP8_HEAD_UNLISTED };

struct format {
	const char *name; /* "compressed-tensors" */
	const char *summary;
	const char *const *methods;	/* values of quant_method; NULL at the end */
	const struct variant *variants; /* its schemes; ends in an empty row */

	/* The reason of an engine, [ENGINE_ANY] of all, to refuse sets of different schemes in one
	 * checkpoint; NULL: no refusal. */
	const char *refused_mixed[N_ENGINES];

	/* What engines append to the prefix of a layer's experts ("...mlp.experts") when they look
	 * for them in the list of kept modules; NULL at the end.  NULL: they look for the prefix
	 * itself. */
	const char *const *kept_experts;
	enum fp8_head head; /* what it takes for engines to load lm_head in FP8 */

	/* Whether its configuration can name embeddings in FP8. */
	bool tables;

	/* The suffix of the KV cache scale of an attention module, with '?' for k or v, and its
	 * number of dimensions (all 1); NULL: the format has no KV cache scales. */
	const char *kv_scale;
	int kv_dims;
	bool kv_heads; /* its configuration can say that each head has its own */

	bool weight_only; /* its configuration can say that activations stay in high precision */

	/* Whether the format can describe such weights beside its own; NULL: it cannot. */
	bool (*passes)(const struct passed *passed);

	/* Writes the configuration as format_configure() states.  The caller has made the checks
	 * that the variants allow.  NULL: the format is read only. */
	int (*configure)(const struct format *format, const struct quantization *quantization,
			 struct buf *config, struct buf *hf_quant_config, struct err *err);

	/* Reads a configuration that has one of the methods (read_config.h). */
	void (*read)(const json_t *config, struct declaration *said);

	/* Reports the keys of a configuration that loaders refuse or misread (member.h);
	 * NULL: no checks. */
	void (*check)(const struct config_check *check);
};

extern const struct format *const formats[]; /* by name; generated; NULL at the end */

/* Returns the row of that name, or NULL, also for NULL. */
const struct format *format_find(const char *name);

/* Returns the format for a scheme: that of the name, or without a name one that the target loads,
 * or the default of fp8conv-formats(7).  Returns NULL with ERR_USAGE where no engine in question
 * loads the scheme; the message suggests combinations that load.  recipe is a word for it. */
const struct format *format_select(const char *name, enum engine target,
				   const struct scheme *scheme, const char *recipe,
				   struct err *err);

/* A weight that a scale tensor belongs to: "X.weight" of (rows, cols), or of (experts, rows,
 * cols). */
struct scaled_weight {
	const char *name;
	uint64_t rows, cols;
	uint64_t experts; /* 0: one matrix */
};

/* Returns the reason, a phrase for the plan, for which the format cannot have the weight, or NULL.
 * format_select() or engine_check() must have accepted the scheme, here and below. */
const char *format_refuse_shape(const struct format *format, const struct scheme *scheme,
				enum engine target, const struct scaled_weight *weight);

/* Declares the scale tensor of a weight. */
void format_scale(const struct format *format, const struct scheme *scheme, enum engine target,
		  const struct scaled_weight *weight, struct scale_decl *decl);

/* Declares the static scale of that weight's input.  The scheme has static_input. */
void format_input_scale(const struct format *format, const struct scheme *scheme,
			enum engine target, const char *name, struct scale_decl *decl);

/* Declares the scale of an embedding table in FP8, from the name of the table or of a part of it:
 * one number, of the type that the engines make for it (transformers' FP8Embedding, vLLM's
 * Qwen4ExpPLEFp8EmbeddingMethod). */
void format_table_scale(const char *name, struct scale_decl *decl);

/* What an attention module caches. */
struct cached {
	const char *attention; /* "model.layers.0.self_attn" */
	char which;	       /* 'k' or 'v' */
	bool latent;	       /* of latent attention, which caches one vector for both */
};

/* Declares the scale of cached keys or values; a checkpoint has both or neither.  Requires
 * format->kv_scale. */
void format_kv_scale(const struct format *format, const struct cached *cached,
		     struct scale_decl *decl);

/* Refuses KV cache scales for a format that does not support them: ERR_USAGE.  Returns -1. */
int format_refuse_kv(const struct format *format, struct err *err);

/* ERR_USAGE where the format or the target refuses the schemes, sets of different ones, experts,
 * the head, low-bit weights beside FP8, or KV cache scales. */
int format_check(const struct format *format, const struct quantization *quantization,
		 struct err *err);

/* Appends the value of config.json's "quantization_config" to config, as JSON text, and the whole
 * hf_quant_config.json to hf_quant_config, which formats without that file leave empty.  ERR_USAGE
 * as format_check() says. */
int format_configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err);

#endif
