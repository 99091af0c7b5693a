/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/print/data.h"

#include "cli/print/message.h"

#include "cli/print/units.h"
#include "cli/process.h"
#include "cli/program.h"

void data_print_notes(const struct dataset *data, const struct model *model)
{
	size_t n_towers = model_count_towers(model), longest = 0;

	for (size_t i = 0; i < data->n; i++)
		longest = data->sequences[i].len > longest ? data->sequences[i].len : longest;
	if (model->max_positions && longest > model->max_positions)
		message_note("a sequence of %zu tokens is longer than max_position_embeddings of "
			     "config.json (%zu): the model may not know the positions after it",
			     longest, model->max_positions);
	if (data->n_twice)
		message_note("%zu document%s the token that the tokenizer puts before a text "
			     "twice: leave it out of the text",
			     data->n_twice, data->n_twice == 1 ? " begins with" : "s begin with");

	if (data->n_chats)
		message_note("the model's chat template was not applied to messages: see \"Chat "
			     "templates\" in fp8conv-calibrate(1)");
	if (data->invalid_name)
		message_note("'%s' is not UTF-8 at byte %zu: invalid bytes are read as U+FFFD",
			     data->invalid_name, data->invalid_byte);
	if (n_towers)
		message_note("only text is read: the branches for images or audio (%zu tensor%s) "
			     "are not run",
			     n_towers, n_towers == 1 ? "" : "s");
}

void data_print_memory(uint64_t bytes)
{
	struct buf text = { 0 };

	units_memory(&text, bytes);
	fprintf(program.out, "%s of memory\n", text.data);
	buf_release(&text);
}

void data_print_time(double seconds)
{
	struct buf text = { 0 };

	units_duration(&text, seconds);
	buf_puts(&text, ", peak memory ");
	units_memory(&text, process_peak_memory());
	fprintf(program.err, "time       %s\n", text.data);
	buf_release(&text);
}
