/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that run a model on a dataset say about both, and about their cost.
 */
#ifndef FP8CONV_CLI_PRINT_DATA_H
#define FP8CONV_CLI_PRINT_DATA_H

#include "dataset/dataset.h"
#include "model/model.h"

/* Notes on standard error what the user may not expect: properties of the data; parts of the model
 * that are not run.  model is zeroed where none is run. */
void data_print_notes(const struct dataset *data, const struct model *model);

/* Print the memory that a plan needs, on standard output, and the time and memory that a job took,
 * on standard error. */
void data_print_memory(uint64_t bytes);
void data_print_time(double seconds);

#endif
