/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of this process and its machine that nothing below cli may ask for.
 */
#ifndef FP8CONV_CLI_PROCESS_H
#define FP8CONV_CLI_PROCESS_H

#include <stdint.h>

/* The directory of temporary files: $TMPDIR, or /tmp. */
const char *process_temp_dir(void);

/* The number of CPUs that this process may run on. */
int process_cpus(void);

/* Seconds of a clock that only runs forward. */
double process_now(void);

/* The most memory that this process has had so far, in bytes. */
uint64_t process_peak_memory(void);

#endif
