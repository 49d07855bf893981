// model_folder - which model a folder holds: a run, a checkpoint, or a folder in the
// form of Hugging Face.

#ifndef TT_WEIGHTS_MODEL_FOLDER_H
#define TT_WEIGHTS_MODEL_FOLDER_H

#include "base/arena.h"
#include "base/settings/settings.h"

// model, model.*, seq, image and precision of FOLDER/config.yaml; without it what
// FOLDER/config.json says.
tt_status tt_model_folder_read(const char *folder, tt_arena *arena,
                               tt_settings *settings);

// The same from one file: config.yaml by its name, anything else is JSON.
tt_status tt_model_folder_read_file(const char *path, tt_arena *arena,
                                    tt_settings *settings);

// The most tokens that the model of these settings reads at once: the least of seq,
// model.context and model.window that are set. 0: none is.
int64_t tt_model_folder_longest(const tt_settings *settings);

// Whether the folder has either file.
bool tt_model_folder_is(const char *folder);

// Whether the folder is a checkpoint, or has checkpoints: a run, or its folder of
// them.
bool tt_model_folder_is_run(const char *folder);

// Whether training has been here: a run, even one without checkpoints, whose
// config.yaml or metrics are there.
bool tt_model_folder_was_run(const char *folder, tt_arena *arena);

// Where the folder's tokenizer is, for tt_tokenizer_open; NULL: it has none.
const char *tt_model_folder_tokenizer(const char *folder, tt_arena *arena);

#endif
