/* SPDX-License-Identifier: Apache-2.0
 *
 * A context has a queue for each device that it was used on.
 */
#include "lib/device.h"

#include <stdlib.h>

#include "backend/dispatch.h"
#include "base/mem.h"

/* What a context has of a device. */
struct device_place {
	int ordinal;
	struct device_queue *queue;
	struct device_place *next;
};

static int queue_find(struct fp8conv_context *context, const struct device_ops *ops, int ordinal,
		      struct device_queue **queue, struct err *err)
{
	struct device_place *place = context->places;

	while (place && place->ordinal != ordinal)
		place = place->next;
	if (!place) {
		if (ops->open(queue, ordinal, err))
			return -1;
		place = xcalloc(1, sizeof *place);
		*place = (struct device_place){ ordinal, *queue, context->places };
		context->places = place;
	}
	*queue = place->queue;
	return 0;
}

int device_work_begin(struct fp8conv_context *context, const struct fp8conv_tensor *tensor,
		      const char *name, struct device_work *work, struct err *err)
{
	int ordinal = tensor->device - 1;

	*work = (struct device_work){ NULL, NULL };
	if (tensor->device == FP8CONV_CPU)
		return 0;
	work->ops = backend_in_place(err);
	if (!work->ops || queue_find(context, work->ops, ordinal, &work->queue, err)) {
		work->ops = NULL;
		return err_wrap(err, "%s is on CUDA device %d", name, ordinal);
	}
	work->ops->begin(work->queue, tensor->stream);
	return 0;
}

int device_work_end(const struct device_work *work, int rc, struct err *err)
{
	struct err failed = { 0 };

	if (!work->ops)
		return rc;
	if (work->ops->end(work->queue, &failed) && !rc) {
		*err = failed;
		return -1;
	}
	return rc;
}

bool stack_is_one(const struct stack *stack)
{
	return stack->n == 1 ||
	       stack->next == stack->rows * stack->stride * (dtype_bits(stack->dtype) / 8);
}

void device_work_amax(const struct device_work *work, const struct stack *x, float *amax,
		      bool on_host)
{
	size_t size = x->n * sizeof *amax;
	struct matrix all = { x->data, x->dtype, x->n * x->rows, x->cols, x->stride };
	float *found = on_host ? work->ops->take(work->queue, size) : amax;

	if (!found)
		return;
	work->ops->zero(work->queue, found, size);
	if (x->rows && x->cols && stack_is_one(x)) {
		work->ops->amax(work->queue, &all, (struct tile){ x->rows, WHOLE }, found);
	} else {
		for (size_t i = 0; x->rows && x->cols && i < x->n; i++) {
			struct matrix one = stack_rows(x, i, 0, x->rows);

			work->ops->amax(work->queue, &one, (struct tile){ WHOLE, WHOLE },
					&found[i]);
		}
	}
	if (on_host)
		work->ops->fetch(work->queue, amax, found, size);
}

void device_work_release(struct fp8conv_context *context)
{
	struct device_place *place;

	while ((place = context->places)) {
		context->places = place->next;
		backend_in_place(NULL)->close(place->queue);
		free(place);
	}
}
