/* SPDX-License-Identifier: Apache-2.0 */
#include "torch/pickle.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The machine of a pickle: a stack, and a memo of values. */
struct unpickler {
	struct pickle *pickle;
	const struct pickle_text *text;
	pickle_knows_fn *knows;
	size_t at;    /* next byte */
	size_t op_at; /* of the opcode that runs */
	struct pickle_value **stack;
	size_t n_stack;
	struct pickle_value **memo;
	size_t n_memo;
	struct err *err;
	struct pickle_value mark;
	struct pickle_value *constants; /* of the arena: None, True, False, () */
};

static int refuse(struct unpickler *u, const char *what)
{
	return err_set(u->err, ERR_INPUT, "pickle '%s' %s at byte %zu", u->text->name, what,
		       u->op_at);
}

static struct pickle_value *value_new(struct unpickler *u, enum pickle_kind kind)
{
	struct pickle_value *value = arena_alloc(&u->pickle->arena, sizeof *value);

	*value = (struct pickle_value){ .kind = kind, .at = (uint32_t)u->op_at };
	return value;
}

static int push(struct unpickler *u, struct pickle_value *value)
{
	ARRAY_GROW(u->stack, u->n_stack);
	u->stack[u->n_stack++] = value;
	return 0;
}

/* Returns the top of the stack, or NULL with an error where there is none, or a mark. */
static struct pickle_value *peek(struct unpickler *u)
{
	if (u->n_stack && u->stack[u->n_stack - 1]->kind != PICKLE_MARK)
		return u->stack[u->n_stack - 1];
	refuse(u, "takes from an empty stack");
	return NULL;
}

static struct pickle_value *pop(struct unpickler *u)
{
	struct pickle_value *value = peek(u);

	u->n_stack -= value != NULL;
	return value;
}

/* Takes n bytes of argument; NULL: the pickle ends before. */
static const unsigned char *take(struct unpickler *u, uint64_t n)
{
	const unsigned char *bytes = u->text->data + u->at;

	if (n > u->text->n - u->at) {
		err_set(u->err, ERR_INPUT,
			"pickle '%s' ends in the middle of an opcode at byte %zu: copy or download "
			"it again",
			u->text->name, u->op_at);
		return NULL;
	}
	u->at += (size_t)n;
	return bytes;
}

/* Takes a number of n bytes, little endian. */
static int take_number(struct unpickler *u, int n, uint64_t *number)
{
	const unsigned char *bytes = take(u, (uint64_t)n);

	*number = 0;
	while (bytes && n-- > 0)
		*number = *number << 8 | bytes[n];
	return bytes ? 0 : -1;
}

static int push_int(struct unpickler *u, int64_t number)
{
	struct pickle_value *value = value_new(u, PICKLE_INT);

	value->number = number;
	return push(u, value);
}

/* A text or bytes, whose length has n_length bytes. */
static int op_text(struct unpickler *u, enum pickle_kind kind, int n_length)
{
	const unsigned char *bytes;
	struct pickle_value *value;
	uint64_t n;

	if (take_number(u, n_length, &n) || !(bytes = take(u, n)))
		return -1;
	if (kind == PICKLE_TEXT && memchr(bytes, 0, (size_t)n))
		kind = PICKLE_DATA;
	value = value_new(u, kind);
	value->text = arena_text(&u->pickle->arena, (const char *)bytes, (size_t)n);
	value->n = (size_t)n;
	return push(u, value);
}

/* An integer of up to 255 bytes, two's complement. */
static int op_long(struct unpickler *u)
{
	const unsigned char *bytes;
	uint64_t n, bits;

	if (take_number(u, 1, &n) || !(bytes = take(u, n)))
		return -1;
	if (n > 8)
		return push(u, value_new(u, PICKLE_BIG));
	bits = n && bytes[n - 1] & 0x80 ? UINT64_MAX : 0;
	while (n-- > 0)
		bits = bits << 8 | bytes[n];
	return push_int(u, (int64_t)bits);
}

