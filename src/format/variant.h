/* SPDX-License-Identifier: Apache-2.0
 *
 * A variant: one way in which a format says one scheme, and the engines that load it
 * (fp8conv-formats(7)).  A format is a table of variants, so that names and shapes are data.
 */
#ifndef FP8CONV_FORMAT_VARIANT_H
#define FP8CONV_FORMAT_VARIANT_H

#include "ckpt/safetensors.h"
#include "format/format.h"

/* The shape of a weight's scale tensor, for a weight of [out, in]. */
enum scale_layout {
	LAYOUT_SCALAR,	/* [] */
	LAYOUT_ONE,	/* [1] */
	LAYOUT_OUT,	/* [out] */
	LAYOUT_OUT_ONE, /* [out, 1] */
	LAYOUT_GRID,	/* [ceil(out / tile.rows), ceil(in / tile.cols)] */
	LAYOUT_GRID_4D, /* [out / tile.rows, 1, in / tile.cols, 1]: whole tiles only */
};

struct variant {
	/* its name in the configuration: quant_method, quant_algo or format; NULL ends the table */
	const char *method;

	/* The scheme. */
	enum granularity granularity;
	bool static_input;
	struct tile tile;     /* the only possible tile; {0, 0}: any */
	enum engine only_for; /* chosen for this target only; else ENGINE_ANY */
	bool preferred;	      /* chosen where the user gave neither format nor target */

	/* The tensors. */
	const char *weight_scale; /* suffix of the weight's name: "_scale_inv" */
	const char *input_scale;  /* with static_input: replaces "weight" in the name */
	enum scale_layout layout;

	unsigned unread; /* bits of the engines that look for other names of these tensors */

	/* The reason for which an engine does not load it; NULL: loads.  [ENGINE_ANY]: the reason
	 * of all engines. */
	const char *refused[N_ENGINES];
	const char *refused_moe[N_ENGINES];   /* the same for models with experts */
	const char *refused_mixed[N_ENGINES]; /* the same beside modules of other schemes */
	/* the same for weights whose last blocks have fewer rows, and fewer columns */
	const char *refused_rows[N_ENGINES];
	const char *refused_cols[N_ENGINES];
	/* what engines do to weights that they merge where a part ends in a partial block of rows;
	 * [ENGINE_ANY]: silently; NULL: they refuse them */
	const char *misread_merged[N_ENGINES];

	/* More words of the configuration, which each format uses in its own way. */
	const char
		*kept_key; /* key of the list of modules in high precision; NULL: the usual one */
	const char *layer; /* its name for a single module; NULL: method */
	bool null_block_size; /* requires "weight_block_size": null */
};

/* Returns the type of the variant's scales: exponents for MX. */
static inline enum dtype variant_dtype(const struct variant *variant)
{
	return variant->granularity == GRANULARITY_MX ? DT_U8 : DT_F32;
}

/* Returns the variant that says the scheme, preferably the one for the target, or NULL. */
const struct variant *variant_find(const struct format *format, const struct scheme *scheme,
				   enum engine target);

/* Whether the target looks for the names of the variant; ENGINE_ANY: some engine does. */
bool variant_is_read(const struct variant *variant, enum engine target);

/* Whether only engines that take [] and [1] alike read the variant: vLLM and SGLang reshape a scale
 * of one number (their linear.py and parameter.py). */
bool variant_takes_number(const struct variant *variant, enum engine target);

/* Declares the scale of the weight in this variant.  The caller frees
 * decl->name. */
void variant_scale(const struct variant *variant, struct tile tile,
		   const struct scaled_weight *weight, struct scale_decl *decl);

/* Whether the variant declares a scale of this name, shape and type for that weight. */
bool variant_wrote(const struct variant *variant, struct tile tile, const struct st_tensor *weight,
		   const struct st_tensor *scale);

#endif
