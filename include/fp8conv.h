/* SPDX-License-Identifier: Apache-2.0
 *
 * fp8conv as a library: TransformerEngine's FP8 recipes, quantizers and contexts, on matrices in
 * the memory of the caller.  fp8conv(3) is the manual.
 *
 * Order: fp8conv_context_create(); fp8conv_recipe_get(); then fp8conv_quantize() and
 * fp8conv_dequantize(), or recipe states within fp8conv_context_enter() and
 * fp8conv_context_exit(); fp8conv_context_destroy().  fp8conv_run() stands alone.
 *
 * Errors.  A function that returns int returns 0, or one of enum fp8conv_code with the reason in
 * *error, which may be NULL.  The outputs of a call that failed are not valid.  No function prints,
 * ends the process (but without memory for small tables), or installs a signal handler.
 *
 * Threads.  A context serves one thread at a time; a second one gets FP8CONV_USAGE.  Different
 * contexts are independent.  A process may fork before its first call.
 *
 * Structs begin with their size, sizeof(struct x), so that later versions may add members.  Other
 * members may be 0 where nothing is said.
 */
#ifndef FP8CONV_H
#define FP8CONV_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum fp8conv_code {
	FP8CONV_OK = 0,
	FP8CONV_USAGE = 2,	 /* the request cannot be done */
	FP8CONV_INPUT = 3,	 /* the input is bad */
	FP8CONV_SYSTEM = 4,	 /* memory, device or I/O: another try may work */
	FP8CONV_INTERRUPTED = 5, /* the caller cancelled the job */
};

/* A failure: enum fp8conv_code, and one line of text. */
struct fp8conv_error {
	int code;
	char message[1024];
};

/* Returns the version of the library: "MAJOR.MINOR.PATCH". */
const char *fp8conv_version(void);

/* -- Context -------------------------------------------------------------- */

/* Threads, backend and recipes of one caller. */
struct fp8conv_context;

struct fp8conv_options {
	size_t size;
	int threads;	     /* that a call may use; 0: as many as the process has CPUs */
	const char *backend; /* "auto", "cpu", "avx2", ... (fp8conv-version(1)); NULL: "auto" */
};

/* Creates a context.  options may be NULL.  The caller destroys it. */
int fp8conv_context_create(const struct fp8conv_options *options, struct fp8conv_context **context,
			   struct fp8conv_error *error);

/* Destroys a context and its recipes.  States that are still there can only be destroyed.  Ignores
 * NULL. */
void fp8conv_context_destroy(struct fp8conv_context *context);

/* -- Recipes -------------------------------------------------------------- */

/* FP8 formats, tiles and scale rules of inputs, weights and gradients. */
struct fp8conv_recipe;

/* Finds a recipe by its name: "blockwise", "channelwise", "current", "delayed" or "mxfp8"
 * (fp8conv-recipes(7)).  options: NULL, or a JSON object whose keys are names of long options:
 * "fp8-format" ("e4m3", "e5m2"), "scale-fmt", "scale-arith", "mx-scale", "amax-epsilon", "margin";
 * and of "delayed" "amax-history-len", "amax-algo" ("max", "most-recent") and "reduce-amax".  They
 * hold for all roles.  *recipe is valid until the context is destroyed. */
int fp8conv_recipe_get(struct fp8conv_context *context, const char *name, const char *options,
		       const struct fp8conv_recipe **recipe, struct fp8conv_error *error);

/* Returns 0 where a GEMM on the backend of the context takes operands of the recipe, else
 * FP8CONV_USAGE with what it lacks: "compute capability 8.6, FP8 needs 8.9". */
int fp8conv_supports(struct fp8conv_context *context, const struct fp8conv_recipe *recipe,
		     struct fp8conv_error *error);

/* -- Tensors -------------------------------------------------------------- */

enum fp8conv_dtype {
	FP8CONV_F32,
	FP8CONV_BF16,
	FP8CONV_F16,
	FP8CONV_E4M3, /* OCP's, as torch.float8_e4m3fn: max 448, no inf */
	FP8CONV_E5M2,
	FP8CONV_E8M0, /* a scale 2^(byte - 127) */
};

