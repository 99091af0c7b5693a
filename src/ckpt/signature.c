/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats: github.com/ossf/model-signing-spec; DSSE 1.0.2 (its PAE is what is signed); in-toto
 * attestation 1; Sigstore's bundle 0.3.
 */
#include "ckpt/signature.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"

#define MEDIA_TYPE     "application/vnd.dev.sigstore.bundle.v0.3+json"
#define PAYLOAD_TYPE   "application/vnd.in-toto+json"
#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://model_signing/signature/v1.0"

#define LIMIT ((size_t)256 << 20) /* bytes of model.sig: a million files */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The paths that model_signing leaves out unless its user asks for them. */
static const char *const ignored[] = { ".git", ".gitattributes", ".github", ".gitignore",
				       SIGNATURE_NAME };

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
	char hint[SHA256_HEX]; /* SHA-256 of the public key's PEM text */
};

static void sha256_text(char hex[SHA256_HEX], const void *data, size_t n)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256(data, n, digest);
	text_hex(hex, digest, sizeof digest);
}

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

static int make_hint(struct signing_key *key)
{
	BIO *text = BIO_new(BIO_s_mem());
	char *data;
	long n;

	if (!text || !PEM_write_bio_PUBKEY(text, key->key)) {
		BIO_free(text);
		return -1;
	}
	n = BIO_get_mem_data(text, &data);
	sha256_text(key->hint, data, (size_t)n);
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

	if (!file)
		return err_errno(err, "cannot open the key '%s'", key->path);
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

/* What DSSE signs for a payload ("pre-authentication encoding"). */
static void put_signed_bytes(struct buf *out, const void *payload, size_t n)
{
	buf_printf(out, "DSSEv1 %zu %s %zu ", strlen(PAYLOAD_TYPE), PAYLOAD_TYPE, n);
	buf_add(out, payload, n);
}

/* Returns the base64 of n bytes, which the caller frees. */
static char *base64(const void *data, size_t n)
{
	char *text = xmalloc((n + 2) / 3 * 4 + 1);

	EVP_EncodeBlock((unsigned char *)text, data, (int)n);
	return text;
}

/* Returns the bytes of a base64 text, which the caller frees, or NULL. */
static unsigned char *from_base64(const char *text, size_t *n)
{
	size_t len = strlen(text);
	unsigned char *bytes = xmalloc(len / 4 * 3 + 1);
	int got = len % 4 ? -1 : EVP_DecodeBlock(bytes, (const unsigned char *)text, (int)len);

	if (got < 0) {
		free(bytes);
		return NULL;
	}
	for (size_t i = len; i > 0 && text[i - 1] == '=' && got > 0; i--)
		got--;
	*n = (size_t)got;
	return bytes;
}

/* SHA-256 of all digests, in the order of the resources: the digest of the model.  false: a digest
 * is not 64 digits. */
static bool model_digest(char hex[SHA256_HEX], const json_t *resources)
{
	struct buf all = { 0 };
	bool good = true;
	const json_t *resource;
	size_t i;

	json_array_foreach(resources, i, resource)
	{
		const char *digest = json_member_text(resource, "digest");

		good = good && strlen(digest) == SHA256_HEX - 1 &&
		       strspn(digest, "0123456789abcdef") == SHA256_HEX - 1;
		for (size_t d = 0; good && d < SHA256_HEX - 1; d += 2) {
			char pair[] = { digest[d], digest[d + 1], '\0' };

			buf_add(&all, &(char){ (char)strtoul(pair, NULL, 16) }, 1);
		}
	}
	sha256_text(hex, all.data ? all.data : "", all.len);
	buf_release(&all);
	return good;
}

bool signature_leaves_out(const char *path, mode_t type)
{
	(void)type;
	for (size_t i = 0; i < COUNT(ignored); i++)
		if (!strcmp(path, ignored[i]))
			return true;
	return !strcmp(path, ".cache/huggingface") || !strncmp(path, ".fp8conv.", 9);
}

/* Returns the sums that records of files have, by name. */
static json_t *recorded_sums(const json_t *files)
{
	json_t *sums = json_object(), *record;
	size_t i;

	json_array_foreach(files, i, record) json_object_set(sums, json_member_text(record, "name"),
							     json_object_get(record, "sha256"));
	return sums;
}

/* Adds a file with its sum: as recorded, or of its bytes. */
static int add_resource(json_t *resources, const struct outdir *dir, const char *name,
			const json_t *sums, struct progress *progress, struct err *err)
{
	const char *hex = json_member_text(sums, name);
	struct sha256 read;
	struct stat st;
	json_t *resource;

	if (!fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) && S_ISLNK(st.st_mode))
		return err_set(err, ERR_INPUT,
			       "'%s/%s' is a symbolic link, which a signature does not cover: "
			       "remove it, or put the file there",
			       dir->path, name);
	if (!*hex && checksum_sha256(dir->io, dir->fd, name, progress, &read, err))
		return -1;
	resource = json_pack("{s:s, s:s, s:s}", "name", name, "algorithm", "sha256", "digest",
			     *hex ? hex : read.hex);
	if (!resource)
		return err_set(err, ERR_INPUT,
			       "the name of '%s' in '%s' is not UTF-8: a signature cannot have it",
			       name, dir->path);
	json_array_append_new(resources, resource);
	return 0;
}

