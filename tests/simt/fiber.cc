/* SPDX-License-Identifier: Apache-2.0 */
#include "fiber.h"

#include <stdint.h>

#ifdef __x86_64__

/* What a function must keep, by the System V ABI, lies on the stack that is left. */
__asm__(".text\n"
	".type simt_switch, @function\n"
	"simt_switch:\n"
	"	push %rbp\n"
	"	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	push %r14\n"
	"	push %r15\n"
	"	mov %rsp, (%rdi)\n"
	"	mov %rsi, %rsp\n"
	"	pop %r15\n"
	"	pop %r14\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	pop %rbp\n"
	"	ret\n"
	".size simt_switch, .-simt_switch\n");

extern "C" void simt_switch(void **from_sp, void *to_sp);

#define N_KEPT 6

void fiber_make(struct fiber_context *fiber, char *stack, size_t stack_size, void (*entry)(void))
{
	/* As if entry() had been called: after its return address, the stack is 8 beyond a multiple
	 * of 16. */
	uintptr_t top = ((uintptr_t)stack + stack_size) / 16 * 16 - 16;
	void **sp = reinterpret_cast<void **>(top) - N_KEPT;

	for (int i = 0; i < N_KEPT; i++)
		sp[i] = NULL;
	sp[N_KEPT] = reinterpret_cast<void *>(entry);
	sp[N_KEPT + 1] = NULL;
	fiber->sp = sp;
}

void fiber_switch(struct fiber_context *from, struct fiber_context *to)
{
	simt_switch(&from->sp, to->sp);
}

#else

void fiber_make(struct fiber_context *fiber, char *stack, size_t stack_size, void (*entry)(void))
{
	getcontext(&fiber->context);
	fiber->context.uc_stack.ss_sp = stack;
	fiber->context.uc_stack.ss_size = stack_size;
	fiber->context.uc_link = NULL;
	makecontext(&fiber->context, entry, 0);
}

void fiber_switch(struct fiber_context *from, struct fiber_context *to)
{
	swapcontext(&from->context, &to->context);
}

#endif
