/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes the models that the benchmark converts: checkpoints in Hugging Face layout, of any size,
 * whose values are normal (0.02) with outlier columns and never zero.  The same arguments give the
 * same bytes.
 */
#include <argp.h>
#include <fcntl.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/io.h"
#include "base/mem.h"
#include "base/pool.h"
#include "ckpt/safetensors.h"

#define PIECE	    ((uint64_t)4 << 20) /* bytes that one thread makes and writes at once */
#define N_QUANTILES 65536
#define OUTLIER_COL 67 /* one column in so many is 8 times as large */
#define N_EXPERTS   128
#define EXPERT_SIDE 128 /* rows and columns of an expert's matrices */
#define HUGE_COLS   16384

struct options {
	const char *directory;
	uint64_t layers, hidden, intermediate, vocab, shards;
	uint64_t tensors; /* not 0: so many matrices of experts, and no more */
	uint64_t huge;	  /* not 0: one matrix of so many bytes */
	bool untied, sparse;
	int threads;
};

struct shard {
	char *name;
	size_t first, n; /* in model.tensors */
	struct buf header;
	uint64_t data_size;
	int fd;
};

struct piece {
	size_t shard, tensor;
	uint64_t first; /* byte of the tensor */
};

struct model {
	size_t n_tensors;
	struct st_tensor *tensors;
	size_t n_shards;
	struct shard *shards;
	size_t n_pieces;
	struct piece *pieces;
	uint16_t **chunks; /* by thread */
	uint64_t bytes;
	uint16_t quantiles[N_QUANTILES]; /* bf16 */
};

/* --- values --- */

static uint16_t bf16(double x)
{
	float value = (float)x;
	uint32_t bits;

	memcpy(&bits, &value, 4);
	return (uint16_t)(bits >> 16);
}

/* The normal quantile by Newton's method on the error function. */
static void make_quantiles(uint16_t *quantiles)
{
	double x = -4.2;

	for (size_t i = 0; i < N_QUANTILES; i++) {
		double p = ((double)i + 0.5) / N_QUANTILES;

		for (int step = 0; step < 30; step++) {
			double error = erfc(-x * M_SQRT1_2) / 2 - p;

			x -= error / (exp(-x * x / 2) * M_2_SQRTPI * M_SQRT1_2 / 2);
		}
		quantiles[i] = bf16(0.02 * x);
	}
}

static uint64_t splitmix64(uint64_t seed, uint64_t n)
{
	uint64_t z = seed + (n + 1) * 0x9E3779B97F4A7C15;

	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
	z = (z ^ z >> 27) * 0x94D049BB133111EB;
	return z ^ z >> 31;
}

/* n values of the tensor from number `first`, a multiple of four. */
static void fill(const struct model *model, uint64_t seed, uint64_t cols, uint64_t first,
		 uint64_t n, uint16_t *x)
{
	uint64_t col = first % cols;

	for (uint64_t i = 0; i < n; i += 4) {
		uint64_t word = splitmix64(seed, (first + i) / 4);

		for (uint64_t j = 0; j < 4 && i + j < n; j++)
			x[i + j] = model->quantiles[word >> 16 * j & 0xFFFF];
	}
	for (uint64_t row = 0; row < n; row += cols - col, col = 0) {
		uint64_t end = row + cols - col < n ? row + cols - col : n;

		for (uint64_t i = row + (OUTLIER_COL - col % OUTLIER_COL) % OUTLIER_COL; i < end;
		     i += OUTLIER_COL)
			x[i] = (uint16_t)(x[i] + (3 << 7));
	}
}

/* --- tensors --- */

static void add(struct model *model, uint64_t rows, uint64_t cols, char *name)
{
	struct st_tensor tensor = { .name = name, .dtype = DT_BF16, .n_dims = rows ? 2 : 1 };

	tensor.shape = xcalloc(2, sizeof *tensor.shape);
	tensor.shape[0] = rows ? rows : cols;
	tensor.shape[1] = rows ? cols : 0;
	ARRAY_GROW(model->tensors, model->n_tensors);
	model->tensors[model->n_tensors++] = tensor;
	model->bytes += 2 * (rows ? rows : 1) * cols;
}

