/* SPDX-License-Identifier: Apache-2.0
 *
 * What stays in high precision or takes another recipe: decided here, by the divergence that a set
 * of groups of a table saves per byte (knapsack.h).  Divergences of groups add up, so the sum over
 * all sets, each as it is chosen, predicts that of the model.  The result is a list of names that
 * `quantize --tensors` obeys (select/named.h).
 *
 * Order: choice_make(); choice_write(); choice_release(), also after a failure.
 */
#ifndef FP8CONV_SENSITIVITY_CHOOSE_H
#define FP8CONV_SENSITIVITY_CHOOSE_H

#include "base/text.h"
#include "select/named.h"
#include "sensitivity/knapsack.h"
#include "sensitivity/table.h"

/* The recipe of matrices that stay in high precision, whose word is NAMED_SKIP. */
#define CHOICE_SKIP SIZE_MAX

struct choice_params {
	const struct io *io;
	const char *model;    /* whose table it must be; NULL: any */
	struct texts renames; /* of its tensors */
	const char *table;    /* path */
	const char *recipe;   /* of the job; NULL: the first of the table */
	/* what sets may become, each once: NAMED_SKIP and names of recipes; none: NAMED_SKIP */
	const char *const *as;
	size_t n_as;
	double budget;	/* of the bytes that FP8 saves, given back at most; 0: not given */
	double max_kld; /* the sum to reach; 0: not given */
};

/* Groups that are stored in one way: one, or those that engines need in one type. */
struct choice_set {
	char *name; /* of the group, or of several with '+' between them */
	uint64_t bf16_bytes;
	struct knapsack_option *options; /* by way */
	size_t chosen;
};

/* A zeroed struct is empty. */
struct choice {
	struct kld_table table;
	size_t *ways; /* recipes of the table, or CHOICE_SKIP; the first is that of the job */
	size_t n_ways;
	struct choice_set *sets; /* in the order of the table */
	size_t n;
	size_t *set_of; /* by group of the table; SIZE_MAX: not of the job's recipe */
	uint64_t kept_bytes, all_bytes; /* in BF16: of what stays so, and of all weights */
	int64_t n_added;		/* bytes more than by the recipe of the job */
	int64_t n_saved;		/* bytes that FP8 saves by the recipe of the job */
	double kld_before, kld;		/* predicted, without and with the choice */
};

/* Reads the table and chooses.  ERR_INPUT for a file that is no table, or is of another model;
 * ERR_USAGE if it does not have a recipe, and for a sum that cannot be reached. */
int choice_make(struct choice *choice, const struct choice_params *params, struct err *err);

/* Returns the word of a way: the name of its recipe, or NAMED_SKIP. */
const char *choice_word(const struct choice *choice, size_t way);

/* Adds "1 group as skip, 2 groups as mxfp8: 8.3 % of what FP8 saves, predicted KLD 0.00040, else
 * 0.00090". */
void choice_say(const struct choice *choice, struct buf *text);

/* Writes the list: a comment with the options and choice_say(), then a line NAME=WORD for each
 * module, or all experts of a layer.  Does nothing where the file has the same text.  ERR_USAGE for
 * a file that is no such list, and without restart for another one. */
int choice_write(const struct choice *choice, const struct choice_params *params,
		 const char *output, bool restart, struct err *err);
void choice_release(struct choice *choice);

#endif
