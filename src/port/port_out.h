// port_out - where a model for others goes: a folder that is whole or not there.
//
// Files are written into a folder of a temporary name, which gets its own name at the
// end. What is there already must be an earlier export, which is replaced as a whole,
// or an empty folder; anything else is somebody's.

#ifndef TT_PORT_PORT_OUT_H
#define TT_PORT_PORT_OUT_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>

// The first line of an export's config.yaml, by which it is known.
#define TT_PORT_MARK                                                           \
    "# written by tutti; the next export may replace this folder"

typedef enum tt_port_format {
    TT_PORT_FOLDER,
    TT_PORT_LLMC,
    TT_PORT_ONNX,
} tt_port_format;

// Fails where `out` must not be written: where the model comes from (`from`), in a run
// or a checkpoint, or over what is not an earlier export of that format.
tt_status tt_port_check_out(const char *out, const char *from,
                            tt_port_format format, tt_arena *arena);

typedef struct tt_port_out {
    tt_arena *arena; // of the names
    const char *target;
    const char *staging; // files are written here
    bool is_there;       // the target: empty, or an earlier export
    bool is_inside;      // staging lies in the target
} tt_port_out;

tt_status tt_port_out_begin(const char *folder, tt_arena *arena,
                            tt_port_out *out);
// Gives the files their place when `status`, that of the writing, is TT_OK; removes them
// otherwise. Returns the first failure.
tt_status tt_port_out_end(tt_port_out *out, tt_status status);
// Removes what was written without placing it; never begun ({0}): fine.
void tt_port_out_drop(tt_port_out *out);

#endif
