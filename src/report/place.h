/* SPDX-License-Identifier: Apache-2.0
 *
 * The directory of a report.  Each file ends in a comment with the SHA-256 of all before it: a
 * later report replaces the file only where nobody has edited it.
 *
 * Order: place_open(); place_check() and place_put() for each file; place_close().
 */
#ifndef FP8CONV_REPORT_PLACE_H
#define FP8CONV_REPORT_PLACE_H

#include "ckpt/outdir.h"

struct report_place {
	struct outdir dir;
	bool restart; /* replace files of others too */
};

/* Opens the directory, created if needed, and locks it against conversions. */
int place_open(struct report_place *place, const struct io *io, const char *path, bool restart,
	       struct err *err);

/* ERR_USAGE if the file exists and neither place_put() wrote it so nor its SHA-256 is `copied`, in
 * hexadecimal digits (NULL: none). */
int place_check(const struct report_place *place, const char *name, const char *copied,
		struct err *err);

/* Adds the comment, and writes the file whole or not at all. */
int place_put(const struct report_place *place, const char *name, struct buf *text,
	      struct err *err);

/* Is the place the directory? */
bool place_is(const struct report_place *place, const char *directory);
void place_close(struct report_place *place);

#endif
