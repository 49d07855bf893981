// checkpoint_stream - a checkpoint of more than rank 0 should hold at once: all ranks wait while it
// collects and writes one tensor after the other.

#ifndef TT_STATE_CHECKPOINT_STREAM_H
#define TT_STATE_CHECKPOINT_STREAM_H

#include "state/tensors.h"
#include "store/checkpoint.h"

// On all ranks. `content` is rank 0's but for tensors and data. Where *is_torn_out
// ranks have lost step; else a failure is rank 0's own (its disk), and the others know
// nothing of it.
tt_status tt_stream_save(tt_exec *exec, const tt_tensors *all,
                         tt_checkpoints *store,
                         const tt_checkpoint_content *content,
                         bool *is_torn_out);

#endif
