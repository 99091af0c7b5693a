/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a "quantization_config" into terms that all formats share.  The row of each format
 * (format.h) reads the keys of that format.
 *
 * Order: config_find_quantization(), then config_read_declaration().
 */
#ifndef FP8CONV_FORMAT_READ_CONFIG_H
#define FP8CONV_FORMAT_READ_CONFIG_H

#include <jansson.h>

#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"

/* The facts that a configuration states. */
struct declaration {
	const char *format; /* NULL: the configuration has no relation to FP8 */
	bool declared;	    /* scheme is stated */
	struct scheme scheme;
	bool has_input;	  /* scheme.static_input is stated */
	bool weight_only; /* inputs stay in high precision */
	bool scale_fmt;	  /* "ue8m0" is stated */
	bool inverted;	  /* weight scales divide */
};

/* Sets *config to a new reference to "quantization_config" of config.json, at the top or in
 * text_config, else to its "compression_config", else to the object of hf_quant_config.json, else
 * to NULL.  ERR_INPUT where a file is not valid JSON. */
int config_find_quantization(const struct checkpoint *checkpoint, struct json_text hf_quant_config,
			     json_t **config, struct err *err);

/* Returns quant_method, or "" without it.  A configuration without quant_method but with an object
 * "quantization" is from hf_quant_config.json: "modelopt".  config may be NULL. */
const char *config_quant_method(const json_t *config);

/* Returns the object with the keys: ModelOpt has a level more in hf_quant_config.json. */
const json_t *config_keys(const json_t *config);

/* Returns the format whose row reads and checks the configuration, or NULL. */
const struct format *config_format(const json_t *config);

/* Returns the facts that the configuration states.  config may be NULL. */
struct declaration config_read_declaration(const json_t *config);

/* --- for the readers and checkers of formats --- */

/* Reads [rows, cols], two positive integers.  Returns false and keeps *tile for other values. */
bool config_tile(const json_t *list, struct tile *tile);

#endif