enum { FP8CONV_CPU = 0 };
#define FP8CONV_CUDA(ordinal) ((ordinal) + 1)

/* A matrix (rows, columns), or a stack of such matrices.  The library neither keeps nor frees its
 * data, which need not be aligned on the CPU, and to their elements on a CUDA device.
 *
 * All tensors of a call are on one device.  On a CUDA device the backend of the context does not
 * matter; a call adds its work to the stream and returns, and failures of that work show in later
 * calls.  saturated and nonfinite are then 0.  Calls of a state wait for the stream. */
struct fp8conv_tensor {
	size_t size;
	void *data;
	size_t bytes; /* at data; 0: unknown, else a tensor that does not fit is refused */
	int dtype;    /* enum fp8conv_dtype */
	int device;   /* FP8CONV_CPU, or FP8CONV_CUDA(ordinal) */
	size_t batch; /* matrices in the stack; 0: one */
	size_t rows, columns;
	size_t batch_stride; /* elements from one matrix to the next; 0: rows * row_stride */
	size_t row_stride;   /* elements from one row to the next; 0: columns */
	/* Of a tensor that is read on a CUDA device: the cudaStream_t whose order the call is
	 * in; NULL: the default stream. */
	void *stream;
};

/* What a tensor is in a linear layer, which decides its format and tiles.  An output has those of
 * an input; an output gradient and an input gradient have the same. */
enum fp8conv_role { FP8CONV_X, FP8CONV_W, FP8CONV_Y, FP8CONV_GRAD_OUTPUT, FP8CONV_GRAD_INPUT };

/* Where the scales of tiles lie in a scale tensor. */
enum fp8conv_layout {
	FP8CONV_COMPACT,  /* (ceil(rows / block_rows), ceil(columns / block_columns)), as on disk */
	FP8CONV_PADDED,	  /* as TransformerEngine has them in memory, with zeros as padding */
	FP8CONV_SWIZZLED, /* the same, with E8M0 scales in the order of cuBLASLt */
};

/* A matrix in FP8: a rowwise copy, quantized along rows; a columnwise one, quantized along columns;
 * or both.  Codes are (rows, columns), but columnwise ones with F32 scales are the transpose
 * (columns, rows).  fp8conv_scale_shape() has the shapes of both tensors.  The value of a code is
 * code * scale_inv. */
struct fp8conv_quantized {
	size_t size;
	/* the copies; NULL: not wanted, or not there */
	struct fp8conv_tensor *rowwise, *rowwise_scale_inv;
	struct fp8conv_tensor *columnwise, *columnwise_scale_inv;
	int layout; /* enum fp8conv_layout */
	/* The elements that share a scale, along the direction of the copy: (1, 128) are 128
	 * of a row, in a columnwise copy 128 of a column.  0: all.  Set by quantizing, read by
	 * dequantizing. */
	size_t block_rows, block_columns;
	/* Set by quantizing: finite values beyond the largest code, with every inf; NaN and inf. */
	uint64_t saturated, nonfinite;
};

/* -- Numbers -------------------------------------------------------------- */

/* Which copy of a tensor. */
struct fp8conv_copy {
	size_t size;
	int role;	/* enum fp8conv_role */
	int columnwise; /* 0: the rowwise copy */
	int layout;	/* enum fp8conv_layout */
};

/* The shapes and types of its two tensors, and the elements that share a scale. */
struct fp8conv_shape {
	size_t size;
	size_t codes_rows, codes_columns;
	size_t scale_rows, scale_columns;
	size_t block_rows, block_columns; /* as in struct fp8conv_quantized */
	int codes_dtype, scale_dtype;	  /* enum fp8conv_dtype */
};

/* Sets *shape to that of a copy of a matrix (rows, columns). */
int fp8conv_scale_shape(const struct fp8conv_recipe *recipe, const struct fp8conv_copy *copy,
			size_t rows, size_t columns, struct fp8conv_shape *shape,
			struct fp8conv_error *error);