static int list_resources(json_t *resources, const struct outdir *dir, const json_t *files,
			  struct progress *progress, struct err *err)
{
	json_t *sums = recorded_sums(files);
	struct listing listing = { 0 };
	int rc = listing_files(dir->io, dir->fd, dir->path, signature_leaves_out, &listing, err);

	for (size_t i = 0; i < listing.n && !rc; i++)
		rc = add_resource(resources, dir, listing.items[i], sums, progress, err);
	listing_release(&listing);
	json_decref(sums);
	return rc;
}

static json_t *ignored_paths(void)
{
	json_t *paths = json_array();

	for (size_t i = 0; i < COUNT(ignored); i++)
		json_array_append_new(paths, json_string(ignored[i]));
	return paths;
}

/* Returns the statement about the resources, which it takes over. */
static json_t *make_statement(const struct outdir *dir, json_t *resources)
{
	char *path = realpath(dir->path, NULL);
	const char *name = path ? strrchr(path, '/') + 1 : dir->path;
	char digest[SHA256_HEX];
	json_t *subject, *serialization;

	model_digest(digest, resources);
	subject = json_pack("{s:s, s:{s:s}}", "name", name, "digest", "sha256", digest);
	serialization = json_pack("{s:s, s:s, s:b, s:o}", "method", "files", "hash_type", "sha256",
				  "allow_symlinks", 0, "ignore_paths", ignored_paths());
	free(path);
	return json_pack("{s:s, s:[o], s:s, s:{s:o, s:o}}", "_type", STATEMENT_TYPE, "subject",
			 subject, "predicateType", PREDICATE_TYPE, "predicate", "serialization",
			 serialization, "resources", resources);
}

/* Returns the base64 of the signature of a payload, which the caller frees, or NULL. */
static char *sign(const struct signing_key *key, const char *payload)
{
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	struct buf text = { 0 };
	unsigned char signature[256]; /* DER of two numbers of at most 66 bytes */
	size_t n = sizeof signature;
	char *result = NULL;

	put_signed_bytes(&text, payload, strlen(payload));
	if (context &&
	    EVP_DigestSignInit(context, NULL, key->curve->digest(), NULL, key->key) == 1 &&
	    EVP_DigestSign(context, signature, &n, (const unsigned char *)text.data, text.len) == 1)
		result = base64(signature, n);
	buf_release(&text);
	EVP_MD_CTX_free(context);
	return result;
}

/* Returns the text of the bundle, or NULL. */
static char *make_bundle(const struct signing_key *key, const json_t *statement)
{
	char *payload = json_dumps(statement, JSON_COMPACT);
	char *signature = sign(key, payload), *encoded = base64(payload, strlen(payload));
	char *text = NULL;
	json_t *material, *envelope, *bundle;

	if (signature) {
		material =
			json_pack("{s:{s:s}, s:[]}", "publicKey", "hint", key->hint, "tlogEntries");
		envelope =
			json_pack("{s:s, s:s, s:[{s:s, s:s}]}", "payload", encoded, "payloadType",
				  PAYLOAD_TYPE, "signatures", "sig", signature, "keyid", "");
		bundle = json_pack("{s:s, s:o, s:o}", "mediaType", MEDIA_TYPE,
				   "verificationMaterial", material, "dsseEnvelope", envelope);
		text = json_dumps(bundle, JSON_INDENT(1));
		json_decref(bundle);
	}
	free(encoded);
	free(signature);
	free(payload);
	return text;
}

int signature_put(const struct outdir *dir, const struct signing_key *key, const json_t *files,
		  struct progress *progress, struct err *err)
{
	json_t *resources = json_array(), *statement;
	char *text;
	int rc;

	if (list_resources(resources, dir, files, progress, err)) {
		json_decref(resources);
		return -1;
	}
	statement = make_statement(dir, resources);
	text = make_bundle(key, statement);
	rc = text ? outdir_put(dir, SIGNATURE_NAME, text, strlen(text), err)
		  : err_set(err, ERR_SYSTEM, "cannot sign with the key '%s'", key->path);
	json_decref(statement);
	free(text);
	return rc;
}

/* Checks that the envelope's signature is the key's.  *payload becomes what is signed. */
static int check_envelope(const json_t *envelope, const struct signing_key *key, json_t **payload,
			  struct err *err)
{
	const json_t *first = json_array_get(json_object_get(envelope, "signatures"), 0);
	size_t n_text = 0, n_signature = 0;
	unsigned char *text = from_base64(json_member_text(envelope, "payload"), &n_text);
	unsigned char *signature = from_base64(json_member_text(first, "sig"), &n_signature);
	EVP_MD_CTX *context = EVP_MD_CTX_new();
	struct buf is_signed = { 0 };
	int rc = -1;

