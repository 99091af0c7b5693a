/* SPDX-License-Identifier: Apache-2.0
 *
 * Facts of this process and its machine, which the code below cli/ never asks for.
 */
#ifndef FP8CONV_CLI_PROCESS_H
#define FP8CONV_CLI_PROCESS_H

#include <stdint.h>

/* Returns the directory of temporary files: $TMPDIR, or /tmp. */
const char *process_temp_dir(void);

/* Returns the number of CPUs that this process may use. */
int process_cpus(void);

/* Returns the seconds of a clock that never runs backward. */
double process_now(void);

/* Returns the most memory that this process has used so far, in bytes. */
uint64_t process_peak_memory(void);

#endif
