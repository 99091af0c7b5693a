/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a step of delayed scaling (num/history.h) for all slots of a model: one copy of
 * histories and scales to the GPU, one launch with a block for each slot, and one copy back.
 */
extern "C" {
#include "base/mem.h"
}

#include <stdlib.h>
#include <string.h>

#include "num/history.h"
#include "kernels/gpu/cast/cast.h"
#include "kernels/gpu/cast/block128.h"

/* One slot; the pointers are the GPU's. */
struct gpu_slot {
	float *history; /* h[i] at i * stride */
	size_t stride, len;
	float *scale;
	float fmax, reduced;
	enum amax_algo algo;
};

/* As history_roll(): a maximum does not depend on the order.  Moves h forward in place, THREADS
 * elements at a time. */
static __global__ void delayed_update_slots(const struct gpu_slot *slots)
{
	const struct gpu_slot s = slots[blockIdx.x];
	float last = s.reduced != 0 ? s.reduced : s.history[0], max = amax_max(last, 0);

	if (last == 0)
		return;
	for (size_t first = 0; first < s.len; first += THREADS) {
		size_t i = first + threadIdx.x;
		float next = i + 1 < s.len ? s.history[(i + 1) * s.stride] : last;

		max = amax_max(next, max);
		__syncthreads(); /* all threads have read the elements that are now written */
		if (i < s.len)
			s.history[i * s.stride] = i == 0 ? 0 : next;
	}
	max = f32_from_bits(block_max(max > 0 ? f32_bits(max) : 0)); /* ignores the sign of zero */
	if (threadIdx.x == 0)
		*s.scale = delayed_scale(s.fmax, s.algo == AMAX_MAX ? max : last, *s.scale);
}

/* Returns the floats of a state's slots: (len, n) of history, then the scales. */
static size_t n_held(const struct delayed_slots *s)
{
	return (s->len + 1) * s->n;
}

/* Packs the floats of all states into one array; on_device is its address on the GPU, to which
 * *slot and the following slots point. */
static void pack(const struct delayed_slots *states, size_t n, float *here, float *on_device,
		 struct gpu_slot *slot)
{
	for (size_t i = 0; i < n; i++) {
		const struct delayed_slots *s = &states[i];
		size_t n_history = s->len * s->n;

		if (s->n == 0)
			continue;
		memcpy(here, s->history, n_history * sizeof *here);
		memcpy(here + n_history, s->scale, s->n * sizeof *here);
		for (size_t k = 0; k < s->n; k++)
			*slot++ = { on_device + k, s->n,	  s->len, on_device + n_history + k,
				    s->fmax[k],	   s->reduced[k], s->algo };
		here += n_held(s);
		on_device += n_held(s);
	}
}

static void unpack(const struct delayed_slots *states, size_t n, const float *here)
{
	for (size_t i = 0; i < n; i++) {
		const struct delayed_slots *s = &states[i];
		size_t n_history = s->len * s->n;

		if (s->n == 0)
			continue;
		memcpy(s->history, here, n_history * sizeof *here);
		memcpy(s->scale, here + n_history, s->n * sizeof *here);
		here += n_held(s);
	}
}

/* Histories are small compared with a model: they use metadata's memory (xmalloc). */
void gpu_delayed_update(const struct delayed_slots *states, size_t n)
{
	struct device_stream *stream = device_stream_here();
	size_t n_slots = 0, size = 0, slots_size;
	struct gpu_slot *slots, *slots_on_device;
	float *held, *on_device;

	for (size_t i = 0; i < n; i++) {
		n_slots += states[i].n;
		size += n_held(&states[i]) * sizeof *held;
	}
	if (n_slots == 0)
		return;
	slots_size = n_slots * sizeof *slots;
	device_begin(stream);
	on_device = static_cast<float *>(device_take(stream, size));
	slots_on_device = static_cast<struct gpu_slot *>(device_take(stream, slots_size));
	if (device_stream_stopped(stream))
		return;
	held = static_cast<float *>(xmalloc(size));
	slots = static_cast<struct gpu_slot *>(
		xcalloc(n_slots, sizeof *slots)); /* zeroes the padding too */
	pack(states, n, held, on_device, slots);
	device_bytes_in(stream, on_device, held, size);
	device_bytes_in(stream, slots_on_device, slots, slots_size);
	if (!device_stream_stopped(stream)) { /* no launch if the pointers were not copied */
		GPU_LAUNCH(delayed_update_slots, n_slots, THREADS, device_stream_native(stream),
			   slots_on_device);
		device_launched(stream, "delayed_update_slots");
	}
	device_bytes_out(stream, held, on_device, size);
	device_wait(stream);
	if (!device_stream_stopped(stream))
		unpack(states, n, held);
	free(held);
	free(slots);
}
