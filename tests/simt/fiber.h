/* SPDX-License-Identifier: Apache-2.0
 *
 * Two stacks that take turns.  ucontext(3) does it with two system calls a turn, and millions of
 * turns are taken here: so on x86-64 it is the ten instructions that it needs.
 */
#ifndef FP8CONV_TESTS_SIMT_FIBER_H
#define FP8CONV_TESTS_SIMT_FIBER_H

#include <stddef.h>

#ifdef __x86_64__
struct fiber_context {
	void *sp;
};
#else
#include <ucontext.h>
struct fiber_context {
	ucontext_t context;
};
#endif

/* Makes *fiber one that calls entry(), which must never return, on a stack of its own. */
void fiber_make(struct fiber_context *fiber, char *stack, size_t stack_size, void (*entry)(void));

/* Goes on with `to`; whoever goes on with `from` comes back from here. */
void fiber_switch(struct fiber_context *from, struct fiber_context *to);

#endif
