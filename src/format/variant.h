/* SPDX-License-Identifier: Apache-2.0
 *
 * A variant: one way in which a format says one scheme, and which engines read it
 * (fp8conv-formats(7)). Formats are tables of these; nothing that differs between formats in names
 * or shapes is code.
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
	/* what its configuration calls it: quant_method, quant_algo or format; NULL ends the
	 * table */
	const char *method;

	/* Which scheme it says. */
	enum granularity granularity;
	bool static_input;
	struct tile tile; /* the only one it has, or {0, 0}: any */
	enum engine
		only_for; /* a spelling that is chosen with this target alone; else ENGINE_ANY */
	bool preferred;	  /* where neither format nor target was given */

	/* The tensors. */
	const char *weight_scale; /* what is added to the weight's name: "_scale_inv" */
	const char *input_scale;  /* with static_input: what takes the place of "weight" */
	enum scale_layout layout;
	enum dtype dtype;

	/* Why an engine does not load it; NULL: it does.  [ENGINE_ANY]: none does. */
	const char *refused[N_ENGINES];
	const char *refused_moe[N_ENGINES]; /* the same for models with experts */

	/* More words of its configuration; which are used is the format's business. */
	const char *weights;  /* strategy of weights */
	const char *inputs;   /* strategy of activations */
	const char *kept_key; /* the key of the list of modules left alone */
	const char *version;  /* the first of the format's package that reads it */
	bool null_block_size; /* "weight_block_size": null must stand there */
};

/* The variant that says the scheme: the target's own spelling if there is one.  NULL: the format
 * has none. */
const struct variant *variant_find(const struct format *format, const struct scheme *scheme,
				   enum engine target);

/* The scale that the row puts beside weight `name` of (rows, cols). */
void variant_scale(const struct variant *variant, struct tile tile, const char *name, uint64_t rows,
		   uint64_t cols, struct scale_decl *decl);

/* Would the row have put this scale beside that weight? */
bool variant_wrote(const struct variant *variant, struct tile tile, const struct st_tensor *weight,
		   const struct st_tensor *scale);

#endif
