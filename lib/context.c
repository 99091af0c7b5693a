/* SPDX-License-Identifier: Apache-2.0 */
#include "lib/context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/dispatch.h"
#include "base/mem.h"
#include "cli/process.h"
#include "lib/device.h"

EXPORTED const char *fp8conv_version(void)
{
	return FP8CONV_VERSION;
}

int size_check(const void *argument, size_t size, const char *name, struct err *err)
{
	size_t has;

	if (!argument)
		return err_set(err, ERR_USAGE, "%s is NULL", name);
	memcpy(&has, argument, sizeof has);
	if (has != size)
		return err_set(err, ERR_USAGE,
			       "%s has the size %zu, this library knows %zu: set its member size "
			       "to its sizeof",
			       name, has, size);
	return 0;
}

int word_check(int value, int n, const char *name, struct err *err)
{
	if (value < 0 || value >= n)
		return err_set(err, ERR_USAGE, "%s is %d, not from 0 to %d", name, value, n - 1);
	return 0;
}

int error_out(int rc, const struct err *err, struct fp8conv_error *error)
{
	if (error) {
		error->code = rc ? (int)err->kind : FP8CONV_OK;
		snprintf(error->message, sizeof error->message, "%s", rc ? err->message : "");
	}
	return rc ? (int)err->kind : FP8CONV_OK;
}

int context_take(struct fp8conv_context *context, struct err *err)
{
	if (!context)
		return err_set(err, ERR_USAGE, "the context is NULL");
	if (atomic_load(&context->destroyed))
		return err_set(err, ERR_USAGE, "the context is destroyed");
	if (atomic_exchange(&context->busy, true))
		return err_set(err, ERR_USAGE,
			       "the context is in use by another call: make one for each thread");
	return 0;
}

void context_leave(struct fp8conv_context *context)
{
	atomic_store(&context->busy, false);
}

static int create(const struct fp8conv_options *options, struct fp8conv_context **context,
		  struct err *err)
{
	const struct backend *backend;
	int n_threads = options ? options->threads : 0;

	if (options && size_check(options, sizeof *options, "options", err))
		return -1;
	if (!context)
		return err_set(err, ERR_USAGE, "context is NULL");
	if (n_threads < 0 || n_threads > 1024)
		return err_set(err, ERR_USAGE, "threads is %d, not from 0 to 1024", n_threads);
	backend = backend_select(options ? options->backend : NULL, err);
	if (!backend)
		return -1;
	*context = xcalloc(1, sizeof **context);
	atomic_init(&(*context)->n_owners, 1);
	(*context)->backend = (*context)->contexts.backend = backend;
	(*context)->n_threads = n_threads ? n_threads : process_cpus();
	return 0;
}

EXPORTED int fp8conv_context_create(const struct fp8conv_options *options,
				    struct fp8conv_context **context, struct fp8conv_error *error)
{
	struct err err = { 0 };

	return error_out(create(options, context, &err), &err, error);
}

void context_drop(struct fp8conv_context *context)
{
	if (atomic_fetch_sub(&context->n_owners, 1) == 1)
		free(context);
}

EXPORTED void fp8conv_context_destroy(struct fp8conv_context *context)
{
	struct fp8conv_recipe *recipe;

	if (!context)
		return;
	context_stack_release(&context->contexts);
	autocast_release(context);
	device_work_release(context);
	free(context->outer);
	while ((recipe = context->recipes)) {
		context->recipes = recipe->next;
		free(recipe->options);
		free(recipe);
	}
	atomic_store(&context->destroyed, true);
	context_drop(context);
}
