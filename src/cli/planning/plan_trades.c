// plan_trades - memory and bytes sent for every level of ZeRO and every way to
// recompute, so that a user sees what would make a model fit, and what it would cost.

#include "cli/columns.h"
#include "cli/planning/plan_show.h"
#include "cli/table.h"
#include "job/trades.h"

static void add_size(tt_columns *c, const tt_trade *t, int64_t bytes,
                     const char *mark)
{
    tt_str text = {0};
    if (t->is_there)
        tt_add_bytes(&text, bytes);
    else
        tt_str_add(&text, "-");
    tt_str_add(&text, mark);
    tt_columns_add(c, tt_str_text(&text));
    if (tt_str_status(&text) != TT_OK)
        c->status = TT_ERR_NOMEM;
    tt_str_fini(&text);
}

static void add_heading(tt_columns *c, bool is_many)
{
    static const char *const key[] = {"recompute=none", "selective", "full"};
    tt_columns_add(c, "zero");
    for (int m = 0; m < TT_TRADE_MODES; m++) {
        tt_columns_add(c, key[m]);
        if (is_many)
            tt_columns_add(c, "sent");
    }
}

static tt_status print(const tt_job *job, const tt_trades *t, tt_arena *arena,
                       tt_str *out)
{
    const bool is_many = job->peers.size > 1;
    tt_columns c = {.arena = arena,
                    .n = 1 + TT_TRADE_MODES * (is_many ? 2 : 1),
                    .right = 0x7e};
    tt_term term;
    tt_term_init(&term, 1);
    add_heading(&c, is_many);
    for (int z = 0; z < t->n_zeros; z++) {
        tt_columns_addf(&c, "%d", z);
        for (int m = 0; m < TT_TRADE_MODES; m++) {
            const tt_trade *at = &t->at[z][m];
            add_size(&c, at, at->memory, at->is_now ? " *" : "");
            if (is_many)
                add_size(&c, at, at->sent, "");
        }
    }
    tt_str_addf(out, "\nmemory%s of %s, * as it is\n",
                is_many ? " and bytes sent in a step," : "",
                is_many ? "this rank" : "a step");
    return tt_columns_print(&c, &term, out);
}

tt_status tt_show_trades(tt_job *job, tt_str *out)
{
    tt_trades trades;
    TT_TRY(tt_trades_make(job, &trades));
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a table");
    const tt_status status = print(job, &trades, arena, out);
    tt_arena_destroy(arena);
    return status;
}

tt_status tt_show_trades_json(tt_job *job, tt_json *json)
{
    const int64_t memory = tt_job_memory(job);
    tt_trades t;
    TT_TRY(tt_trades_make(job, &t));
    tt_json_open(json, "trades", '[');
    for (int z = 0; z < t.n_zeros; z++)
        for (int m = 0; m < TT_TRADE_MODES; m++) {
            const tt_trade *at = &t.at[z][m];
            if (!at->is_there)
                continue;
            tt_json_open(json, NULL, '{');
            tt_json_i64(json, "zero", z);
            tt_json_str(json, "recompute", tt_recompute_name[m]);
            tt_json_i64(json, "memory_bytes", at->memory);
            tt_json_i64(json, "sent_bytes", at->sent);
            if (memory > 0)
                tt_json_bool(json, "fits", at->memory <= memory);
            tt_json_close(json, '}');
        }
    tt_json_close(json, ']');
    return TT_OK;
}
