/* SPDX-License-Identifier: Apache-2.0
 *
 * Curves and their hashes as NIST's FIPS 186-5 and Sigstore's key algorithms pair them.
 */
#include "base/signing_key.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct nist_curve {
	unsigned char oid[10]; /* DER of its object identifier (RFC 5480) */
	size_t n;	       /* bytes of that */
	const EVP_MD *(*digest)(void);
};

static const struct nist_curve curves[] = {
	{ { 0x06, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7 }, 10, EVP_sha256 }, /* P-256 */
	{ { 0x06, 5, 0x2b, 0x81, 4, 0, 0x22 }, 7, EVP_sha384 },			/* P-384 */
	{ { 0x06, 5, 0x2b, 0x81, 4, 0, 0x23 }, 7, EVP_sha512 },			/* P-521 */
};

struct signing_key {
	const char *path;
	EVP_PKEY *key;
	const struct nist_curve *curve;
	char hint[SHA256_DIGEST_LENGTH * 2 + 1];
};

/* The head of the public key names its curve. */
static const struct nist_curve *find_curve(EVP_PKEY *key)
{
	unsigned char *der = NULL;
	int n = i2d_PUBKEY(key, &der);
	const struct nist_curve *found = NULL;

	for (size_t i = 0; n > 0 && i < COUNT(curves); i++)
		if (memmem(der, n < 32 ? (size_t)n : 32, curves[i].oid, curves[i].n))
			found = &curves[i];
	OPENSSL_free(der);
	return found;
}

/* The text is as programs write it, with the whole point: a file may have a compressed one. */
static int make_hint(struct signing_key *key)
{
	BIO *text = BIO_new(BIO_s_mem());
	unsigned char digest[SHA256_DIGEST_LENGTH];
	unsigned char *data;
	long n;

	if (!text ||
	    !EVP_PKEY_set_utf8_string_param(key->key, OSSL_PKEY_PARAM_EC_POINT_CONVERSION_FORMAT,
					    OSSL_PKEY_EC_POINT_CONVERSION_FORMAT_UNCOMPRESSED) ||
	    !PEM_write_bio_PUBKEY(text, key->key)) {
		BIO_free(text);
		return -1;
	}
	n = BIO_get_mem_data(text, &data);
	SHA256(data, (size_t)n, digest);
	text_hex(key->hint, digest, sizeof digest);
	BIO_free(text);
	return 0;
}

void signing_key_close(struct signing_key *key)
{
	if (key)
		EVP_PKEY_free(key->key);
	free(key);
}

static int read_key(struct signing_key *key, bool is_private, struct err *err)
{
	BIO *file = BIO_new_file(key->path, "r");
	struct stat st;

	if (!file)
		return err_errno(err, "cannot open the key '%s'", key->path);
	if (!stat(key->path, &st) &&
	    (S_ISDIR(st.st_mode) || (S_ISREG(st.st_mode) && !st.st_size))) {
		BIO_free(file);
		return err_set(err, ERR_INPUT, "'%s' is %s, not a key in PEM", key->path,
			       S_ISDIR(st.st_mode) ? "a directory" : "empty");
	}
	key->key = is_private ? PEM_read_bio_PrivateKey(file, NULL, NULL, NULL)
			      : PEM_read_bio_PUBKEY(file, NULL, NULL, NULL);
	BIO_free(file);
	if (!key->key)
		return err_set(
			err, ERR_INPUT, "'%s' is not a %s key in PEM%s: %s", key->path,
			is_private ? "private" : "public",
			is_private ? ", or the pass phrase is wrong" : "",
			is_private ? "'openssl ecparam -name prime256v1 -genkey -noout' makes one"
				   : "'openssl pkey -in PRIVATE -pubout' prints it");
	key->curve = find_curve(key->key);
	if (!key->curve || make_hint(key))
		return err_set(err, ERR_INPUT,
			       "the key '%s' is not of the elliptic curve P-256, P-384 or P-521, "
			       "which model signatures have",
			       key->path);
	return 0;
}

int signing_key_open(struct signing_key **key, const char *path, bool is_private, struct err *err)
{
	*key = xcalloc(1, sizeof **key);
	(*key)->path = path;
	if (!read_key(*key, is_private, err))
		return 0;
	signing_key_close(*key);
	*key = NULL;
	return -1;
}

const char *signing_key_path(const struct signing_key *key)
{
	return key->path;
}

const char *signing_key_hint(const struct signing_key *key)
{
	return key->hint;
}

size_t signing_key_sign(const struct signing_key *key, const struct buf *text,
			unsigned char signature[SIGNING_KEY_MAX])
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	size_t n = SIGNING_KEY_MAX;

	if (!context ||
	    EVP_DigestSignInit(context, NULL, key->curve->digest(), NULL, key->key) != 1 ||
	    EVP_DigestSign(context, signature, &n, (const unsigned char *)text->data, text->len) !=
		    1)
		n = 0;
	EVP_MD_CTX_free(context);
	return n;
}

bool signing_key_verifies(const struct signing_key *key, const struct buf *text,
			  const unsigned char *signature, size_t n)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	bool good =
		context &&
		EVP_DigestVerifyInit(context, NULL, key->curve->digest(), NULL, key->key) == 1 &&
		EVP_DigestVerify(context, signature, n, (const unsigned char *)text->data,
				 text->len) == 1;

	EVP_MD_CTX_free(context);
	return good;
}
