/* SPDX-License-Identifier: Apache-2.0 */
#include "eval/caches.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Names of the scale of keys below the attention module; that of values has v in the place of k. */
static const char *const names[] = { "k_scale", "k_proj.k_scale", "attn.k_scale",
				     "k_proj.output_scale" };

static const struct tensor_ref *find(const struct checkpoint *checkpoint, const char *attention,
				     char which)
{
	const struct tensor_ref *found = NULL;

	for (size_t i = 0; i < sizeof names / sizeof *names && !found; i++) {
		char *name = xasprintf("%s.%s", attention, names[i]);

		for (char *p = name + strlen(attention) + 1; *p; p++)
			if (p[-1] == '.' && p[0] == 'k' && p[1] == '_')
				*p = which;
		found = checkpoint_find(checkpoint, name);
		free(name);
	}
	return found;
}

/* Reads one scale for each head; one in the checkpoint is that of all heads. */
static int read_scale(const struct tensor_ref *ref, struct source *source, size_t n_heads,
		      float *values, struct err *err)
{
	uint64_t n = st_n_elements(ref->tensor->shape, ref->tensor->n_dims);
	const struct floats_request request = { .ref = ref, .n = n };

	if (n != 1 && n != n_heads)
		return err_set(err, ERR_INPUT,
			       "tensor '%s' has %" PRIu64
			       " values, but a cache has one scale, or one for each of %zu heads",
			       ref->tensor->name, n, n_heads);
	if (source_read_floats(source, &request, values, err))
		return -1;
	for (size_t h = n; h < n_heads; h++)
		values[h] = values[0];
	for (size_t h = 0; h < n_heads; h++)
		if (!(values[h] > 0 && values[h] <= F32_MAX))
			return err_set(err, ERR_INPUT,
				       "tensor '%s' has the value %g, but a scale must be positive",
				       ref->tensor->name, (double)values[h]);
	return 0;
}

/* Whether the layer caches a latent vector, whose scale is that of keys. */
static bool is_latent(const struct layer_ref *layer)
{
	return layer->linear[LINEAR_KV_B].weight;
}

static int read_layer(struct cache_scales *scales, size_t i, struct source *source, struct err *err)
{
	const struct layer_ref *layer = &scales->model->layers[i];
	const char *attention = layer->mixer_module;
	const struct tensor_ref *k = find(source->checkpoint, attention, 'k');
	const struct tensor_ref *v = find(source->checkpoint, attention, 'v');
	size_t n_heads = is_latent(layer) ? 1 : layer->n_kv_heads;
	float *values = scales->values + i * 2 * scales->model->max_kv_heads;

	if (!layer_has_attention(layer) || (!k && !v))
		return 0;
	if (!k || (!v && !is_latent(layer)))
		return err_set(err, ERR_INPUT, "'%s' has a scale for its cached %s only", attention,
			       k ? "keys" : "values");
	scales->found[i] = true;
	scales->n_found++;
	if (read_scale(k, source, n_heads, values, err))
		return -1;
	return is_latent(layer) ? 0 : read_scale(v, source, n_heads, values + n_heads, err);
}

/* Returns the name of the first attention, for a message. */
static const char *first_attention(const struct model *model)
{
	for (size_t i = 0; i < model->n_layers; i++)
		if (layer_has_attention(&model->layers[i]))
			return model->layers[i].mixer_module;
	return model->layers[0].mixer_module;
}

int cache_scales_read(struct cache_scales *scales, const struct model *model, struct source *source,
		      struct err *err)
{
	*scales = (struct cache_scales){ .model = model };
	scales->found = xcalloc(model->n_layers, sizeof *scales->found);
	scales->values = xcalloc(model->n_layers * 2 * model->max_kv_heads, sizeof *scales->values);
	for (size_t i = 0; i < model->n_layers; i++)
		if (read_layer(scales, i, source, err))
			return -1;
	if (!scales->n_found)
		return err_set(err, ERR_USAGE,
			       "option '--kv-cache': the checkpoint has no scales of a cache "
			       "('%s.k_scale'): use 'quantize --kv-cache'",
			       first_attention(model));
	return 0;
}

void cache_scales_release(struct cache_scales *scales)
{
	free(scales->found);
	free(scales->values);
	*scales = (struct cache_scales){ 0 };
}

int cache_scales_send(const struct cache_scales *scales, struct executor_stream *stream,
		      float **sent, struct err *err)
{
	const struct executor_ops *ops = stream->executor->ops;
	size_t size;

	*sent = NULL;
	if (!scales->n_found)
		return 0;
	size = scales->model->n_layers * 2 * scales->model->max_kv_heads * sizeof *scales->values;
	if (ops->memory_new(stream->executor, (void **)sent, size, "the scales of caches", err))
		return -1;
	ops->put(stream, *sent, scales->values, size);
	return ops->wait(stream, err);
}

void cache_scales_set(const struct cache_scales *scales, const float *sent, struct layer *layer)
{
	size_t i;

	if (!sent)
		return;
	i = (size_t)(layer->ref - scales->model->layers);
	if (!scales->found[i])
		return;
	sent += i * 2 * scales->model->max_kv_heads;
	if (is_latent(layer->ref)) {
		layer->latent_scale = sent;
		return;
	}
	layer->key_scales = sent;
	layer->value_scales = sent + layer->ref->n_kv_heads;
}
