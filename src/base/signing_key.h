/* SPDX-License-Identifier: Apache-2.0
 *
 * Keys of elliptic curves (NIST's P-256, P-384, P-521), and signatures by them: ECDSA, with
 * SHA-256, SHA-384 or SHA-512 by the size of the curve (FIPS 186-5), in DER.
 */
#ifndef FP8CONV_BASE_SIGNING_KEY_H
#define FP8CONV_BASE_SIGNING_KEY_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

#define SIGNING_KEY_MAX 256 /* bytes of a signature: two numbers of at most 66 bytes, in DER */

struct signing_key;

/* Reads a key from a PEM file: the private one, which signs, or the public one.  OpenSSL asks the
 * terminal for the pass phrase of an encrypted key.  The caller closes *key, and keeps path until
 * then.  ERR_INPUT for another file, or another kind of key. */
int signing_key_open(struct signing_key **key, const char *path, bool is_private, struct err *err);
void signing_key_close(struct signing_key *key);

/* Returns the path that it was opened by. */
const char *signing_key_path(const struct signing_key *key);

/* Returns the SHA-256, 64 digits, of the PEM text of the public key, whose point is not
 * compressed: Sigstore's hint at a key. */
const char *signing_key_hint(const struct signing_key *key);

/* Signs a text by a private key.  Returns the bytes of the signature; 0: OpenSSL cannot. */
size_t signing_key_sign(const struct signing_key *key, const struct buf *text,
			unsigned char signature[SIGNING_KEY_MAX]);

/* Are these n bytes a signature of the text by this key? */
bool signing_key_verifies(const struct signing_key *key, const struct buf *text,
			  const unsigned char *signature, size_t n);

#endif
