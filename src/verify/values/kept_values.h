/* SPDX-License-Identifier: Apache-2.0
 *
 * The values of tensors in high precision.  A NaN or an infinity in any of them is a problem; zeros
 * are one where the role of a tensor says that no model has them, and so is a head with other
 * values than the embedding that it is tied to.
 *
 * Order: kept_values_list(); kept_values_read() of each piece, from any thread;
 * kept_values_report(); kept_values_release().
 */
#ifndef FP8CONV_VERIFY_VALUES_KEPT_VALUES_H
#define FP8CONV_VERIFY_VALUES_KEPT_VALUES_H

#include "ckpt/checkpoint.h"
#include "names/role.h"
#include "verify/values/scan.h"

struct verify;
struct verify_worker;

/* A kept tensor, read in lines of whole rows. */
struct kept_tensor {
	const struct tensor_ref *ref;
	enum role role;
	bool weight;	     /* of a module */
	size_t number;	     /* of its name, as role_cache_add() gives it */
	uint64_t n;	     /* elements */
	uint64_t line;	     /* elements of a line */
	struct finding bad;  /* NaN and infinite values */
	bool zero;	     /* all */
	uint64_t zero_lines; /* most of them without values between */
	float amax;	     /* of its finite values */
	uint64_t digest;     /* of all bytes, of heads and embeddings */
};

/* Lines of a kept tensor that are read at once. */
struct kept_piece {
	size_t tensor;
	uint64_t first, n;		  /* lines */
	uint64_t leading, trailing, most; /* lines of zeros: at the ends, and one after the other */
	float amax;
	uint32_t crc; /* of heads and embeddings */
};

struct kept_values {
	struct verify *verify;
	size_t n, n_pieces;
	struct kept_tensor *tensors; /* by name */
	struct kept_piece *pieces;   /* in the order of tensors and lines */
};

/* Lists the float tensors that are neither codes nor scales, in pieces of at most `bytes`. */
void kept_values_list(struct kept_values *kept, struct verify *verify, uint64_t bytes);

/* Returns the bytes of all pieces. */
uint64_t kept_values_bytes(const struct kept_values *kept);

/* Reads a piece into the memory of a worker, and sets *bytes to its size.  ERR_INPUT where a file
 * is truncated or changed. */
int kept_values_read(struct kept_values *kept, size_t piece, struct verify_worker *worker,
		     uint64_t *bytes, struct err *err);

void kept_values_report(struct kept_values *kept);
void kept_values_release(struct kept_values *kept);

#endif
