/* SPDX-License-Identifier: Apache-2.0
 *
 * What the program can do with model families, from the table of families and the architectures.
 */
#ifndef FP8CONV_CLI_FAMILY_H
#define FP8CONV_CLI_FAMILY_H

#include "model/model.h"
#include "select/profile.h"

struct family {
	char *name;		 /* a model_type, or a class of models */
	const struct arch *arch; /* which runs it; NULL: none does */
	bool has_rows;		 /* in the table */
	unsigned refusing;	 /* FOR_x of the engines that load no FP8 of it at all */
};

struct families {
	struct family *list;
	size_t n;
	struct profile profile; /* the rows of all of them, each once */
};

/* Take every family that a table names; one family; or that of a model's config.json.  The caller
 * releases the families. */
void families_all(struct families *families);
void families_one(struct families *families, const char *name);
void families_of_model(struct families *families, const struct model_config *config);
void families_release(struct families *families);

#endif