/* Sets amax[i] to max |x| of matrix i of the stack, which has F32, BF16 or F16 elements.  NaN is
 * ignored, inf is not.  amax lies on the device of x. */
int fp8conv_amax(struct fp8conv_context *context, const struct fp8conv_tensor *x, float *amax,
		 struct fp8conv_error *error);

/* Writes the codes and scales of the copies in *out; each matrix of a stack has its own scales.
 * x: F32, BF16 or F16.  Scales are computed from x; with "delayed" as with "current". */
int fp8conv_quantize(struct fp8conv_context *context, const struct fp8conv_recipe *recipe, int role,
		     const struct fp8conv_tensor *x, struct fp8conv_quantized *out,
		     struct fp8conv_error *error);

/* Writes the values of the codes to y, of F32, BF16 or F16: one product and one rounding.  Reads
 * the rowwise copy where there is one.  Scales may also be BF16 or F16, as other tools write
 * them. */
int fp8conv_dequantize(struct fp8conv_context *context, const struct fp8conv_quantized *q,
		       const struct fp8conv_tensor *y, struct fp8conv_error *error);

/* -- Recipe states -------------------------------------------------------- */

/* The quantizers of a module's GEMMs for one direction, with the amax history and the scales of
 * "delayed".  Slots: forward x, w, y of the first GEMM, then of the next one; backward grad_output,
 * grad_input. */
struct fp8conv_state;

enum fp8conv_mode { FP8CONV_FORWARD, FP8CONV_BACKWARD };

/* Creates the state of n_gemms GEMMs, with 3 * n_gemms or 2 * n_gemms slots: scales 1, no history.
 * The caller destroys it. */
int fp8conv_state_create(struct fp8conv_context *context, const struct fp8conv_recipe *recipe,
			 int mode, size_t n_gemms, struct fp8conv_state **state,
			 struct fp8conv_error *error);
void fp8conv_state_destroy(struct fp8conv_state *state);

/* Quantizes x by the scale of the slot, as fp8conv_quantize() does, and raises its amax of this
 * step to that of x.  out NULL: raises the amax alone, as a module does that calibrates.  With a
 * recipe without history there is no amax to raise.  NaN is ignored; an inf keeps the scale of the
 * slot for as long as the history has it, as in TransformerEngine. */
int fp8conv_state_quantize(struct fp8conv_state *state, size_t slot, const struct fp8conv_tensor *x,
			   struct fp8conv_quantized *out, struct fp8conv_error *error);

/* The history of a state, in arrays of the caller. */
struct fp8conv_history {
	size_t size;
	size_t length;	/* steps; 0: the recipe has no history */
	size_t n_slots; /* 0 if length is */
	float *amax;	/* (length, n_slots): row 0 of this step, row 1 of the oldest; or NULL */
	float *scale;	/* (n_slots), factors of the casts: scale_inv is 1 / scale; or NULL */
};

/* Copies the history to the arrays that are not NULL, which have the length and n_slots of the
 * state.  With both NULL it sets length and n_slots. */
int fp8conv_history_get(const struct fp8conv_state *state, struct fp8conv_history *history,
			struct fp8conv_error *error);

/* Copies the arrays that are not NULL to the state, of the same length and n_slots.  Amaxes are not
 * negative; scales are positive and finite. */
int fp8conv_history_set(struct fp8conv_state *state, const struct fp8conv_history *history,
			struct fp8conv_error *error);

/* TransformerEngine's fp8_autocast(). */
struct fp8conv_autocast {
	size_t size;
	int enabled;			     /* modules quantize, and their GEMMs take FP8 */
	int calibrating;		     /* modules only record amaxes */
	const struct fp8conv_recipe *recipe; /* must be supported if enabled; else may be NULL */
	/* Sets each of n values to its maximum over the ranks of the group, and returns 0; all
	 * ranks call it with the same n.  NULL: one process.  Ranks must use the same states in the
	 * same order. */
	int (*reduce_max)(void *group, float *values, size_t n);
	void *group;
};

/* Enters a context, within the current one if there is one.  A state that is used within an enabled
 * or calibrating context is updated at the end of the step. */
