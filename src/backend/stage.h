// stage - internal to backend/: kernels of the host on operands in another memory.
//
// The operands are copied to the host, the kernel runs there, and the results are
// copied back. The host waits for the device each time, so this is slow. But every
// operator and every type runs on every backend from the first day. The plan shows
// which kernels are still missing: their names begin with "ref.".

#ifndef TT_BACKEND_STAGE_H
#define TT_BACKEND_STAGE_H

#include "backend/backend.h"

typedef struct tt_stage tt_stage;

tt_status tt__stage_create(tt_backend *backend, const tt_site *site,
                           int64_t scratch_bytes, tt_stage **stage_out);
void tt__stage_destroy(tt_stage *stage); // NULL is fine

// The arguments with addresses in the host's memory, inputs copied there.
tt_status tt__stage_in(tt_stage *stage, const tt_site *site,
                       const tt_args *args, tt_args *staged_out);
tt_status tt__stage_out(tt_stage *stage, const tt_site *site,
                        const tt_args *args);

#endif
