/* SPDX-License-Identifier: Apache-2.0
 *
 * Formats: github.com/ossf/model-signing-spec; DSSE 1.0.2 (its PAE is what is signed); in-toto
 * attestation 1; Sigstore's bundle 0.3.
 */
#include "ckpt/signature.h"

#include <fcntl.h>
#include <openssl/evp.h>
#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/mem.h"
#include "base/text.h"
#include "ckpt/checksum.h"
#include "ckpt/listing.h"

#define MEDIA_TYPE     "application/vnd.dev.sigstore.bundle.v0.3+json"
#define PAYLOAD_TYPE   "application/vnd.in-toto+json"
#define STATEMENT_TYPE "https://in-toto.io/Statement/v1"
#define PREDICATE_TYPE "https://model_signing/signature/v1.0"

#define LIMIT	   ((size_t)256 << 20) /* bytes of model.sig: a million files */
#define MAX_VALUES 10000	       /* in JSON, before a key has vouched for it */

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* The paths that model_signing leaves out unless its user asks for them, and what the Hub's
 * downloads leave. */
static const char *const ignored[] = { ".git",	     ".gitattributes", ".github",
				       ".gitignore", SIGNATURE_NAME,   ".cache/huggingface" };

static void sha256_text(char hex[SHA256_HEX], const void *data, size_t n)
{
	unsigned char digest[SHA256_DIGEST_LENGTH];

	SHA256(data, n, digest);
	text_hex(hex, digest, sizeof digest);
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
	return false;
}