int fp8conv_context_enter(struct fp8conv_context *context, const struct fp8conv_autocast *autocast,
			  struct fp8conv_error *error);

/* Returns to the context before.  The outermost exit ends the step: one reduction for each group,
 * of the states whose recipe has "reduce-amax"; then histories roll and scales are computed, for
 * all states used.  Where that fails, all of them stay as they are. */
int fp8conv_context_exit(struct fp8conv_context *context, struct fp8conv_error *error);

/* -- Plans ---------------------------------------------------------------- */

/* What `fp8conv quantize` does with the tensors of a model: their recipes, names and scales, and
 * the configuration.  A plan needs the context, and must be destroyed before it. */
struct fp8conv_plan;

/* A tensor of a checkpoint, contiguous as in a safetensors file. */
struct fp8conv_item {
	size_t size;
	const char *name;  /* "model.layers.0.mlp.down_proj.weight" */
	const char *dtype; /* as safetensors has it: "BF16", "F8_E4M3" */
	size_t n_dims;
	const uint64_t *shape;
	const void *data; /* in the memory of the process; NULL: not at hand */
};

/* A model.  Data are read where the decisions depend on them: scales of an FP8 source with
 * "requantize", a sample of each tensor with "calibration", all with "on-nonfinite": "skip". */
struct fp8conv_model {
	size_t size;
	const char *config; /* text of config.json; NULL: no family is known */
	size_t n_tensors;
	const struct fp8conv_item *tensors; /* of one shard or all; names differ */
};

/* Makes a plan.  options: NULL, or a JSON object whose keys are names of long options of
 * fp8conv-quantize(1) that decide about tensors, numbers and formats: {"recipe": "blockwise",
 * "target": "vllm", "exclude": ["lm_head"], "ragged": true}.  Copies what it needs of the model;
 * the caller destroys the plan. */
int fp8conv_plan_create(struct fp8conv_context *context, const struct fp8conv_model *model,
			const char *options, struct fp8conv_plan **plan,
			struct fp8conv_error *error);
void fp8conv_plan_destroy(struct fp8conv_plan *plan);

/* What becomes of a tensor.  Texts and arrays are the plan's. */
struct fp8conv_entry {
	size_t size;
	const char *action; /* "quantize", "keep", or "drop": a scale that goes into its weight */
	const char *recipe; /* by name; NULL: kept */
	const char *reason; /* why it is kept, or has another recipe than the others; or NULL */
	const char *source; /* of the rule, where it is one of a release or an engine; or NULL */
	size_t n_outputs;
	const struct fp8conv_item *outputs; /* codes before their scale; data NULL */
	/* The tensors of the model whose data fp8conv_plan_apply() reads for it, by index, with
	 * itself: weights that share a scale, scales of the source. */
	size_t n_needed;
	const size_t *needed;
};

/* Sets *entry to the plan of tensor i of the model. */
int fp8conv_plan_entry(struct fp8conv_plan *plan, size_t i, struct fp8conv_entry *entry,
		       struct fp8conv_error *error);

/* A tensor to convert. */
struct fp8conv_conversion {
	size_t size;
	size_t tensor;	      /* its index in the model */
	const void *data;     /* contiguous, in the memory of the device */
	size_t bytes;	      /* at data; 0: unknown, else another number than its own is refused */
	void *const *outputs; /* memory for each output of its entry; NULL: it is only read */
	/* 1: F32 scales of blocks lie by columns, each padded with zeros to a multiple of 4
	 * elements, as DeepGEMM reads them: (..., rows, columns) takes round_up(rows, 4) * columns
	 * elements.  0: as in a file. */
	int scales_by_columns;
	int device; /* of data and outputs, the same in all: FP8CONV_CPU or FP8CONV_CUDA(ordinal) */
	void *stream; /* as in struct fp8conv_tensor, of the first one of the list */
};

/* Converts n tensors: writes their outputs, byte for byte as `fp8conv quantize` does.  The list has
 * all tensors that an entry needs, each once.  Fails with FP8CONV_INPUT for NaN and inf, as the
 * command.  On a CUDA device it waits for the stream, because of these; F32, BF16 and F16 weights
 * that lie row by row are converted there, others (FP8 and MXFP4 sources) by the CPU. */