	if (!text || !signature || !context) {
		err_set(err, ERR_INPUT, "it has no signature");
		goto out;
	}
	put_signed_bytes(&is_signed, text, n_text);
	if (EVP_DigestVerifyInit(context, NULL, key->curve->digest(), NULL, key->key) != 1 ||
	    EVP_DigestVerify(context, signature, n_signature, (const unsigned char *)is_signed.data,
			     is_signed.len) != 1) {
		err_set(err, ERR_INPUT, "the key '%s' did not sign what it says", key->path);
		goto out;
	}
	*payload = json_decode((struct json_text){ (char *)text, n_text }, err);
	rc = *payload ? 0 : -1;
out:
	EVP_MD_CTX_free(context);
	buf_release(&is_signed);
	free(signature);
	free(text);
	return rc;
}

static int expect_text(const json_t *object, const char *key, const char *wanted, struct err *err)
{
	const char *is = json_member_text(object, key);

	return strcmp(is, wanted)
		       ? err_set(err, ERR_INPUT, "its '%s' is '%.80s', and this program reads '%s'",
				 key, is, wanted)
		       : 0;
}

/* Takes the files of a statement that is signed. */
static int take_files(struct signed_files *is_signed, const json_t *statement, struct err *err)
{
	const json_t *subject = json_array_get(json_object_get(statement, "subject"), 0);
	const json_t *predicate = json_object_get(statement, "predicate");
	const json_t *how = json_object_get(predicate, "serialization");
	const json_t *resources = json_object_get(predicate, "resources"), *resource;
	char digest[SHA256_HEX];
	size_t i;

	if (expect_text(statement, "_type", STATEMENT_TYPE, err) ||
	    expect_text(statement, "predicateType", PREDICATE_TYPE, err) ||
	    expect_text(how, "method", "files", err) ||
	    expect_text(how, "hash_type", "sha256", err))
		return -1;
	if (!model_digest(digest, resources) ||
	    strcmp(digest, json_member_text(json_object_get(subject, "digest"), "sha256")) != 0)
		return err_set(err, ERR_INPUT, "its digest of the model is not that of its files");
	is_signed->files = json_array();
	is_signed->ignored = json_incref(json_object_get(how, "ignore_paths"));
	json_array_foreach(resources, i, resource) json_array_append_new(
		is_signed->files,
		json_pack("{s:s, s:s}", "name", json_member_text(resource, "name"), "sha256",
			  json_member_text(resource, "digest")));
	return 0;
}

static int check_bundle(struct signed_files *is_signed, const json_t *bundle,
			const struct signing_key *key, struct err *err)
{
	const json_t *material = json_object_get(bundle, "verificationMaterial");
	const json_t *envelope = json_object_get(bundle, "dsseEnvelope");
	const char *hint = json_member_text(json_object_get(material, "publicKey"), "hint");
	json_t *statement = NULL;
	int rc;

	if (expect_text(bundle, "mediaType", MEDIA_TYPE, err) ||
	    expect_text(envelope, "payloadType", PAYLOAD_TYPE, err))
		return -1;
	if (!json_object_get(material, "publicKey"))
		return err_set(err, ERR_INPUT,
			       "it was made with a certificate or an identity, not with a key: "
			       "'model_signing verify' checks it");
	if (*hint && strcmp(hint, key->hint) != 0)
		return err_set(err, ERR_INPUT,
			       "it was made with the key whose SHA-256 is %.16s..., and '%s' is "
			       "%.16s...",
			       hint, key->path, key->hint);
	rc = check_envelope(envelope, key, &statement, err);
	rc = rc ? rc : take_files(is_signed, statement, err);
	json_decref(statement);
	return rc;
}

int signature_read(struct signed_files *is_signed, const struct io *io, const char *directory,
		   const struct signing_key *key, struct err *err)
{
	char *path = xasprintf("%s/" SIGNATURE_NAME, directory);
	struct buf text = { 0 };
	json_t *bundle = NULL;
	int rc = io_read_file(io, AT_FDCWD, path, LIMIT, &text, err);

	*is_signed = (struct signed_files){ 0 };
	if (!rc) {
		bundle = json_decode((struct json_text){ text.data, text.len }, err);
		rc = bundle ? check_bundle(is_signed, bundle, key, err) : -1;
		rc = rc ? err_wrap(err, "'%s'", path) : 0;
	}
	json_decref(bundle);
	buf_release(&text);
	free(path);
	return rc;
}

void signed_files_release(struct signed_files *is_signed)
{
	json_decref(is_signed->files);
	json_decref(is_signed->ignored);
	*is_signed = (struct signed_files){ 0 };
}