static uint64_t head_dim(const struct options *options)
{
	return options->hidden < 128 ? options->hidden : 128;
}

static uint64_t kv_heads(const struct options *options)
{
	uint64_t n = options->hidden / head_dim(options) / 4;

	return n ? n : 1;
}

static void add_layer(struct model *model, const struct options *options, uint64_t i)
{
	const struct {
		const char *name;
		uint64_t rows, cols;
	} rows[] = {
		{ "self_attn.q_proj", options->hidden, options->hidden },
		{ "self_attn.k_proj", kv_heads(options) * head_dim(options), options->hidden },
		{ "self_attn.v_proj", kv_heads(options) * head_dim(options), options->hidden },
		{ "self_attn.o_proj", options->hidden, options->hidden },
		{ "mlp.gate_proj", options->intermediate, options->hidden },
		{ "mlp.up_proj", options->intermediate, options->hidden },
		{ "mlp.down_proj", options->hidden, options->intermediate },
		{ "input_layernorm", 0, options->hidden },
		{ "post_attention_layernorm", 0, options->hidden },
	};

	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
		add(model, rows[k].rows, rows[k].cols,
		    xasprintf("model.layers.%llu.%s.weight", (unsigned long long)i, rows[k].name));
}

static void add_expert_matrix(struct model *model, uint64_t i)
{
	static const char *const names[] = { "gate_proj", "up_proj", "down_proj" };
	uint64_t expert = i / 3;

	add(model, EXPERT_SIDE, EXPERT_SIDE,
	    xasprintf("model.layers.%llu.mlp.experts.%llu.%s.weight",
		      (unsigned long long)(expert / N_EXPERTS),
		      (unsigned long long)(expert % N_EXPERTS), names[i % 3]));
}

static void make_tensors(struct model *model, const struct options *options)
{
	if (options->huge) {
		add(model, options->huge / 2 / HUGE_COLS, HUGE_COLS,
		    xstrdup("model.layers.0.mlp.down_proj.weight"));
		return;
	}
	if (options->tensors) {
		for (uint64_t i = 0; i < options->tensors; i++)
			add_expert_matrix(model, i);
		return;
	}
	add(model, options->vocab, options->hidden, xstrdup("model.embed_tokens.weight"));
	for (uint64_t i = 0; i < options->layers; i++)
		add_layer(model, options, i);
	add(model, 0, options->hidden, xstrdup("model.norm.weight"));
	if (options->untied)
		add(model, options->vocab, options->hidden, xstrdup("lm_head.weight"));
}

/* --- files --- */

/* Equal shares of the bytes, in the order of the model. */
static void cut_shards(struct model *model, const struct options *options)
{
	const struct st_metadata pt = { .key = (char[]){ "format" }, .value = (char[]){ "pt" } };
	uint64_t bytes = 0, header_size;
	size_t t = 0;

	model->n_shards = options->shards;
	model->shards = xcalloc(model->n_shards, sizeof *model->shards);
	for (size_t i = 0; i < model->n_shards; i++) {
		struct shard *shard = &model->shards[i];

		shard->first = t;
		for (; t < model->n_tensors && (bytes * model->n_shards < model->bytes * (i + 1));
		     t++) {
			const struct st_tensor *tensor = &model->tensors[t];

			bytes += 2 * st_n_elements(tensor->shape, tensor->n_dims);
		}
		shard->n = t - shard->first;
		st_layout(&model->tensors[shard->first], shard->n, &pt, 1, &header_size,
			  &shard->data_size);
		st_header(&model->tensors[shard->first], shard->n, &pt, 1, &shard->header);
		shard->name = model->n_shards == 1 ? xstrdup("model.safetensors")
						   : xasprintf("model-%05zu-of-%05zu.safetensors",
							       i + 1, model->n_shards);
	}
}

static void cut_pieces(struct model *model)
{
	for (size_t s = 0; s < model->n_shards; s++) {
		const struct shard *shard = &model->shards[s];

		for (size_t t = shard->first; t < shard->first + shard->n; t++) {
			uint64_t size = st_tensor_size(&model->tensors[t]);

			for (uint64_t at = 0; at < size; at += PIECE) {
				ARRAY_GROW(model->pieces, model->n_pieces);
				model->pieces[model->n_pieces++] = (struct piece){ s, t, at };
			}
		}
	}
}

