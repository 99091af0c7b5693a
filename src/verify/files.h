/* SPDX-License-Identifier: Apache-2.0
 *
 * The files as a whole: a checkpoint in which nothing is FP8, and weight files beside the model
 * that are not of it.
 *
 * The files beside the weights: config.json key by key, and those that a conversion copies byte by
 * byte, against the source's.  Tools that save a model by transformers write these files anew; then
 * only what changes numbers or tokens counts.
 */
#ifndef FP8CONV_VERIFY_FILES_H
#define FP8CONV_VERIFY_FILES_H

#include "verify/steps.h"

/* Reports a checkpoint without FP8 weights, and weight files beside it. */
int verify_files(struct verify *verify, struct err *err);

/* Reports files beside the weights that loaders cannot read, and with a source every key of
 * config.json and every copied file that is not the source's.  ERR_INPUT where the source's files
 * cannot be read. */
int verify_companions(struct verify *verify, struct err *err);

#endif