static int op_float(struct unpickler *u)
{
	return take(u, 8) ? push(u, value_new(u, PICKLE_BIG)) : -1;
}

/* Takes the n values on top as a tuple. */
static int push_tuple(struct unpickler *u, size_t n)
{
	struct pickle_value *tuple = value_new(u, PICKLE_TUPLE);

	for (size_t i = 0; i < n; i++)
		if (u->n_stack < n || u->stack[u->n_stack - 1 - i]->kind == PICKLE_MARK)
			return refuse(u, "takes from an empty stack");
	tuple->items = arena_alloc(&u->pickle->arena, n * sizeof *tuple->items);
	if (n)
		memcpy(tuple->items, u->stack + (u->n_stack - n), n * sizeof *tuple->items);
	tuple->n = n;
	u->n_stack -= n;
	return push(u, tuple);
}

/* Finds the number of values above the last mark. */
static int above_mark(struct unpickler *u, size_t *n)
{
	for (*n = 0; *n < u->n_stack; ++*n)
		if (u->stack[u->n_stack - 1 - *n]->kind == PICKLE_MARK)
			return 0;
	return refuse(u, "has no mark");
}

static int op_tuple(struct unpickler *u)
{
	struct pickle_value *tuple;
	size_t n;

	if (above_mark(u, &n) || push_tuple(u, n))
		return -1;
	tuple = u->stack[u->n_stack - 1];
	u->n_stack--; /* the mark */
	u->stack[u->n_stack - 1] = tuple;
	return 0;
}

/* A container whose items are added later. */
static struct pickle_value *container_new(struct unpickler *u, enum pickle_kind kind)
{
	struct pickle_value *value = value_new(u, kind);

	ARRAY_GROW(u->pickle->lists, u->pickle->n_lists);
	u->pickle->lists[u->pickle->n_lists++] = value;
	return value;
}

/* Adds the n values on top to the container below them. */
static int add_items(struct unpickler *u, size_t n, enum pickle_kind kind, bool marked)
{
	struct pickle_value *into;

	if (u->n_stack < n + marked + 1)
		return refuse(u, "takes from an empty stack");
	into = u->stack[u->n_stack - n - marked - 1];
	if (into->kind == PICKLE_CALL) {
		if (!into->more)
			into->more = container_new(u, kind);
		into = into->more;
	}
	if (into->kind != kind || (kind == PICKLE_DICT && n % 2))
		return refuse(u, "adds to what is no such container");
	for (size_t i = 0; i < n; i++) {
		ARRAY_GROW(into->items, into->n);
		into->items[into->n++] = u->stack[u->n_stack - n + i];
	}
	u->n_stack -= n + marked;
	return 0;
}

static int op_items(struct unpickler *u, enum pickle_kind kind)
{
	size_t n;

	return above_mark(u, &n) ? -1 : add_items(u, n, kind, true);
}

static int op_item(struct unpickler *u, enum pickle_kind kind)
{
	size_t n = kind == PICKLE_DICT ? 2 : 1;

	for (size_t i = 0; i < n; i++)
		if (u->n_stack < n || u->stack[u->n_stack - 1 - i]->kind == PICKLE_MARK)
			return refuse(u, "takes from an empty stack");
	return add_items(u, n, kind, false);
}

static int push_global(struct unpickler *u, char *name)
{
	struct pickle_value *value = value_new(u, PICKLE_GLOBAL);

	value->text = arena_take(&u->pickle->arena, name);
	value->n = strlen(value->text);
	if (!u->knows(value->text))
		return err_set(u->err, ERR_INPUT,
			       "pickle '%s' names the global '%s' at byte %zu, which no weights "
			       "need: fp8conv reads tensors alone, and calls nothing",
			       u->text->name, value->text, u->op_at);
	return push(u, value);
}

