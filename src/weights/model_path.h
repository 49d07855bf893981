// model_path - what people give in place of a model, and the sentence that says so.

#ifndef TT_WEIGHTS_MODEL_PATH_H
#define TT_WEIGHTS_MODEL_PATH_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

// Fails where no model can be: a folder without one, something that is no regular file,
// an empty file, one of another kind (PDF, zip, a program). What might be one is left to
// whoever reads it, and so is what is not there.
tt_status tt_model_path_check(const char *path, tt_arena *arena);

// Whether it is a file of weights: of safetensors or of torch.save.
bool tt_model_path_is_file(const char *path);

// A run in the folder, or in its folder "runs": "FOLDER/my"; NULL: none.
const char *tt_model_path_find_run(const char *folder, tt_arena *arena);

#endif
