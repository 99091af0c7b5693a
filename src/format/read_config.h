/* SPDX-License-Identifier: Apache-2.0
 *
 * What a "quantization_config" says, in the words that formats share.  The keys of each format are
 * read by the format's own row (format.h).
 */
#ifndef FP8CONV_FORMAT_READ_CONFIG_H
#define FP8CONV_FORMAT_READ_CONFIG_H

#include <jansson.h>

#include "base/json.h"
#include "ckpt/checkpoint.h"
#include "format/format.h"

struct declaration {
	const char *format; /* NULL: nothing that has to do with FP8 */
	bool declared;	    /* the scheme below is said */
	struct scheme scheme;
	bool has_input; /* scheme.static_input is said */
	bool scale_fmt; /* "ue8m0" is claimed */
	bool inverted;	/* weight scales divide */
};

/* The object "quantization_config" of config.json, at the top or in text_config, else what
 * hf_quant_config.json says; a new reference in *config, NULL if there is none.  ERR_INPUT. */
int config_find_quantization(const struct checkpoint *checkpoint, struct json_text hf_quant_config,
			     json_t **config, struct err *err);

/* Its quant_method; "" if it has none.  A configuration without quant_method, but with an object
 * "quantization", is that of hf_quant_config.json: "modelopt".  config may be NULL. */
const char *config_quant_method(const json_t *config);

/* The row that reads and checks such a configuration; NULL: none does. */
const struct format *config_format(const json_t *config);

/* config may be NULL. */
struct declaration config_read_declaration(const json_t *config);

/* --- for the readers and checkers of formats --- */

/* The string under a key, "" if there is none. */
const char *config_text(const json_t *object, const char *key);

/* Reads [rows, cols], two positive integers.  False, and tile is as it was: it is not such a list.
 */
bool config_tile(const json_t *list, struct tile *tile);

#endif
