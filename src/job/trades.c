#include "job/trades.h"

#include "job/survey.h"
#include "job/variant.h"

const char *const tt_recompute_name[TT_TRADE_MODES] = {"none", "selective",
                                                       "full"};

// Plans one combination. One that cannot be planned (the layout or exact mode
// forbids it) is left out of the table.
static tt_status try_one(tt_job *job, const tt__variant *v, tt_trade *out)
{
    tt__planned p;
    if (tt__variant_plan(job, v, &p) != TT_OK)
        return TT_OK;
    out->memory = p.plan->peak_bytes;
    const tt_status status =
        tt_survey_sent_bytes(job, p.plan, job->peers.rank, &out->sent);
    out->is_there = status == TT_OK;
    tt__planned_free(&p);
    return status;
}

tt_status tt_trades_make(tt_job *job, tt_trades *trades_out)
{
    const tt__variant now = tt__variant_of(job);
    tt_trades t = {.n_zeros =
                       job->grid.size[TT_AXIS_DATA] > 1 ? TT_TRADE_ZEROS : 1};
    for (int z = 0; z < t.n_zeros; z++)
        for (int m = 0; m < TT_TRADE_MODES; m++) {
            tt__variant v = now;
            v.zero = t.n_zeros > 1 ? z : now.zero;
            v.recompute = m;
            t.at[z][m].is_now =
                v.zero == now.zero && v.recompute == now.recompute;
            TT_TRY(try_one(job, &v, &t.at[z][m]));
        }
    *trades_out = t;
    return TT_OK;
}
