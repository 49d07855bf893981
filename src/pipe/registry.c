// registry - the only file that names every schedule.

#include "base/registry.h"

#include "pipe/pipe.h"

#define TT_PIPE(name) extern const tt_pipe_def tt_pipe_##name;
#include "pipe/list.h"
#undef TT_PIPE

static const tt_pipe_def *const all[] = {
#define TT_PIPE(name) &tt_pipe_##name,
#include "pipe/list.h"
#undef TT_PIPE
};

TT_REGISTRY(tt_pipe, all)
