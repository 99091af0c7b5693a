/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands that run a model on a dataset say about both.
 */
#ifndef FP8CONV_CLI_PRINT_DATA_H
#define FP8CONV_CLI_PRINT_DATA_H

#include "dataset/dataset.h"
#include "model/model.h"

/* Notes on standard error what the user may not expect: properties of the data; parts of the model
 * that are not run.  model is zeroed where none is run. */
void data_print_notes(const char *command, const struct dataset *data, const struct model *model);

#endif
