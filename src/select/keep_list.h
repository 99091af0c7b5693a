/* SPDX-License-Identifier: Apache-2.0
 *
 * The choice of groups that stay in high precision or take another recipe, by what `fp8conv
 * sensitivity` measured: by divergence that is saved per byte (keep_choose.h).  Divergences of
 * groups add up, so the sum over all groups, each as it is chosen, predicts that of the model.
 */
#ifndef FP8CONV_SELECT_KEEP_LIST_H
#define FP8CONV_SELECT_KEEP_LIST_H

#include "select/kld_table.h"
#include "select/select.h"

/* The reason of matrices that are kept for it, or take another recipe. */
#define KEEP_REASON "sensitive"

/* The word for high precision among those that groups may become. */
#define KEEP_BF16 "bf16"

/* The request. */
struct keep_params {
	const char *path; /* of the table; NULL: nothing is kept */
	double budget;	  /* of the bytes that FP8 saves, given back at most; 0: not given */
	double max_kld;	  /* the sum to reach; 0: not given */
	/* what groups may become: KEEP_BF16 and names of recipes; none: KEEP_BF16 */
	const char *const *as;
	size_t n_as;
};

/* A recipe that groups may take in place of that of the job. */
struct keep_alternative {
	const struct recipe *recipe;
	size_t in_table;	    /* its index */
	struct selection selection; /* of the same source by this recipe */
};

/* What was measured, and what groups may become. */
struct keep_offer {
	const struct kld_table *table;
	size_t recipe; /* of the job, in the table */
	bool bf16;
	struct keep_alternative *alternatives;
	size_t n;
};

/* A set of groups that are kept together: one, or those that engines merge. */
struct keep_choice {
	char *name;		     /* of the group, or of several with '+' between them */
	const struct recipe *recipe; /* that it takes; NULL: none, it stays in BF16 */
	double kld, kld_left;	     /* by the recipe of the job, and as it is chosen */
	uint64_t n_bytes;	     /* as it is chosen, with scales */
	int64_t n_added;	     /* bytes more than by the recipe of the job */
};

/* The result.  A zeroed struct is empty. */
struct keep_list {
	char file_sha256[SHA256_HEX];
	struct keep_choice *kept; /* the largest saving per byte first */
	size_t n, n_bf16;
	uint64_t kept_bytes, all_bytes; /* in BF16: of what stays so, and would be quantized */
	int64_t n_added;		/* bytes more than by the recipe of the job */
	int64_t n_saved;		/* bytes that FP8 would save by that */
	double kld_before, kld;		/* predicted, without and with the kept groups */
};

/* Chooses groups of the job's recipe, and keeps them in the selection, or gives them another one:
 * selection_settle() must follow.  Joint sets stay whole: what they cost together
 * counts.  ERR_INPUT if the table is of another model; ERR_USAGE if it does not have what the
 * selection quantizes, and for a sum that cannot be reached. */
int keep_list_make(struct keep_list *list, struct selection *selection,
		   const struct keep_offer *offer, const struct keep_params *params,
		   struct err *err);
void keep_list_release(struct keep_list *list);

#endif
