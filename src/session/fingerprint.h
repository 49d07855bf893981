// fingerprint - what the data of a run are, so that a run that goes on notices when a
// file was changed while it stood still.
//
// Up to TT_FINGERPRINT_BYTES in TT_FINGERPRINT_FILES all bytes are hashed. Of more
// data that would take too long at every start, so there it is: all names and sizes,
// blocks that are spread over all of the data, and when files were last written. A
// change that keeps the length and lies between the blocks is then seen by its time
// alone, which is a note and no refusal: copies have other times too.

#ifndef TT_SESSION_FINGERPRINT_H
#define TT_SESSION_FINGERPRINT_H

#include "base/json.h"
#include "base/json_read.h"
#include "data/data.h"

enum {
    TT_FINGERPRINT_BYTES = 1 << 30,
    TT_FINGERPRINT_FILES = 100000,
    TT_FINGERPRINT_GROUPS = 256,
    TT_FINGERPRINT_CHARS = 33,
};

// Files that stand next to each other in the order of their names; of few files each
// is a group of its own.
typedef struct tt_fingerprint_group {
    const char *first, *last;
    int64_t files, bytes;
    int64_t time; // of the newest, in nanoseconds; 0 where all bytes are hashed
    char hash[TT_FINGERPRINT_CHARS];
} tt_fingerprint_group;

typedef struct tt_fingerprint {
    int64_t files, bytes; // bytes: of those files whose sizes are known
    bool is_whole;        // all bytes were hashed
    char names[TT_FINGERPRINT_CHARS];
    char tokens
        [TT_FINGERPRINT_CHARS]; // of text: what became of it; "": not text
    int64_t n;
    tt_fingerprint_group *v;
} tt_fingerprint;

// All in the arena. Data that have no files have no groups.
tt_status tt_fingerprint_take(const tt_data *data, tt_arena *arena,
                              const tt_fingerprint **fingerprint_out);

void tt_fingerprint_print(const tt_fingerprint *fingerprint, tt_json *json,
                          const char *key);
// All of it but when files were written, which copies have differently: for ranks to
// compare.
void tt_fingerprint_text(const tt_fingerprint *fingerprint, tt_str *out);
// How two such texts differ: as tt_peers_explain_fn.
void tt_fingerprint_explain(const char *mine, const char *first, tt_str *out);

// *fingerprint_out is NULL for what is no fingerprint of this kind: older programs
// left none.
tt_status tt_fingerprint_read(const tt_json_value *from, tt_arena *arena,
                              const tt_fingerprint **fingerprint_out);

// The same from all of a checkpoint's state.json.
tt_status tt_fingerprint_of_state(const char *json, const char *name,
                                  tt_arena *arena,
                                  const tt_fingerprint **fingerprint_out);

// What differs, in a clause that names the file; nothing where all is the same.
void tt_fingerprint_describe(const tt_fingerprint *then,
                             const tt_fingerprint *now, tt_str *out);

// A file of `data`, in the arena, that is not as it was `then`; NULL: none was found.
// The data may be a part of those of then, as one split. A run that was started in
// `start` ("": not known) names its files from there.
tt_status tt_fingerprint_find_changed(const tt_fingerprint *then,
                                      const tt_data *data, const char *start,
                                      tt_arena *arena, const char **path_out);

// Fails with a sentence that names the file that differs. `folder` is the run's.
// What cannot be told goes to `notes`.
tt_status tt_fingerprint_compare(const tt_fingerprint *then,
                                 const tt_fingerprint *now, const char *folder,
                                 tt_str *notes);

#endif
