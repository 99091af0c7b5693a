/* SPDX-License-Identifier: Apache-2.0
 *
 * Readers of the values of options.  They are strict: each refusal (ERR_USAGE) names the option,
 * the value and the expected values.
 */
#ifndef FP8CONV_CLI_OPTIONS_VALUES_H
#define FP8CONV_CLI_OPTIONS_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "cli/options/option.h"

/* Each comment gives the type of *place, and the result. */
option_reader option_text;	  /* const char *: the text; one of "a|b|c" if arg lists them */
option_reader option_output;	  /* const char *: the path to write */
option_reader option_new_file;	  /* const char *: the same, not "-" */
option_reader option_choice;	  /* int: the index in "a|b|c" */
option_reader option_flag;	  /* bool: true */
option_reader option_count;	  /* int: from 1 to 1024 */
option_reader option_large;	  /* int: from 1 to a billion */
option_reader option_positive;	  /* double: a finite number above 0 */
option_reader option_append;	  /* struct texts: appends a text, which belongs to argv */
option_reader option_recipe;	  /* const char *: the name of an existing recipe */
option_reader option_format;	  /* const char *: a format, existing or not; no engine */
option_reader option_target;	  /* const char *: the name of an engine */
option_reader option_amax_algo;	  /* const char *: one of STATIC_ALGOS */
option_reader option_append_rule; /* struct select_rules: appends RE=RECIPE or RE=skip */
/* Frees what the reader of the option has allocated. */
void option_release(const struct option_row *option, void *place);
/* uint64_t: bytes, at least 1: "4096", "64K", "512M", "2G", "2GB", "2GiB" (all binary). */
option_reader option_size;
/* The same, but decimal, as Hugging Face reads them, unless the unit ends in "iB". */
option_reader option_decimal_size;

/* The most devices that an option lists. */
#define MAX_DEVICES 64

struct device_list {
	bool all; /* that there are */
	int n;	  /* listed; 0 and not all: the option was not given */
	int numbers[MAX_DEVICES];
};

/* struct device_list: "all", or different numbers below MAX_DEVICES with commas between them. */
option_reader option_devices;

/* Reads decimal digits; *end becomes the text after them.  Returns false if there are none, or more
 * than 64 bits. */
bool option_digits(const char *text, uint64_t *value, const char **end);

/* Reads decimal digits as a number from min to max.  ERR_USAGE otherwise. */
int option_number(const struct option_row *option, const char *text, uint64_t min, uint64_t max,
		  uint64_t *value, struct err *err);

/* Reads "I/N" with 1 <= I <= N into int place[0] and [1], or "auto" or "auto/N"; of "mpi" place[0]
 * becomes RANKS_MPI. */
option_reader option_rank;

/* Reads "mpi", and sets a bool. */
option_reader option_mpi;

/* Reads "I/N" with 1 <= I <= N into *part and *n_parts, or "auto" or "auto/N", for the place that
 * place_find() finds, or "finish" into *finish.  ERR_USAGE otherwise. */
int option_part(const struct option_row *option, const char *text, int *part, int *n_parts,
		bool *finish, struct err *err);

#endif