int fp8conv_plan_apply(struct fp8conv_plan *plan, const struct fp8conv_conversion *list, size_t n,
		       struct fp8conv_error *error);

/* Returns a text of the plan, which lives as long: "config.json", "hf_quant_config.json",
 * "params.json", of a model without a config.json "quantization_config"; or "notes", a line each.
 * NULL: the output has none. */
const char *fp8conv_plan_text(const struct fp8conv_plan *plan, const char *name);

/* -- Amax files ----------------------------------------------------------- */

/* The history of a module in an amax file. */
struct fp8conv_amax_module {
	size_t size;
	const char *name; /* its path: "model.layers.0.mlp.down_proj" */
	int attention;	  /* columns: 0: x, w, y of a GEMM; 1: q, k, v */
	size_t n_passes;  /* rows, the oldest first */
	size_t stride;	  /* floats from one row to the next; 0: 3 */
	/* (n_passes, 3) magnitudes.  The passes of GEMM i in a struct fp8conv_history h are length
	 * - 1 rows at h.amax + h.n_slots + 3 * i, with the stride h.n_slots. */
	const float *amax;
	/* (n_passes) tokens that reached the module; NULL: 1 in passes with an x, 0 in others */
	const int64_t *tokens;
};

/* An amax file (fp8conv-amax(5)), as "fp8conv calibrate" makes it. */
struct fp8conv_amax_file {
	size_t size;
	const char
		*checkpoint;   /* to save: the model on the disk, of which model is made; or NULL */
	const char *model;     /* its fingerprint */
	const char *precision; /* of the passes: "bf16", "f32" */
	const char *backend;   /* that computed them; to save, NULL: "library" */
	uint64_t data[2];      /* fingerprint of the data: high, low */
	uint64_t passes, tokens, seq_len;
	uint64_t history_len; /* most passes kept of a module; 0: 1024 */
	size_t n_modules;
	const struct fp8conv_amax_module *modules;
};

/* Writes the file, whole or not at all, and replaces only an amax file. */
int fp8conv_amax_save(const char *path, const struct fp8conv_amax_file *file,
		      struct fp8conv_error *error);

/* Reads a file.  The caller frees it by one fp8conv_free(). */
int fp8conv_amax_load(const char *path, struct fp8conv_amax_file **file,
		      struct fp8conv_error *error);

/* -- Jobs ----------------------------------------------------------------- */

/* How far a command has come. */
struct fp8conv_progress {
	size_t size;
	double done, total; /* total 0: unknown */
	const char *unit;   /* "tokens"; NULL: bytes */
	const char *doing;  /* "checking"; NULL: the job itself */
	const char *item;   /* the current file or layer; may be empty */
};

/* A run of a command.  Functions that are NULL are not called. */
struct fp8conv_run {
	size_t size;
	/* NULL, or an int that another thread may set, by an atomic store, to the number of a
	 * signal: the job ends as the program does by that signal, with FP8CONV_INTERRUPTED. */
	const int *cancel;
	/* Several times a second while a job runs, from another thread. */
	void (*progress)(void *user, const struct fp8conv_progress *progress);
	/* For each line of notes and summaries, which the program prints on standard error. */
	void (*log)(void *user, const char *line);
	void *user;
	/* Set by the run. */
	char *output; /* what the program prints on standard output; fp8conv_free() it */
	size_t output_size;
	int status; /* exit status of the program, where the run returns 0: verify has 1 */
};

/* Runs a command of the program in this process: argv[0] is "fp8conv", argv[1] the command, and
 * argv[argc - 1] the last argument.  One run at a time in a process; a second one gets
 * FP8CONV_USAGE.  "-" as a file is standard input or output of the process. */
int fp8conv_run(int argc, const char *const *argv, struct fp8conv_run *run,
		struct fp8conv_error *error);

/* Frees what the library allocated for the caller.  Ignores NULL. */
void fp8conv_free(void *memory);

#ifdef __cplusplus
}
#endif

#endif
