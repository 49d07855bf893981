// limit - gradients of a part of a step's micro-batches.

#ifndef TT_EXEC_LIMIT_H
#define TT_EXEC_LIMIT_H

#include "exec/exec.h"

// From now on gradients (TT_RUN_GRADIENT) are of so many first micro-batches; 0: of all.
void tt_exec_limit(tt_exec *exec, int32_t n_micros);

#endif