/* Is it such a path, or a lock of this job? */
static bool signing_leaves_out(const char *path, mode_t type)
{
	return signature_leaves_out(path, type) || outdir_is_lock(text_after(path, '/'));
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

	if (!fstatat(dir->fd, name, &st, AT_SYMLINK_NOFOLLOW) && !S_ISREG(st.st_mode))
		return err_set(err, ERR_INPUT,
			       "'%s/%s' is %s, which a signature does not cover: remove it, or put "
			       "a file there",
			       dir->path, name,
			       S_ISLNK(st.st_mode) ? "a symbolic link" : "no regular file");
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
	int rc = listing_files(dir->io, dir->fd, dir->path, signing_leaves_out, &listing, err);

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

/* Returns the name of the directory; NULL: it is not UTF-8. */
static json_t *model_name(const struct outdir *dir)
{
	char *path = realpath(dir->path, NULL);
	json_t *name = json_string(text_after(path ? path : dir->path, '/'));

	free(path);
	return name;
}

int signature_check_name(const struct outdir *dir, struct err *err)
{
	json_t *name = model_name(dir);
	int rc = name ? 0
		      : err_set(err, ERR_INPUT,
				"the name of the directory '%s' is not UTF-8: a signature cannot "
				"have it",
				dir->path);

	json_decref(name);
	return rc;
}

/* Returns the statement about the resources, which it takes over. */
static json_t *make_statement(const struct outdir *dir, json_t *resources)
{
	char digest[SHA256_HEX];
	json_t *subject, *serialization;

	model_digest(digest, resources);
	subject = json_pack("{s:o, s:{s:s}}", "name", model_name(dir), "digest", "sha256", digest);
	serialization = json_pack("{s:s, s:s, s:b, s:o}", "method", "files", "hash_type", "sha256",
				  "allow_symlinks", 0, "ignore_paths", ignored_paths());
	return json_pack("{s:s, s:[o], s:s, s:{s:o, s:o}}", "_type", STATEMENT_TYPE, "subject",
			 subject, "predicateType", PREDICATE_TYPE, "predicate", "serialization",
			 serialization, "resources", resources);
}

/* Returns the base64 of the signature of a payload, which the caller frees, or NULL. */
static char *sign(const struct signing_key *key, const char *payload)
{
	struct buf text = { 0 };
	unsigned char signature[SIGNING_KEY_MAX];
	size_t n;

	put_signed_bytes(&text, payload, strlen(payload));
	n = signing_key_sign(key, &text, signature);
	buf_release(&text);
	return n ? base64(signature, n) : NULL;
}

/* Returns the text of the bundle, or NULL. */
static char *make_bundle(const struct signing_key *key, const json_t *statement)
{
	char *payload = json_dumps(statement, JSON_COMPACT);
	char *signature = sign(key, payload), *encoded = base64(payload, strlen(payload));
	char *text = NULL;
	json_t *material, *envelope, *bundle;

	if (signature) {
		material = json_pack("{s:{s:s}, s:[]}", "publicKey", "hint", signing_key_hint(key),
				     "tlogEntries");
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
		  : err_set(err, ERR_SYSTEM, "cannot sign with the key '%s'",
			    signing_key_path(key));
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
	struct buf is_signed = { 0 };
	int rc = -1;

	if (!text || !signature) {
		err_set(err, ERR_INPUT, "it has no signature");
		goto out;
	}
	put_signed_bytes(&is_signed, text, n_text);
	if (!signing_key_verifies(key, &is_signed, signature, n_signature)) {
		err_set(err, ERR_INPUT, "the key '%s' did not sign what it says",
			signing_key_path(key));
		goto out;
	}
	*payload = json_decode((struct json_text){ (char *)text, n_text }, err);
	rc = *payload ? 0 : -1;
out:
	buf_release(&is_signed);
	free(signature);
	free(text);
	return rc;
}

static int expect_text(const json_t *object, const char *key, const char *wanted, struct err *err)
{
	const char *is = json_member_text(object, key);

	return strcmp(is, wanted)
		       ? err_set(err, ERR_INPUT,
				 "its '%s' is '%.80s', and this program reads '%s': model_signing "
				 "may read it",
				 key, is, wanted)
		       : 0;
}

/* Takes the files of a statement that is signed. */
static int take_files(struct signed_files *is_signed, const json_t *statement, struct err *err)
{
	const json_t *subjects = json_object_get(statement, "subject");
	const json_t *subject = json_array_get(subjects, 0);
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
	json_array_foreach(resources, i, resource) if (expect_text(resource, "algorithm", "sha256",
								   err)) return -1;
	if (json_array_size(subjects) != 1)
		return err_set(err, ERR_INPUT, "it is of %zu models, and this program reads one",
			       json_array_size(subjects));
	if (!model_digest(digest, resources) ||
	    strcmp(digest, json_member_text(json_object_get(subject, "digest"), "sha256")) != 0)
		return err_set(err, ERR_INPUT, "its digest of the model is not that of its files");
	is_signed->has_links = json_is_true(json_object_get(how, "allow_symlinks"));
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
	if (*hint && strcmp(hint, signing_key_hint(key)) != 0)
		return err_set(err, ERR_INPUT,
			       "it was made with the key whose SHA-256 is %.16s..., and '%s' is "
			       "%.16s...",
			       hint, signing_key_path(key), signing_key_hint(key));
	rc = check_envelope(envelope, key, &statement, err);
	rc = rc ? rc : take_files(is_signed, statement, err);
	json_decref(statement);
	return rc;
}

/* Reads a bundle, which has some dozen values; its tree may take fifty times as much memory. */
static json_t *decode_bundle(const struct buf *text, struct err *err)
{
	size_t n_values = 0;

	for (size_t i = 0; i < text->len; i++)
		n_values += text->data[i] == ',' || text->data[i] == '[' || text->data[i] == '{';
	if (n_values <= MAX_VALUES)
		return json_decode((struct json_text){ text->data, text->len }, err);
	err_set(err, ERR_INPUT, "it is no signature: it has more than %d values", MAX_VALUES);
	return NULL;
}

int signature_read(struct signed_files *is_signed, const struct io *io, const char *directory,
		   const struct signing_key *key, struct err *err)
{
	char *path = xasprintf("%s/" SIGNATURE_NAME, directory);
	struct buf text = { 0 };
	json_t *bundle = NULL;
	int rc = -1;

	*is_signed = (struct signed_files){ 0 };
	if (!io_exists_in(io, directory, SIGNATURE_NAME))
		err_set(err, ERR_INPUT,
			"'%s' is missing: 'fp8conv quantize --sign' or 'model_signing sign key' "
			"writes it",
			path);
	else
		rc = io_read_file(io, AT_FDCWD, path, LIMIT, &text, err);
	if (!rc) {
		bundle = decode_bundle(&text, err);
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
