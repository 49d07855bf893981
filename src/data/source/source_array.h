// source_array - images and labels that stand in arrays, as IDX and .npy files
// have them. Internal to sources.

#ifndef TT_DATA_SOURCE_SOURCE_ARRAY_H
#define TT_DATA_SOURCE_SOURCE_ARRAY_H

#include "base/arena.h"
#include "data/files.h"
#include "data/number.h"
#include "data/source/source.h"

enum { TT_ARRAY_NDIM = 8 };

typedef struct tt_array {
    const char *path;
    tt_blob blob;
    tt_number type;
    int ndim;
    int64_t dim[TT_ARRAY_NDIM];
    const uint8_t *data;
} tt_array;

// Checks that dims and type make exactly the bytes from `offset` to the end, and
// sets `data`.
tt_status tt__array_check(tt_array *array, int64_t offset);

// One file of arrays; sets all of *array_out, which tt_blob_close ends.
typedef tt_status tt_array_open_fn(const char *path, tt_array *array_out);

typedef struct tt_arrays {
    tt_source source;
    tt_arena *arena;
    tt_array x, y;
    int64_t first; // sample of the files that is the split's first
    bool is_hwc;   // channels are innermost
} tt_arrays;

typedef enum tt_array_layout {
    TT_ARRAY_AUTO,
    TT_ARRAY_CHW,
    TT_ARRAY_HWC,
} tt_array_layout;

// Says what `source` holds once x and y are open.
tt_status tt__arrays_describe(tt_arrays *arrays, tt_array_layout layout);

// Counts the classes in the other split's labels too, so that both have the same.
tt_status tt__arrays_count_other(tt_arrays *arrays, tt_array_open_fn *open,
                                 const char *labels);

tt_status tt__arrays_create(const tt_source_def *def, tt_arrays **arrays_out);
void tt__arrays_close(tt_source *source);
tt_status tt__arrays_files(const tt_source *source, tt_file_list *list);
tt_status tt__arrays_image(const tt_source *source, int64_t index,
                           tt_image *out, int32_t *label_out);

// Planes of bytes into an image.
void tt__planes_to_image(const uint8_t *planes, tt_image *out);

#endif
