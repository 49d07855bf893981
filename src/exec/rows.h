// rows - times of the rows of an order; see rows.c. Files of this folder only.

#ifndef TT_EXEC_ROWS_H
#define TT_EXEC_ROWS_H

#include "exec/state.h"

// Each row of the order from beginning to end; what it waited for a flight; and,
// before its first message leaves, its pace.
tt_status tt__rows_init(tt_exec *exec);
void tt__rows_fini(tt_exec *exec);
void tt__rows_reset(tt_exec *exec);
void tt__rows_run_begins(tt_exec *exec);
void tt__rows_run_ended(tt_exec *exec);
void tt__row_begin(tt_exec *exec);
void tt__row_waited(tt_exec *exec, int32_t flight, double seconds);
tt_status tt__row_send(tt_exec *exec);
tt_status tt__row_end(tt_exec *exec);

#endif
