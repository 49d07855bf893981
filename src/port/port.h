// port - models into the forms of others, and from them.
//
//   folder   model.safetensors in the names of the ecosystem, config.json (language
//            models: from_pretrained reads it), config.yaml (Tutti reads it), and the
//            tokenizer's files
//   llmc     one file of llm.c (GPT-2 with biases)
//   onnx     one file (image models)
//
// The folder port: models going out to other programs. Coming in is weights'.

#ifndef TT_PORT_PORT_H
#define TT_PORT_PORT_H

#include "base/str.h"
#include "job/job.h"
#include "weights/origin.h"
#include "weights/weights.h"

typedef enum tt_port_type { // of the numbers that are written
    TT_PORT_AS_IS,
    TT_PORT_F32,
    TT_PORT_BF16,
    TT_PORT_F16,
} tt_port_type;

typedef struct tt_port_model {
    tt_arena *arena; // of what follows
    tt_job *job;     // configured
    tt_model_io io;  // extents of one sample
    tt_graph *graph; // that infers
    int64_t n, parameters;
    tt_safetensor *tensor; // every weight and buffer, in the model's names
    void **memory;         // of those that were converted; per tensor
} tt_port_model;

// Configures the model that `settings` describe and finds all its tensors in the
// weights, which must outlive it. Extra ones are named in `notes`.
tt_status tt_port_open(tt_settings *settings, const tt_weights *weights,
                       tt_port_type type, tt_str *notes,
                       tt_port_model **model_out);
void tt_port_close(tt_port_model *model); // NULL is fine

// Writes a folder, whole or not at all (port_out.h). `tokenizer` is a folder or file as
// tt_model_folder_tokenizer gives it; NULL: none. What `origin` has is written again. What
// transformers will compute otherwise is said in `notes` (NULL: not wanted).
tt_status tt_port_write_folder(const tt_port_model *model, const char *folder,
                               const char *tokenizer, const tt_origin *origin,
                               tt_str *notes);

tt_status tt_port_write_llmc(const tt_port_model *model, const char *path);
tt_status tt_port_write_onnx(const tt_port_model *model, const char *path);

// The text of config.json: that of the kind of model that `origin` was, where it
// still is one; nothing for models of images. A language model that transformers does
// not have is refused. Special tokens are those of `origin`, else `end_token`.
tt_status tt_port_config_json(const tt_port_model *model,
                              const tt_origin *origin, int32_t end_token,
                              tt_str *out);

// Says where transformers' model of that config.json computes something else.
void tt_port_note_config(const tt_port_model *model, tt_str *notes);

#endif