/* Two lines: module and name. */
static int op_global(struct unpickler *u)
{
	const char *lines = (const char *)u->text->data + u->at;
	size_t left = u->text->n - u->at;
	const char *one = memchr(lines, '\n', left);
	const char *two = one ? memchr(one + 1, '\n', left - (size_t)(one + 1 - lines)) : NULL;

	if (!two || memchr(lines, 0, (size_t)(two - lines)))
		return refuse(u, "has no name of a global");
	u->at += (size_t)(two + 1 - lines);
	return push_global(u, xasprintf("%.*s %.*s", (int)(one - lines), lines,
					(int)(two - one - 1), one + 1));
}

static int op_stack_global(struct unpickler *u)
{
	const struct pickle_value *name = pop(u), *module = name ? pop(u) : NULL;

	if (!module)
		return -1;
	if (name->kind != PICKLE_TEXT || module->kind != PICKLE_TEXT)
		return refuse(u, "has no name of a global");
	return push_global(u, xasprintf("%s %s", module->text, name->text));
}

/* A call: the callee must be a global, and is not called. */
static int op_call(struct unpickler *u)
{
	struct pickle_value *arguments = pop(u), *callee = arguments ? pop(u) : NULL;
	struct pickle_value *call;

	if (!callee)
		return -1;
	if (callee->kind != PICKLE_GLOBAL || arguments->kind != PICKLE_TUPLE)
		return refuse(u, "calls what is no global");
	call = value_new(u, PICKLE_CALL);
	call->n = 2;
	call->items = arena_alloc(&u->pickle->arena, 2 * sizeof *call->items);
	call->items[0] = callee;
	call->items[1] = arguments;
	return push(u, call);
}

static int op_build(struct unpickler *u)
{
	struct pickle_value *state = pop(u), *object = state ? peek(u) : NULL;

	if (!object)
		return -1;
	if (object->kind != PICKLE_CALL)
		return refuse(u, "sets the state of what is no object");
	object->state = state;
	return 0;
}

static int op_persistent(struct unpickler *u)
{
	struct pickle_value *id = pop(u), *value;

	if (!id)
		return -1;
	value = value_new(u, PICKLE_PERSISTENT);
	value->n = 1;
	value->items = arena_alloc(&u->pickle->arena, sizeof *value->items);
	value->items[0] = id;
	return push(u, value);
}

/* Writers number the memo from 0 on, so that no index is above the bytes before it. */
static int memo_put(struct unpickler *u, uint64_t i)
{
	struct pickle_value *value = peek(u);

	if (!value)
		return -1;
	if (i > u->op_at)
		return refuse(u, "has a memo with gaps");
	while (u->n_memo <= i) {
		ARRAY_GROW(u->memo, u->n_memo);
		u->memo[u->n_memo++] = NULL;
	}
	u->memo[i] = value;
	return 0;
}

static int op_put(struct unpickler *u, int n)
{
	uint64_t i;

	return take_number(u, n, &i) ? -1 : memo_put(u, i);
}

static int op_get(struct unpickler *u, int n)
{
	uint64_t i;

	if (take_number(u, n, &i))
		return -1;
	if (i >= u->n_memo || !u->memo[i])
		return refuse(u, "takes what is not in the memo");
	return push(u, u->memo[i]);
}

static int op_int(struct unpickler *u, int n)
{
	uint64_t number;

	if (take_number(u, n, &number))
		return -1;
	return push_int(u, n == 4 ? (int32_t)(uint32_t)number : (int64_t)number);
}

static int op_protocol(struct unpickler *u)
{
	uint64_t version;

	if (take_number(u, 1, &version))
		return -1;
	return version < 2 || version > 5 ? refuse(u, "has a protocol other than 2 to 5") : 0;
}

static int op_frame(struct unpickler *u)
{
	uint64_t size;

	return take_number(u, 8, &size);
}

