// coding - see coding.c.

#ifndef TT_EXEC_CODING_H
#define TT_EXEC_CODING_H

#include "exec/state.h"

// Finds the steps of a plan that make and read codes.
tt_status tt__coding_init(tt_exec *exec);
void tt__coding_fini(tt_exec *exec);
// Counts a step that has run, and a whole run.
void tt__coding_note(tt_exec *exec, int32_t s, double seconds);
void tt__coding_ran(tt_exec *exec);

#endif