static int write_piece(void *context, int thread, size_t item, struct err *err)
{
	struct model *model = context;
	const struct piece *piece = &model->pieces[item];
	const struct shard *shard = &model->shards[piece->shard];
	const struct st_tensor *tensor = &model->tensors[piece->tensor];
	uint64_t left = st_tensor_size(tensor) - piece->first;
	size_t size = (size_t)(left < PIECE ? left : PIECE);

	fill(model, splitmix64(1, piece->tensor), tensor->shape[tensor->n_dims - 1],
	     piece->first / 2, size / 2, model->chunks[thread]);
	return io_pwrite_full(&(struct file){ &io_system, shard->fd, shard->name },
			      model->chunks[thread], size,
			      shard->header.len + tensor->begin + piece->first, err);
}

static int create(const struct options *options, const char *name, int *fd, struct err *err)
{
	char *path = xasprintf("%s/%s", options->directory, name);

	*fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (*fd < 0)
		err_errno(err, "cannot create '%s'", path);
	free(path);
	return *fd < 0 ? -1 : 0;
}

static int write_text(const struct options *options, const char *name, struct buf *text,
		      struct err *err)
{
	int fd;
	int rc = create(options, name, &fd, err);

	if (!rc) {
		rc = io_write_full(&(struct file){ &io_system, fd, name }, text->data, text->len,
				   err);
		close(fd);
	}
	buf_release(text);
	return rc;
}

static int write_config(const struct model *model, const struct options *options, struct err *err)
{
	bool moe = options->tensors != 0;
	struct buf text = { 0 };

	(void)model;
	buf_printf(&text, "{\n  \"architectures\": [\"%s\"],\n  \"model_type\": \"%s\",\n",
		   moe ? "Qwen3MoeForCausalLM" : "LlamaForCausalLM", moe ? "qwen3_moe" : "llama");
	if (moe)
		buf_printf(&text,
			   "  \"num_experts\": %d,\n  \"num_experts_per_tok\": 8,\n  "
			   "\"moe_intermediate_size\": %d,\n",
			   N_EXPERTS, EXPERT_SIDE);
	buf_printf(
		&text,
		"  \"hidden_size\": %llu,\n  \"intermediate_size\": %llu,\n  "
		"\"num_hidden_layers\": %llu,\n"
		"  \"num_attention_heads\": %llu,\n  \"num_key_value_heads\": %llu,\n  "
		"\"head_dim\": %llu,\n"
		"  \"vocab_size\": %llu,\n  \"max_position_embeddings\": 4096,\n  "
		"\"rms_norm_eps\": 1e-05,\n"
		"  \"rope_theta\": 500000.0,\n  \"hidden_act\": \"silu\",\n  \"bos_token_id\": 1,\n"
		"  \"eos_token_id\": 2,\n  \"tie_word_embeddings\": %s,\n  \"torch_dtype\": "
		"\"bfloat16\"\n}\n",
		(unsigned long long)(moe ? EXPERT_SIDE : options->hidden),
		(unsigned long long)options->intermediate,
		(unsigned long long)(moe ? options->tensors / 3 / N_EXPERTS + 1 : options->layers),
		(unsigned long long)(options->hidden / head_dim(options)),
		(unsigned long long)kv_heads(options), (unsigned long long)head_dim(options),
		(unsigned long long)options->vocab, options->untied ? "false" : "true");
	return write_text(options, "config.json", &text, err);
}

static int write_index(const struct model *model, const struct options *options, struct err *err)
{
	struct buf text = { 0 };

	if (model->n_shards == 1)
		return 0;
	buf_printf(&text, "{\"metadata\": {\"total_size\": %llu}, \"weight_map\": {",
		   (unsigned long long)model->bytes);
	for (size_t s = 0; s < model->n_shards; s++) {
		const struct shard *shard = &model->shards[s];

		for (size_t t = shard->first; t < shard->first + shard->n; t++)
			buf_printf(&text, "%s\n\"%s\": \"%s\"", t ? "," : "",
				   model->tensors[t].name, shard->name);
	}
	buf_puts(&text, "\n}}\n");
	return write_text(options, "model.safetensors.index.json", &text, err);
}

