// checkpoint_stream - saves a checkpoint that is too large for rank 0's memory: all
// ranks wait while it gathers and writes one tensor after the other.

#ifndef TT_STATE_CHECKPOINT_STREAM_H
#define TT_STATE_CHECKPOINT_STREAM_H

#include "state/tensors.h"
#include "store/checkpoint.h"

// Called on all ranks. `content` is used on rank 0 only, and its tensors are filled
// in here. If *is_torn_out, ranks are no longer in step. Otherwise a failure is
// rank 0's own (its disk), and the other ranks do not see it.
tt_status tt_stream_save(tt_exec *exec, const tt_tensors *all,
                         tt_checkpoints *store,
                         const tt_checkpoint_content *content,
                         bool *is_torn_out);

#endif
