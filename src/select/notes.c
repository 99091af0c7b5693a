/* SPDX-License-Identifier: Apache-2.0 */
#include "select/notes.h"

#include <stdlib.h>

#include "base/err.h"
#include "base/mem.h"

#define NAME(kind, name) [kind] = (name),

static const char *const names[N_NOTE_KINDS] = { NOTES(NAME) };

const char *note_kind_name(enum note_kind kind)
{
	return names[kind];
}

void notes_add(struct notes *notes, enum note_kind kind, const char *tensor, const char *format,
	       ...)
{
	struct note note = { .kind = kind, .tensor = tensor ? xstrdup(tensor) : NULL };
	size_t at = notes->n;
	va_list args;

	va_start(args, format);
	note.message = xvasprintf(format, args);
	va_end(args);
	text_sanitize(note.message);
	ARRAY_GROW(notes->list, notes->n);
	for (; at && notes->list[at - 1].kind > kind; at--)
		notes->list[at] = notes->list[at - 1];
	notes->list[at] = note;
	notes->n++;
}

void notes_release(struct notes *notes)
{
	for (size_t i = 0; i < notes->n; i++) {
		free(notes->list[i].tensor);
		free(notes->list[i].message);
	}
	free(notes->list);
	*notes = (struct notes){ 0 };
}
