/* SPDX-License-Identifier: Apache-2.0
 *
 * The parts of the quantize job, in the order in which they run.
 */
#ifndef FP8CONV_JOB_QUANTIZE_INTERNAL_H
#define FP8CONV_JOB_QUANTIZE_INTERNAL_H

#include "ckpt/outdir.h"
#include "job/band.h"
#include "job/quantize.h"

#define DEFAULT_MAX_MEMORY ((uint64_t)192 << 20)

/* quantize_outputs.c: outputs, shards, layouts and totals, from the selection and its specs. */
int plan_outputs(struct quantize_plan *plan, bool preserve, struct err *err);

/* quantize_config.c: config.json, hf_quant_config.json and the indexes. */
int plan_configuration(struct quantize_plan *plan, struct err *err);

/* quantize_convert.c: the data of shards. */
struct converter;

/* A converter for the plan; *out is NULL on failure. */
int converter_new(struct converter **out, const struct quantize_plan *plan, const struct quantize_params *params,
		  struct progress *progress, struct err *err);
void converter_free(struct converter *converter);

/* Bytes of buffers for these parameters: what the plan prints, what converter_new() takes. */
int converter_memory(const struct quantize_params *params, struct band_limits *limits, uint64_t *bytes,
		     struct err *err);

/* Fills one output shard, and (unless NULL) the shard of preserved sources. */
int converter_shard(struct converter *converter, size_t shard, struct writer *writer, struct writer *preserved,
		    struct err *err);

/* Keeps what has non-finite values (--on-nonfinite skip). */
int converter_skip_nonfinite(struct converter *converter, struct selection *selection, struct err *err);

/* Saturated and non-finite values so far, and the worst SQNR. */
void converter_result(const struct converter *converter, struct quantize_result *result);

#endif
