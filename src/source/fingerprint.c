/* SPDX-License-Identifier: Apache-2.0 */
#include "source/fingerprint.h"

#include <endian.h>
#include <openssl/evp.h>
#include <string.h>

#define N_SAMPLES   4096
#define SAMPLE_SIZE 4096 /* bytes */

static bool is_sampled(size_t i, size_t n)
{
	return i == 0 || n <= N_SAMPLES || i * N_SAMPLES / n != (i - 1) * N_SAMPLES / n;
}

static void hash_number(EVP_MD_CTX *hash, uint64_t number)
{
	number = htole64(number);
	EVP_DigestUpdate(hash, &number, sizeof number);
}

static void hash_form(EVP_MD_CTX *hash, const struct st_tensor *tensor)
{
	const char *type = dtype_name(tensor->dtype);

	EVP_DigestUpdate(hash, tensor->name, strlen(tensor->name) + 1);
	EVP_DigestUpdate(hash, type, strlen(type) + 1);
	hash_number(hash, (uint64_t)tensor->n_dims);
	for (int i = 0; i < tensor->n_dims; i++)
		hash_number(hash, tensor->shape[i]);
}

static int hash_sample(EVP_MD_CTX *hash, struct source *source, const struct tensor_ref *ref,
		       struct err *err)
{
	uint64_t size = st_tensor_size(ref->tensor);
	size_t n = size < SAMPLE_SIZE ? (size_t)size : SAMPLE_SIZE;
	char sample[SAMPLE_SIZE];

	if (source_read_bytes(source, ref, (size - n) / 2, n, sample, err))
		return -1;
	EVP_DigestUpdate(hash, sample, n);
	return 0;
}

int fingerprint_make(struct source *source, char text[FINGERPRINT_SIZE], struct err *err)
{
	const struct checkpoint *checkpoint = source->checkpoint;
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	unsigned char digest[EVP_MAX_MD_SIZE];
	int rc = 0;

	if (!hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL))
		rc = err_set(err, ERR_SYSTEM, "cannot compute SHA-256");
	for (size_t i = 0; !rc && i < checkpoint->n_tensors; i++) {
		hash_form(hash, checkpoint->by_name[i].tensor);
		if (is_sampled(i, checkpoint->n_tensors))
			rc = hash_sample(hash, source, &checkpoint->by_name[i], err);
	}
	if (!rc) {
		EVP_DigestFinal_ex(hash, digest, NULL);
		text_hex(text, digest, FINGERPRINT_SIZE / 2);
	}
	EVP_MD_CTX_free(hash);
	return rc;
}
