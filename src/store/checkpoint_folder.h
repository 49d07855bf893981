// checkpoint_folder - what lies in a folder of checkpoints. Internal.

#ifndef TT_STORE_CHECKPOINT_FOLDER_H
#define TT_STORE_CHECKPOINT_FOLDER_H

#include "base/status.h"
#include "store/checkpoint.h"
#include "store/hash.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct tt__steps {
    int64_t n, capacity;
    int64_t *v; // ascending; freed with tt_free
} tt__steps;

bool tt__saved_steps_has(const tt__steps *steps, int64_t step);
tt_status tt__saved_steps_add(tt__steps *steps, int64_t step);

// FOLDER/NAME; fails when that is too long.
tt_status tt__checkpoint_path(const char *folder, const char *name,
                              char path[PATH_MAX]);
// FOLDER/step-00000200
tt_status tt__checkpoint_step_path(const char *folder, int64_t step,
                                   char path[PATH_MAX]);

// The steps that have a folder, whatever is in it.
tt_status tt__checkpoint_steps(const char *folder, tt__steps *steps);

// The step named in FOLDER/best or FOLDER/latest; -1 when there is none.
tt_status tt__checkpoint_named(const char *folder, const char *name,
                               int64_t *step_out);
tt_status tt__checkpoint_name(const char *folder, const char *name,
                              int64_t step);

// Renames it first, so that half a checkpoint never looks like a whole one.
tt_status tt__checkpoint_remove(const char *folder, int64_t step);

// Endings of names: a damaged checkpoint, and one that another of the same step is
// about to replace. And the file that says that checkpoints were saved here.
#define TT__DAMAGED ".damaged"
#define TT__REPLACED ".replaced"
#define TT__SAVED ".saved"

// Renames it to step-00000200.damaged; it is kept, since parts may be readable.
tt_status tt__checkpoint_set_aside(const char *folder, int64_t step);
// Puts back what was to be replaced and was not.
tt_status tt__checkpoint_mend(const char *folder);

// Whether it was saved in passing. One that does not say was not.
tt_status tt__checkpoint_is_passing(const char *folder, int64_t step,
                                    bool *is_out);

// Removes what the rules do not keep and all after `newest`, and sets aside what is
// `bad`. One saved in passing counts for no rule and stays while it is the newest.
tt_status tt__checkpoint_keep(const char *folder,
                              const tt_checkpoint_rules *rules,
                              const tt__steps *bad, int64_t newest);
// Removes all after `step`, and what names one of them; sets aside what is `bad`.
tt_status tt__checkpoint_cut(const char *folder, const tt__steps *bad,
                             int64_t step);

// A plain name that is none of ours: no slash, no dot in front.
bool tt__checkpoint_is_name(const char *name);

// Writes all files of a checkpoint into the empty `folder` and flushes them.
tt_status tt__checkpoint_write(const char *folder,
                               const tt_checkpoint_content *content);

// Checks a content and copies all of it but the tensors' data.
tt_status tt__checkpoint_copy(const tt_checkpoint_content *from,
                              tt_arena *arena, tt_checkpoint_content *to);

// state.json, read and checked by itself.
typedef struct tt__checkpoint_file {
    const char *name, *hash;
    int64_t bytes;
    // Of tensors, since there are sums: the hash of what is in front of them, and
    // the sum of each, in the order of the file.
    const char *header; // NULL: there is only the hash of all
    int64_t n_sums;
    const uint64_t *sum;
} tt__checkpoint_file;

typedef struct tt__checkpoint_state {
    int64_t step;
    bool is_passing;
    const char *state;
    const tt__checkpoint_file *file;
    int64_t n_files;
} tt__checkpoint_state;

void tt__checkpoint_print(const tt__checkpoint_state *state, tt_str *out);
tt_status tt__checkpoint_parse(const char *text, int64_t n, tt_arena *arena,
                               tt__checkpoint_state *out);

// The newest good one that is looked for; those that are bad are named in `notes`
// and, unless NULL, added to `bad`. *out is NULL when there is none.
tt_status tt__checkpoint_newest(const char *folder,
                                const tt_checkpoint_search *search,
                                tt_str *notes, tt__steps *bad,
                                tt_checkpoint **out);

#endif
