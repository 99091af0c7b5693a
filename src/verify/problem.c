/* SPDX-License-Identifier: Apache-2.0 */
#include "verify/problem.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

#define FAULT(kind, name, effect) [kind] = { name, effect, false },
#define NOTE(kind, name, effect)  [kind] = { name, effect, true },

static const struct {
	const char *name;
	const char *effect;
	bool note;
} kinds[N_PROBLEM_KINDS] = { PROBLEMS(FAULT, NOTE) };

static const enum problem_kind of_defect[] = {
	[DEFECT_FILE_INVALID] = PROBLEM_FILE_INVALID,
	[DEFECT_INDEX_MISSING] = PROBLEM_INDEX_MISSING,
	[DEFECT_INDEX_UNMAPPED] = PROBLEM_INDEX_UNMAPPED,
	[DEFECT_INDEX_TOTAL] = PROBLEM_INDEX_TOTAL_SIZE,
	[DEFECT_UNFINISHED] = PROBLEM_UNFINISHED,
	[DEFECT_NAME_DUPLICATE] = PROBLEM_NAME_DUPLICATE,
};

const char *problem_kind_name(enum problem_kind kind)
{
	return kinds[kind].name;
}

static struct problem *append(struct problems *problems, const struct problem *problem)
{
	if (kinds[problem->kind].note) {
		ARRAY_GROW(problems->notes, problems->n_notes);
		problems->notes[problems->n_notes] = *problem;
		return &problems->notes[problems->n_notes++];
	}
	ARRAY_GROW(problems->list, problems->n);
	problems->list[problems->n] = *problem;
	return &problems->list[problems->n++];
}

/* Counts n problems of a kind without listing them. */
static void count_more(struct problems *problems, enum problem_kind kind, size_t n)
{
	struct problem *list = kinds[kind].note ? problems->notes : problems->list;
	struct problem *line = &list[problems->more[kind]];
	bool has_line = problems->n_of[kind] > DEFECTS_LISTED;

	problems->n_of[kind] += n;
	if (!has_line) {
		problems->more[kind] = kinds[kind].note ? problems->n_notes : problems->n;
		line = append(problems, &(struct problem){ .kind = kind });
	}
	free(line->message);
	line->message = xasprintf("%zu more of this kind are not listed",
				  problems->n_of[kind] - DEFECTS_LISTED);
}

void problem_addv(struct problems *problems, enum problem_kind kind, const char *tensor,
		  const char *file, const char *format, va_list args)
{
	struct problem problem = { .kind = kind };
	char message[1024];

	if (problems->n_of[kind] >= DEFECTS_LISTED) {
		count_more(problems, kind, 1);
		return;
	}
	problems->n_of[kind]++;
	vsnprintf(message, sizeof message, format, args);
	problem.tensor = tensor ? xstrdup(tensor) : NULL;
	problem.file = file ? xstrdup(file) : NULL;
	problem.message = kinds[kind].effect ? xasprintf("%s: %s", message, kinds[kind].effect)
					     : xstrdup(message);
	text_sanitize(problem.message);
	append(problems, &problem);
}

void problem_add(struct problems *problems, enum problem_kind kind, const char *tensor,
		 const char *file, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	problem_addv(problems, kind, tensor, file, format, args);
	va_end(args);
}

void problem_add_defect(void *context, enum defect_kind kind, const char *tensor, const char *file,
			const char *message)
{
	problem_add(context, of_defect[kind], tensor, file, "%s", message);
}

void problems_count_defects(struct problems *problems, const struct defects *defects)
{
	for (int kind = 0; kind < N_DEFECT_KINDS; kind++)
		if (defects->n_of[kind] > DEFECTS_LISTED)
			count_more(problems, of_defect[kind], defects->n_of[kind] - DEFECTS_LISTED);
}

static void release_list(struct problem *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(list[i].tensor);
		free(list[i].file);
		free(list[i].message);
	}
	free(list);
}

void problems_release(struct problems *problems)
{
	release_list(problems->list, problems->n);
	release_list(problems->notes, problems->n_notes);
	*problems = (struct problems){ 0 };
}
