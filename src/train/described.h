// described - which model a folder holds: a run, a checkpoint, or a folder in the
// form of Hugging Face.

#ifndef TT_TRAIN_DESCRIBED_H
#define TT_TRAIN_DESCRIBED_H

#include "base/arena.h"
#include "base/settings.h"

// model, model.*, seq, image and precision of FOLDER/config.yaml; without it what
// FOLDER/config.json says.
tt_status tt_described_read(const char *folder, tt_arena *arena,
                            tt_settings *settings);

// The same from one file: config.yaml by its name, anything else is JSON.
tt_status tt_described_read_file(const char *path, tt_arena *arena,
                                 tt_settings *settings);

// Where the folder's tokenizer is, for tt_tokenizer_open; NULL: it has none.
const char *tt_described_tokenizer(const char *folder, tt_arena *arena);

#endif
