/* SPDX-License-Identifier: Apache-2.0
 *
 * "No such option: did you mean ...?"
 */
#ifndef FP8CONV_BASE_WORDS_H
#define FP8CONV_BASE_WORDS_H

/* The one of names (NULL at the end) that takes the fewest insertions, deletions, substitutions and
 * swaps of neighbours to become wanted, the first of equals.  NULL where none is near: more than a
 * third of wanted's length, 2 at least (so that short slips still count). */
const char *words_nearest(const char *wanted, const char *const *names);

#endif