static int write_files(struct model *model, const struct options *options, struct err *err)
{
	int rc = 0;

	for (size_t i = 0; i < model->n_shards; i++) {
		struct shard *shard = &model->shards[i];

		if (create(options, shard->name, &shard->fd, err) ||
		    io_pwrite_full(&(struct file){ &io_system, shard->fd, shard->name },
				   shard->header.data, shard->header.len, 0, err))
			return -1;
		if (ftruncate(shard->fd, (off_t)(shard->header.len + shard->data_size)))
			return err_errno(err, "cannot write '%s'", shard->name);
	}
	if (!options->sparse)
		rc = pool_run(options->threads, model->n_pieces, write_piece, model, NULL, err);
	for (size_t i = 0; i < model->n_shards; i++) {
		if (close(model->shards[i].fd) && !rc)
			rc = err_errno(err, "cannot write '%s'", model->shards[i].name);
	}
	return rc;
}

/* --- arguments --- */

enum { OPT_UNTIED = 256, OPT_SPARSE, OPT_HUGE, OPT_TENSORS, OPT_SHARDS, OPT_THREADS };

static const struct argp_option descriptions[] = {
	{ "layers", 'l', "N", 0, "Default 20", 0 },
	{ "hidden", 'h', "N", 0, "Default 2048", 0 },
	{ "intermediate", 'i', "N", 0, "Default 8192", 0 },
	{ "vocab", 'v', "N", 0, "Default 32000", 0 },
	{ "untied", OPT_UNTIED, NULL, 0, "An lm_head of its own", 0 },
	{ "tensors", OPT_TENSORS, "N", 0, "Instead: N small matrices of experts", 0 },
	{ "huge", OPT_HUGE, "GIB", 0, "Instead: one matrix", 0 },
	{ "shards", OPT_SHARDS, "N", 0, "Default 1", 0 },
	{ "sparse", OPT_SPARSE, NULL, 0, "Headers only: the data is a hole in the file", 0 },
	{ "threads", OPT_THREADS, "N", 0, "Default: one for each CPU", 0 },
	{ 0 },
};

static error_t parse(int key, char *value, struct argp_state *state)
{
	struct options *options = state->input;
	uint64_t number = value ? strtoull(value, NULL, 10) : 0;

	if (value && key != ARGP_KEY_ARG && number == 0)
		argp_error(state, "'%s' is not a number from 1", value);
	switch (key) {
	case 'l':
		options->layers = number;
		break;
	case 'h':
		options->hidden = number;
		break;
	case 'i':
		options->intermediate = number;
		break;
	case 'v':
		options->vocab = number;
		break;
	case OPT_UNTIED:
		options->untied = true;
		break;
	case OPT_TENSORS:
		options->tensors = number;
		break;
	case OPT_HUGE:
		options->huge = number << 30;
		break;
	case OPT_SHARDS:
		options->shards = number;
		break;
	case OPT_SPARSE:
		options->sparse = true;
		break;
	case OPT_THREADS:
		options->threads = (int)number;
		break;
	case ARGP_KEY_ARG:
		options->directory = value;
		break;
	case ARGP_KEY_END:
		if (state->arg_num != 1)
			argp_usage(state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	const struct argp argp = { descriptions, parse, "DIR", "Make a model for the benchmark.",
				   NULL,	 NULL,	NULL };
	struct options options = {
		.layers = 20, .hidden = 2048, .intermediate = 8192, .vocab = 32000, .shards = 1
	};
	struct model *model = xcalloc(1, sizeof *model);
	struct err err = { 0 };

	options.threads = (int)sysconf(_SC_NPROCESSORS_ONLN);
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	io_system.mkdirat(&io_system, AT_FDCWD, options.directory, 0777);
	make_quantiles(model->quantiles);
	make_tensors(model, &options);
	cut_shards(model, &options);
	cut_pieces(model);
	model->chunks = xcalloc((size_t)options.threads, sizeof *model->chunks);
	for (int i = 0; i < options.threads; i++)
		model->chunks[i] = xmalloc(PIECE);
	if (write_files(model, &options, &err) || write_index(model, &options, &err) ||
	    write_config(model, &options, &err)) {
		fprintf(stderr, "model: %s\n", err.message);
		return err.kind;
	}
	return 0;
}
