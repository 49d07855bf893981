// data - from settings to sources: data, data.path, data.tokenizer, ...

#ifndef TT_DATA_DATA_H
#define TT_DATA_DATA_H

#include "base/settings/settings.h"
#include "data/image/transform.h"
#include "data/source/source.h"

// data.*, common to all sources.
typedef struct tt_data_options {
    const char *source; // the setting "data" itself
    const char *path, *val, *tokenizer;
    double holdout;
    bool shuffle;
    int64_t workers, ahead;
} tt_data_options;
extern const tt_opt tt_data_option_table[]; // all but `source`

typedef struct tt_data {
    tt_arena *arena;
    tt_data_options options;
    tt_transform transform;
    const tt_source_def *def;
    tt_source *train, *val; // val is NULL when there is none
} tt_data;

// All of data.* as one table in the arena: common, transform, the source's own.
// Offsets are not meaningful: it is for help, "did you mean" and listing.
tt_status tt_data_known(const char *source, tt_arena *arena,
                        const tt_opt **table_out);

// Reads "data" and data.* (and marks them used) and opens both splits. Of
// `request` seed, seq, image, channels and classes are read. `wants_train` false
// opens the validation split only.
tt_status tt_data_open(tt_settings *settings, const tt_source_request *request,
                       bool wants_train, tt_data **data_out);
void tt_data_close(tt_data *data); // NULL is fine

#endif
