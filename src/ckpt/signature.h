/* SPDX-License-Identifier: Apache-2.0
 *
 * model.sig in a model's directory: the SHA-256 of every file, signed.  The format is OpenSSF Model
 * Signing 1.0 with a key: a Sigstore bundle 0.3 with a DSSE envelope around an in-toto statement.
 * `model_signing` of PyPI verifies it, and makes such files.
 */
#ifndef FP8CONV_CKPT_SIGNATURE_H
#define FP8CONV_CKPT_SIGNATURE_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/stat.h>

#include "base/err.h"
#include "base/io.h"
#include "base/progress.h"
#include "ckpt/outdir.h"

#define SIGNATURE_NAME "model.sig"

/* Of an elliptic curve: NIST P-256, P-384 or P-521. */
struct signing_key;

/* Reads a key from a PEM file: the private one, which signs, or the public one.  OpenSSL asks the
 * terminal for the pass phrase of an encrypted key.  The caller closes *key.  ERR_INPUT for another
 * file, or another kind of key. */
int signing_key_open(struct signing_key **key, const char *path, bool is_private, struct err *err);
void signing_key_close(struct signing_key *key);

/* Returns the path that it was opened by. */
const char *signing_key_path(const struct signing_key *key);

/* Signs all files of the directory, and writes model.sig.  files: their records in the manifest,
 * whose sums are taken; the others are read.  ERR_INPUT for a symbolic link. */
int signature_put(const struct outdir *dir, const struct signing_key *key, const json_t *files,
		  struct progress *progress, struct err *err);

/* What a signature says; a zeroed struct is empty. */
struct signed_files {
	json_t *files;	 /* an array of { "name", "sha256" } */
	json_t *ignored; /* an array of paths */
};

/* Reads directory/model.sig, and checks that the key made it.  ERR_INPUT with what is wrong. */
int signature_read(struct signed_files *is_signed, const struct io *io, const char *directory,
		   const struct signing_key *key, struct err *err);
void signed_files_release(struct signed_files *is_signed);

/* Is it a path that no signature covers, of files (or a directory) of git, of the Hub's downloads,
 * or of a job that runs?  type: S_IFREG etc.; unused. */
bool signature_leaves_out(const char *path, mode_t type);

#endif
