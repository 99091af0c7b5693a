/* SPDX-License-Identifier: Apache-2.0
 *
 * What a manifest of ours, or the user, says of the numbers: options that no table of arithmetics
 * can list, and that explain what would otherwise look wrong.
 *
 * The files, byte for byte: their SHA-256 against what `quantize --manifest` recorded when it had
 * written them, and against what it had read.
 */
#ifndef FP8CONV_VERIFY_MANIFEST_H
#define FP8CONV_VERIFY_MANIFEST_H

#include "verify/steps.h"

/* Fills opened.manifest, .recorded and .given.  ERR_USAGE for an unknown recipe or tuning that it
 * does not support. */
int recorded_read(struct verify *verify, struct err *err);

/* Checks the size and SHA-256 of every file against the manifest.  ERR_INPUT where the manifest has
 * no SHA-256. */
int verify_manifest(struct verify *verify, struct err *err);

/* Checks that params.key signed all files of the directory, and no others are there.  ERR_USAGE
 * where the checkpoint is no directory. */
int verify_signature(struct verify *verify, struct err *err);

#endif
