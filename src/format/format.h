/* SPDX-License-Identifier: Apache-2.0
 *
 * A format decides names, shapes, types and configuration of a quantized checkpoint.  It never sees
 * a weight and never decides a number.  One file format_<name>.c with one row each, listed by the
 * build; what a format can say is a table of variants (variant.h).  detect.h reads the same
 * tables backwards.
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

/* What is true of a set of quantized modules, in the words that formats share. */
struct scheme {
	enum granularity granularity;
	struct tile tile; /* of the weight */
	enum fp8_format fp8_format;
	bool pow2;	   /* all scales are powers of two: "ue8m0" */
	bool static_input; /* activations have a static input_scale */
};

struct scheme scheme_from_qspec(const struct qspec *weight, bool static_input);

/* "per-tensor static", "per-tensor dynamic", "channelwise", "blockwise 128x128" or "mxfp8", for
 * messages. */
#define SCHEME_NAME_SIZE 64
void scheme_name(const struct scheme *scheme, char name[SCHEME_NAME_SIZE]);

/* A tensor that a format puts beside a weight. */
struct scale_decl {
	char *name; /* to be freed by who asked for it */
	enum dtype dtype;
	int n_dims;
	uint64_t shape[4];
};

/* What the configuration is to say. */
struct module_set {
	struct scheme scheme;
	const char *const *modules; /* full module paths, sorted: "model.layers.0.mlp.up_proj" */
	size_t n_modules;
};

struct quantization {
	const struct module_set *sets; /* the first is the default one: it has the most modules */
	size_t n_sets;
	const char *const *kept; /* linear modules left in high precision, by full path, sorted */
	size_t n_kept;
	bool kv_cache;
	enum engine target;
	const char *tool_version;
};

struct variant;
struct declaration;
struct config_check;

struct format {
	const char *name; /* "compressed-tensors" */
	const char *summary;
	const char *const *methods;	/* its words of quant_method; NULL at the end */
	const struct variant *variants; /* what it can say; ends in an empty row */

	/* Why one file may not hold sets of different schemes; [ENGINE_ANY] for all engines, NULL:
	 * it may. */
	const char *refused_mixed[N_ENGINES];

	/* The KV cache scale beside an attention module, '?' being k or v, of kv_dims dimensions
	 * (all 1); NULL: there is no place for one. */
	const char *kv_scale;
	int kv_dims;

	/* Writes the configuration.  Called by format_configure(), which has checked what follows
	 * from the variants.  NULL: the format is only read. */
	int (*configure)(const struct format *format, const struct quantization *quantization,
			 struct buf *config, struct buf *hf_quant_config, struct err *err);

	/* Reads a configuration with one of its methods (read_config.h). */
	void (*read)(const json_t *config, struct declaration *said);

	/* Reports what loaders refuse or misread in one (check_config.h); NULL: nothing. */
	void (*check)(const struct config_check *check);
};

extern const struct format *const formats[]; /* by name; generated; NULL at the end */

/* The format for a scheme: by name, or (name NULL) what the target loads, or the default of
 * fp8conv-formats(7).  All is checked; recipe is a word for the message.  NULL with ERR_USAGE,
 * which says what would load. */
const struct format *format_select(const char *name, enum engine target,
				   const struct scheme *scheme, const char *recipe,
				   struct err *err);

/* Why the format cannot hold a weight of (rows, cols), as a phrase for the plan; NULL if it can.
 * The scheme was checked. */
const char *format_refuse_shape(const struct format *format, const struct scheme *scheme,
				enum engine target, uint64_t rows, uint64_t cols);

/* The scale tensor of weight `name` ("X.weight") of (rows, cols).  The scheme was checked. */
void format_scale(const struct format *format, const struct scheme *scheme, enum engine target,
		  const char *name, uint64_t rows, uint64_t cols, struct scale_decl *decl);

/* The static scale of that weight's input.  The scheme was checked and has static_input. */
void format_input_scale(const struct format *format, const struct scheme *scheme,
			enum engine target, const char *name, struct scale_decl *decl);

/* The scale of what an attention module ("model.layers.0.self_attn") caches; which is 'k' or 'v'.
 * Both are written, or neither.  Only where format.kv_scale is set. */
void format_kv_scale(const struct format *format, const char *attention, char which,
		     struct scale_decl *decl);

/* The refusal of KV cache scales by a format without a place for them.  Returns -1. */
int format_refuse_kv(const struct format *format, struct err *err);

/* config: JSON text for config.json's "quantization_config".  hf_quant_config: the whole text of
 * hf_quant_config.json, left empty by formats without one.  ERR_USAGE where the format or the
 * target cannot have it: sets of different schemes, experts, KV cache scales. */
int format_configure(const struct format *format, const struct quantization *quantization,
		     struct buf *config, struct buf *hf_quant_config, struct err *err);

#endif
