// source - where samples come from: a stream of tokens or a set of images, read at
// any place in any order by many threads at once.
//
// A source is opened for one split. Order, augmentation and batches are not its
// business (order.h, transform.h, loader.h).

#ifndef TT_DATA_SOURCE_SOURCE_H
#define TT_DATA_SOURCE_SOURCE_H

#include "base/arena.h"
#include "base/settings/opt.h"
#include "base/status.h"
#include "data/source/decode_list.h"
#include "data/tokenizer/tokenizer.h"

#include <stdbool.h>
#include <stdint.h>

typedef enum tt_data_kind { TT_DATA_TOKENS, TT_DATA_IMAGES } tt_data_kind;
typedef enum tt_data_split { TT_SPLIT_TRAIN, TT_SPLIT_VAL } tt_data_split;

// One image as the file has it: rows of pixels, channels innermost for bytes
// (HWC), channels outermost for floats (CHW). The memory grows and is used again
// for the next image; zero-initialise, end with tt_image_fini.
typedef struct tt_image {
    int64_t channels, height, width;
    bool is_float;
    uint8_t *u8; // one of them is set
    float *f32;
    void *memory;
    int64_t capacity; // bytes
} tt_image;
tt_status tt_image_reserve(tt_image *image, int64_t channels, int64_t height,
                           int64_t width, bool is_float);
void tt_image_fini(tt_image *image);

typedef struct tt_source_def tt_source_def;

// First member of every concrete source; what is known after opening.
typedef struct tt_source {
    const tt_source_def *def;
    tt_data_kind kind;
    int64_t n;       // tokens in the stream, or images
    int64_t classes; // vocabulary or classes; 0: the data does not say
    int64_t channels, height, width; // of images; 0: they differ
    const char *const *class_name;   // `classes` names, or NULL
    tt_tokenizer *tokenizer;         // its own; NULL: none
    bool is_text; // the tokenizer makes its tokens; else they are in the files
    // Of tokens: where documents end in the stream; 0: nobody knows.
    int64_t n_documents;
    const int64_t *document_end;
    const char
        *note; // a sentence: what of the data was left out; NULL: nothing
} tt_source;

// What every source is told. Paths may be globs where files are shards; they are
// then sorted.
typedef struct tt_source_request {
    const tt_source_def *def; // whose open this is; set by tt_source_open
    tt_data_split split;
    const char *path; // data.path
    const char *val;  // data.val: validation data of its own; "": none
    double holdout;   // data.holdout: else this part of the end is validation
    const char *tokenizer; // data.tokenizer; "": the source's default
    uint64_t seed;
    int64_t seq, image, channels, classes; // of the model, for synthetic data;
                                           // 0: not known
    bool wants_images; // the model's task; also when image or channels is set
} tt_source_request;

struct tt_source_def {
    const char *name, *doc;
    const tt_opt *options; // data.*, beside the common ones; NULL: none
    int64_t params_bytes;
    // Allocates the source. A missing or damaged file is an error that names it
    // and what is wrong with it. A validation split that has nothing in it is no
    // error: *source_out stays NULL, or n is 0.
    tt_status (*open)(const tt_source_request *request, const void *params,
                      tt_source **source_out);
    void (*close)(tt_source *source);
    // Tokens [first, first + n) of the stream. TT_DATA_TOKENS only.
    tt_status (*tokens)(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out);
    // Image `index` and its label. TT_DATA_IMAGES only.
    tt_status (*image)(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out);
    // The label alone, where that is less work. NULL: the image is read.
    tt_status (*label)(const tt_source *source, int64_t index,
                       int32_t *label_out);
    // Whose image `index` is: a name of so many bytes; NULL: nobody's. NULL: nobody knows.
    const char *(*user)(const tt_source *source, int64_t index,
                        int64_t *bytes_out);
    // Puts the name of image `index` before the message. NULL: its number is said.
    tt_status (*blame)(const tt_source *source, int64_t index,
                       tt_status status);
    // Appends the paths of all files that samples come from. NULL: none.
    tt_status (*files)(const tt_source *source, tt_file_list *list);
};

const tt_source_def *const *tt_source_all(int *n);
// By name; an unknown one is an error that suggests the nearest.
tt_status tt_source_find(const char *name, const tt_source_def **def_out);
// Adds a member at run time, as tt_model_register does.
tt_status tt_source_register(const tt_source_def *def);

// Opens a split; *source_out is NULL when there is no validation data.
tt_status tt_source_open(const tt_source_def *def,
                         const tt_source_request *request, const void *params,
                         tt_source **source_out);
void tt_source_close(tt_source *source); // NULL is fine

// The slots of the same names, for any thread; the place is checked.
tt_status tt_source_read_tokens(const tt_source *source, int64_t first,
                                int64_t n, int32_t *out);
tt_status tt_source_read_image(const tt_source *source, int64_t index,
                               tt_image *out, int32_t *label_out);
// The label of an image; `room` is for sources that have to read it.
tt_status tt_source_read_label(const tt_source *source, int64_t index,
                               tt_image *room, int32_t *label_out);
// Says which image a message is about.
tt_status tt_source_blame(const tt_source *source, int64_t index,
                          tt_status status);

// The files of a source; NULL is fine.
tt_status tt_source_files(const tt_source *source, tt_file_list *list);

// For sources: which of `n` samples a split has when data.holdout divides them.
void tt_source_part(const tt_source_request *request, int64_t n,
                    int64_t *first_out, int64_t *n_out);

#endif
