/* SPDX-License-Identifier: Apache-2.0
 *
 * The context behind fp8conv.h, and what each of its functions begins and ends with.
 */
#ifndef FP8CONV_LIB_CONTEXT_H
#define FP8CONV_LIB_CONTEXT_H

#include <stdatomic.h>

#include <fp8conv.h>

#include "quantizer/context.h"

/* What `lib/fp8conv.map` lists. */
#define EXPORTED __attribute__((visibility("default")))

struct fp8conv_recipe {
	struct recipe row;
	char *options; /* as given */
	struct fp8conv_recipe *next;
};

struct fp8conv_context {
	atomic_bool busy; /* a thread is in a function with this context */
	atomic_bool destroyed;
	atomic_size_t n_owners; /* the caller, until it destroys it, and the states */
	int n_threads;
	const struct backend *backend;
	struct fp8conv_recipe *recipes;
	struct context_stack contexts;
	struct context *outer; /* (contexts.depth): what each exit returns to */
	struct caller_group *groups;
	struct device_place *places; /* the devices that it was used on */
	struct fp8conv_state *dead;  /* destroyed, but a step is to update them */
};

/* Takes the context for this thread; fails with ERR_USAGE for NULL and while another thread has
 * it.  context_leave() gives it back where context_take() did not fail. */
int context_take(struct fp8conv_context *context, struct err *err);
void context_leave(struct fp8conv_context *context);

/* Ends the part of one of the owners; the last one frees the struct. */
void context_drop(struct fp8conv_context *context);

/* Frees the groups and the dead states, when no step is open. */
void autocast_release(struct fp8conv_context *context);

/* Fails with ERR_USAGE unless argument, called name, is there and begins with this size. */
int size_check(const void *argument, size_t size, const char *name, struct err *err);

/* Fails with ERR_USAGE unless 0 <= value < n. */
int word_check(int value, int n, const char *name, struct err *err);

/* Returns the code of a call that returned rc, and copies the reason to *error. */
int error_out(int rc, const struct err *err, struct fp8conv_error *error);

/* The words of a command line. */
struct command_words {
	size_t n;
	char **list;
};

/* Adds a word, which it takes over. */
void words_add(struct command_words *words, char *word);

/* Adds the options of a JSON object (NULL: none) whose keys are in `names`: a text or a number as a
 * value, true as a flag that takes none, each of a list by itself; false and null are no
 * option.  ERR_USAGE. */
int words_make(struct command_words *words, const char *options, const char *const *names,
	       struct err *err);
void words_release(struct command_words *words);

#endif
