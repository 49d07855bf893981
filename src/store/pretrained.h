// pretrained - what the files of a Hugging Face folder say about a model.

#ifndef TT_STORE_PRETRAINED_H
#define TT_STORE_PRETRAINED_H

#include "base/arena.h"
#include "base/settings/settings.h"

#include <stdint.h>

// Sets model, model.* and precision from the text of a config.json of type gpt2,
// llama, mistral, mixtral, qwen2 or qwen3; `name` is what errors call it. What the
// model here cannot do (another activation, other scalings of rotary positions) is
// refused, and so are quantized weights and models with other heads.
tt_status tt_pretrained_read(const char *text, int64_t n, const char *name,
                             tt_arena *arena, tt_settings *settings);

// Ids that end a text: any of them. `v` is in the arena.
typedef struct tt_pretrained_ids {
    int64_t n;
    int32_t *v;
} tt_pretrained_ids;

// Adds those that a config.json or generation_config.json names ("eos_token_id": one,
// or a list) and that are not there already.
tt_status tt_pretrained_ends(const char *text, int64_t n, const char *name,
                             tt_arena *arena, tt_pretrained_ids *ids);

// The id that a tokenizer.json puts before every text; -1: none.
tt_status tt_pretrained_begin(const char *text, int64_t n, const char *name,
                              tt_arena *arena, int32_t *begin_out);

#endif
