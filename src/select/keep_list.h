/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of groups that stay in high precision, by what `fp8conv sensitivity` measured:
 * greedily by divergence per byte.  Divergences of groups add up, so the sum of those that stay
 * quantized predicts that of the model.
 */
#ifndef FP8CONV_SELECT_KEEP_LIST_H
#define FP8CONV_SELECT_KEEP_LIST_H

#include "select/kld_table.h"
#include "select/select.h"

/* The reason of matrices that are kept for it. */
#define KEEP_REASON "sensitive"

/* The request. */
struct keep_params {
	const char *path; /* of the table; NULL: nothing is kept */
	double budget;	  /* of the bytes that would be quantized, kept at most; 0: not given */
	double max_kld;	  /* the sum to reach; 0: not given */
};

/* A set of groups that are kept together: one, or those that engines merge. */
struct keep_choice {
	char *name; /* of the group, or of several with '+' between them */
	double kld;
	uint64_t n_bytes; /* in BF16 */
	size_t unit;	  /* its first one; valid until selection_settle() */
};

/* The result.  A zeroed struct is empty. */
struct keep_list {
	char file_sha256[SHA256_HEX];
	struct keep_choice *kept; /* in the order of the choice */
	size_t n;
	uint64_t kept_bytes, all_bytes; /* in BF16; all: of what would be quantized */
	double kld_before, kld;		/* predicted, without and with the kept groups */
};

/* Chooses groups of the table's recipe `recipe`, and keeps them in the selection:
 * selection_settle() must follow.  Joint sets stay whole: what they cost together counts.
 * ERR_INPUT if the table is of another model; ERR_USAGE if it does not have what the selection
 * quantizes. */
int keep_list_make(struct keep_list *list, struct selection *selection,
		   const struct kld_table *table, size_t recipe, const struct keep_params *params,
		   struct err *err);
void keep_list_release(struct keep_list *list);

#endif
