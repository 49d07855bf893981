// trades - what ZeRO and recomputation save of a rank's memory, and what they make
// it send: the same job planned with each of them.

#ifndef TT_JOB_TRADES_H
#define TT_JOB_TRADES_H

#include "job/job.h"

enum { TT_TRADE_ZEROS = 4, TT_TRADE_MODES = 3 };
extern const char *const tt_recompute_name[TT_TRADE_MODES];

typedef struct tt_trade {
    bool is_there; // it can be planned
    bool is_now;   // as the job is
    int64_t memory, sent;
} tt_trade;

typedef struct tt_trades {
    int n_zeros; // 1: there are no ranks that share anything out
    tt_trade at[TT_TRADE_ZEROS][TT_TRADE_MODES];
} tt_trades;

// Of a planned job, for its rank.
tt_status tt_trades_make(tt_job *job, tt_trades *trades_out);

#endif
