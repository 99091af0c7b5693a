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
#include "base/signing_key.h"
#include "ckpt/outdir.h"

#define SIGNATURE_NAME "model.sig"

/* Signs all files of the directory, and writes model.sig.  files: their records in the manifest,
 * whose sums are taken; the others are read.  ERR_INPUT for a symbolic link. */
int signature_put(const struct outdir *dir, const struct signing_key *key, const json_t *files,
		  struct progress *progress, struct err *err);

/* ERR_INPUT where the directory has a name that no signature can have. */
int signature_check_name(const struct outdir *dir, struct err *err);

/* What a signature says; a zeroed struct is empty. */
struct signed_files {
	json_t *files;	 /* an array of { "name", "sha256" } */
	json_t *ignored; /* an array of paths */
	bool has_links;	 /* a file may be a symbolic link */
};

/* Reads directory/model.sig, and checks that the key made it.  ERR_INPUT with what is wrong. */
int signature_read(struct signed_files *is_signed, const struct io *io, const char *directory,
		   const struct signing_key *key, struct err *err);
void signed_files_release(struct signed_files *is_signed);

/* Is it a path that no signature covers, of files (or a directory) of git or of the Hub's
 * downloads?  type: S_IFREG etc.; unused. */
bool signature_leaves_out(const char *path, mode_t type);

#endif
