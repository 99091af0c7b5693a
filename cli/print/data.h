/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that read a dataset say about it.
 */
#ifndef FP8CONV_CLI_PRINT_DATA_H
#define FP8CONV_CLI_PRINT_DATA_H

#include "dataset/dataset.h"

/* Notes on standard error the properties of the data that the user may not expect. */
void data_print_notes(const char *command, const struct dataset *data);

#endif