/* clang-format off */
/* Runs one opcode.  Returns 1 at STOP. */
static int step(struct unpickler *u, int op)
{
	switch (op) {
	case 0x80: return op_protocol(u);
	case 0x95: return op_frame(u);
	case '.': return 1;
	case '(': return push(u, &u->mark);
	case 'N': return push(u, &u->constants[0]);
	case 0x88: return push(u, &u->constants[1]);
	case 0x89: return push(u, &u->constants[2]);
	case ')': return push(u, &u->constants[3]);
	case 't': return op_tuple(u);
	case 0x85: case 0x86: case 0x87: return push_tuple(u, (size_t)(op - 0x84));
	case '}': return push(u, container_new(u, PICKLE_DICT));
	case ']': return push(u, container_new(u, PICKLE_LIST));
	case 'J': return op_int(u, 4);
	case 'K': return op_int(u, 1);
	case 'M': return op_int(u, 2);
	case 0x8a: return op_long(u);
	case 'G': return op_float(u);
	case 'X': return op_text(u, PICKLE_TEXT, 4);
	case 0x8c: return op_text(u, PICKLE_TEXT, 1);
	case 0x8d: return op_text(u, PICKLE_TEXT, 8);
	case 'B': return op_text(u, PICKLE_BYTES, 4);
	case 'C': return op_text(u, PICKLE_BYTES, 1);
	case 0x8e: case 0x96: return op_text(u, PICKLE_BYTES, 8);
	case 'c': return op_global(u);
	case 0x93: return op_stack_global(u);
	case 'R': case 0x81: return op_call(u);
	case 'b': return op_build(u);
	case 'a': return op_item(u, PICKLE_LIST);
	case 'e': return op_items(u, PICKLE_LIST);
	case 's': return op_item(u, PICKLE_DICT);
	case 'u': return op_items(u, PICKLE_DICT);
	case 'q': return op_put(u, 1);
	case 'r': return op_put(u, 4);
	case 0x94: return memo_put(u, u->n_memo);
	case 'h': return op_get(u, 1);
	case 'j': return op_get(u, 4);
	case 'Q': return op_persistent(u);
	default:
		return err_set(u->err, ERR_INPUT,
			       "pickle '%s' has the opcode 0x%02x at byte %zu, which no weights "
			       "need: fp8conv reads tensors alone, and calls nothing",
			       u->text->name, op, u->op_at);
	}
}
/* clang-format on */

static int run(struct unpickler *u)
{
	int rc = 0;

	while (!rc) {
		const unsigned char *op;

		u->op_at = u->at;
		op = take(u, 1);
		rc = op ? step(u, *op) : -1;
	}
	if (rc < 0)
		return -1;
	if (u->n_stack != 1 || !u->stack || u->stack[0]->kind == PICKLE_MARK)
		return refuse(u, "leaves no single value");
	u->pickle->top = u->stack[0];
	u->pickle->n = u->at;
	return 0;
}

int pickle_read(struct pickle *pickle, const struct pickle_text *text, pickle_knows_fn *knows,
		struct err *err)
{
	struct unpickler u = { .pickle = pickle, .text = text, .knows = knows, .err = err };
	int rc;

	*pickle = (struct pickle){ 0 };
	if (text->n > PICKLE_LIMIT)
		return err_set(err, ERR_INPUT,
			       "pickle '%s' has %zu bytes, more than the limit (%u)", text->name,
			       text->n, PICKLE_LIMIT);
	u.mark.kind = PICKLE_MARK;
	u.constants = arena_alloc(&pickle->arena, 4 * sizeof *u.constants);
	u.constants[0] = (struct pickle_value){ .kind = PICKLE_NONE };
	u.constants[1] = (struct pickle_value){ .kind = PICKLE_BOOL, .number = 1 };
	u.constants[2] = (struct pickle_value){ .kind = PICKLE_BOOL };
	u.constants[3] = (struct pickle_value){ .kind = PICKLE_TUPLE };
	rc = run(&u);
	free(u.stack);
	free(u.memo);
	return rc;
}

void pickle_release(struct pickle *pickle)
{
	for (size_t i = 0; i < pickle->n_lists; i++)
		free(pickle->lists[i]->items);
	free(pickle->lists);
	arena_release(&pickle->arena);
	*pickle = (struct pickle){ 0 };
}
