/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend that this machine cannot run is a test that was skipped, and counted (tests/run.sh).
 */
#ifndef FP8CONV_TESTS_UNIT_SUPPORT_SKIPPED_H
#define FP8CONV_TESTS_UNIT_SUPPORT_SKIPPED_H

/* Prints a line "SKIPPED: backend NAME: WHY" for each backend that this machine cannot run. */
void skipped_print(void);

#endif
