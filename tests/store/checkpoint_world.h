// checkpoint_world - a folder and small checkpoints whose content follows from
// their step, for the tests of checkpoints.

#ifndef TT_TESTS_STORE_CHECKPOINT_WORLD_H
#define TT_TESTS_STORE_CHECKPOINT_WORLD_H

#include "store/checkpoint.h"

// A fresh folder as the working directory; leaving checks that nothing leaked.
void tt_world_enter(void);
void tt_world_leave(void);

tt_checkpoints *tt_world_open(int64_t keep, int64_t keep_every); // "c"

// A save of `step`, handed over but not waited for.
tt_status tt_world_save(tt_checkpoints *store, int64_t step);
// The same by tt_checkpoints_save_now, which fetches the data.
tt_status tt_world_save_now(tt_checkpoints *store, int64_t step);
// And waited for; must go well.
void tt_world_saved(tt_checkpoints *store, int64_t step);

// The content is that of its step, in every byte.
void tt_world_check(tt_checkpoint *checkpoint);
// Step of the newest good one in "c", checked; -1: none. Needs no lock.
int64_t tt_world_newest(void);

// "100 150d 200": the steps that have a folder in "c"; d: one that was set aside.
const char *tt_world_steps(void);
int tt_world_temporaries(void); // in "c"
int tt_world_descriptors(void); // open in this process

#endif
