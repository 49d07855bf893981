// system - a published system as a file: where it stands among all others, and the
// settings that make this program train as it does.
//
//   systems/gpipe.yaml                      on 4 ranks
//     about: ...                              mesh.pipe     = 4
//     partition: pipe                         pipe.schedule = gpipe
//     settings:                               accumulate    = 8
//       mesh.pipe: n               -->        recompute     = full
//       pipe.schedule: gpipe
//       accumulate: 2n
//
// The files are built into the program, so that it knows them wherever it runs; a path
// names a file of one's own. A value with n is worked out for the ranks at hand:
// n, 2n, n/2, and sqrt for the largest divisor of n that is at most its root. A number
// of micro-batches becomes the largest one up to it that divides a replica's batch.

#ifndef TT_SYSTEM_SYSTEM_H
#define TT_SYSTEM_SYSTEM_H

#include "base/arena.h"
#include "base/settings/settings.h"
#include "base/status.h"

#include <stdint.h>

// Where a system stands in the taxonomies of the surveys; all of it is text.
typedef struct tt_system {
    const char *name;
    const char *about;          // one sentence
    const char *source;         // "Huang et al.: GPipe, NeurIPS"
    int64_t year;               // of the source
    const char *partition;      // what is cut: data, tensor, pipe, expert, ...
    const char *optimiser;      // who holds it: replica, shard, server, worker
    const char *consistency;    // bsp, ssp, asynchronous, ...
    const char *centralisation; // centralised or decentralised
    const char *exchange;       // what goes which way: "ring all-reduce"
    const char *codec;          // in which form: none, topk, ...
    const char *memory;   // what is done about it: none, zero-1, recompute
    const char *overlap;  // of communication and computing: buckets, order
    const char *lacks;    // what the published system has and this file has not
    const char *network;  // what it was published for: an example's name
    const char *needs;    // a device without which it is refused; "": none
    bool exact;           // the numbers are those of one rank
    tt_settings settings; // with n in them; origins name file and line
} tt_system;

// The files that are built in, by name. tools/embed writes them.
typedef struct tt_system_file {
    const char *name, *text;
} tt_system_file;
extern const tt_system_file tt_system_files[];
extern const int tt_system_count;

// The fields of the taxonomy, in the order of a table; NULL ends them.
extern const char *const tt_system_fields[];
const char *tt_system_field(const tt_system *system, const char *field);

// Reads one: of a built-in file by its name, of a file if the name ends in .yaml. An
// unknown name is answered with the nearest one.
tt_status tt_system_read(const char *name, tt_arena *arena,
                         tt_system *system_out);

// The settings of a system on `n` ranks. `given` has what the user wants: batch is
// read there. Fails with the numbers of ranks that will do.
tt_status tt_system_settings(const tt_system *system, int64_t n,
                             const tt_settings *given, tt_arena *arena,
                             tt_settings *out);

// If `settings` has the key "system", puts in its settings for n ranks. They come
// before those of the command line, and after those of the file unless the file names
// the system itself.
tt_status tt_system_apply(tt_settings *settings, int64_t n, tt_arena *arena);

#endif
