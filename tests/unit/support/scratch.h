/* SPDX-License-Identifier: Apache-2.0
 *
 * Folders of tests that write: below $TMPDIR, or /tmp.
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_SCRATCH_H
#define FP8CONV_TESTS_UNIT_SUPPORT_SCRATCH_H

/* $TMPDIR, or /tmp.  Owned by the environment. */
const char *scratch_parent(void);

/* A new, empty directory below it: the caller frees the path, and removes the directory.  NULL if
 * there can be none. */
char *scratch_new(void);

#endif
