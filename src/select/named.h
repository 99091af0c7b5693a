/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of --tensors, which says by exact names what is kept, or which recipe it takes.  A line
 * is NAME=RECIPE or NAME=skip; a line is empty or begins with '#' where it says nothing.  NAME is
 * that of a tensor, or of a module and all below it, such as "model.layers.0.mlp.experts"; the
 * longest one counts.
 */
#ifndef FP8CONV_SELECT_NAMED_H
#define FP8CONV_SELECT_NAMED_H

#include "base/intern.h"
#include "base/io.h"
#include "ckpt/checksum.h"
#include "recipe/recipe.h"

#define NAMED_LIMIT ((size_t)256 << 20) /* bytes of a file */
#define NAMED_SKIP  "skip"		/* the word for high precision */

struct named_line {
	const struct recipe *recipe; /* NULL: kept */
	size_t number;		     /* of the line, from 1 */
};

/* A zeroed struct is empty. */
struct named {
	const char *path;
	struct intern names;
	struct named_line *lines; /* by number of the name */
	char sha256[SHA256_HEX];  /* of the file */
};

/* Reads a list; path must outlive it.  ERR_INPUT with the line for a file that is none;
 * ERR_USAGE for an unknown recipe. */
int named_read(struct named *named, const struct io *io, const char *path, struct err *err);
void named_release(struct named *named);

/* Returns the number of the name that holds for a tensor, or SIZE_MAX.  experts: the tensor is all
 * experts of a layer, or gate, up or down of all; a name of theirs holds for it too. */
size_t named_find(const struct named *named, const char *tensor, bool experts);

#endif
