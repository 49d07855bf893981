// keys_all - every setting of every model, optimiser and source, for the manual and
// for `tutti list settings`. An option that several members share with the same
// default and help is one row; what all members have is shown without names.

#include "config/config.h"
#include "config/keys.h"
#include "data/data.h"

#include <string.h>

typedef struct row {
    tt_keys_row known;
    int n_of; // members that have this row
} row;

typedef struct rows {
    tt_arena *arena;
    row *v;
    int64_t n, capacity;
} rows;

static bool is_same(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "") == 0;
}

static row *find(const rows *r, const char *key, const tt_opt *opt)
{
    for (int64_t i = 0; i < r->n; i++) {
        const tt_opt *old = r->v[i].known.opt;
        if (strcmp(r->v[i].known.key, key) == 0 &&
            is_same(old->fallback, opt->fallback) &&
            is_same(old->doc, opt->doc))
            return &r->v[i];
    }
    return NULL;
}

static tt_status append(rows *r, const char *key, const tt_opt *opt, row **out)
{
    if (r->n == r->capacity) {
        const int64_t more = 2 * r->capacity + 128;
        row *v = tt_arena_alloc(r->arena, more * (int64_t)sizeof *v);
        if (v == NULL)
            return TT_ERR_NOMEM;
        if (r->n > 0)
            memcpy(v, r->v, (size_t)r->n * sizeof *v);
        r->v = v;
        r->capacity = more;
    }
    *out = &r->v[r->n++];
    **out = (row){.known = {.key = key, .opt = opt, .of = ""}};
    return TT_OK;
}

// Adds the options of one member; "": they belong to no member.
static tt_status add(rows *r, const char *prefix, const tt_opt *table,
                     const char *member)
{
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++) {
        const char *key = prefix[0] == '\0' ? o->name
                                            : tt_arena_printf(r->arena, "%s.%s",
                                                              prefix, o->name);
        if (key == NULL)
            return TT_ERR_NOMEM;
        row *same = find(r, key, o);
        if (same == NULL)
            TT_TRY(append(r, key, o, &same));
        same->known.of =
            same->n_of == 0
                ? member
                : tt_arena_printf(r->arena, "%s, %s", same->known.of, member);
        same->n_of++;
        if (same->known.of == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

// Removes the names from rows that all `n` members have.
static void forget_common(rows *r, int64_t first, int n)
{
    for (int64_t i = first; i < r->n; i++)
        if (r->v[i].n_of == n)
            r->v[i].known.of = "";
}

static tt_status add_models(rows *r)
{
    int n = 0;
    const int64_t first = r->n;
    const tt_model_def *const *all = tt_model_all(&n);
    for (int i = 0; i < n; i++)
        TT_TRY(add(r, "model", all[i]->options, all[i]->name));
    forget_common(r, first, n);
    return TT_OK;
}

static tt_status add_optimisers(rows *r)
{
    int n = 0;
    const int64_t first = r->n;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int i = 0; i < n; i++) {
        const tt_opt *table = NULL;
        TT_TRY(tt_job_optim_table(&all[i], r->arena, &table));
        TT_TRY(add(r, "optim", table, all[i].name));
    }
    forget_common(r, first, n);
    return TT_OK;
}

static tt_status add_sources(rows *r)
{
    int n = 0;
    TT_TRY(add(r, "", tt_keys_data, ""));
    const int64_t first = r->n;
    const tt_source_def *const *all = tt_source_all(&n);
    for (int i = 0; i < n; i++) {
        const tt_opt *table = NULL;
        TT_TRY(tt_data_known(all[i]->name, r->arena, &table));
        TT_TRY(add(r, "data", table, all[i]->name));
    }
    forget_common(r, first, n);
    return TT_OK;
}

static tt_status add_policies(rows *r)
{
    int n = 0;
    const tt_opt *table = NULL;
    const tt_policy_def *const *all = tt_policy_all(&n);
    TT_TRY(tt_exchange_table(NULL, r->arena, &table));
    TT_TRY(add(r, "exchange", table, ""));
    TT_TRY(tt_exchange_outer_table(NULL, r->arena, &table));
    TT_TRY(add(r, "exchange.outer", table, ""));
    for (int i = 0; i < n; i++)
        TT_TRY(add(r, "exchange", all[i]->options, all[i]->name));
    return TT_OK;
}

static tt_status add_codecs(rows *r)
{
    int n = 0;
    const tt_codec_def *const *all = tt_codec_all(&n);
    for (int i = 0; i < n; i++)
        TT_TRY(add(r, "exchange.codec", all[i]->options, all[i]->name));
    return TT_OK;
}

static tt_status add_sections(rows *r, const tt_section *section)
{
    for (; section->table != NULL; section++)
        TT_TRY(add(r, section->prefix, section->table, ""));
    return TT_OK;
}

static tt_status collect(rows *r)
{
    TT_TRY(add(r, "", tt_job_option_table, ""));
    TT_TRY(add_models(r));
    TT_TRY(add_optimisers(r));
    TT_TRY(add_sources(r));
    TT_TRY(add_sections(r, tt_train_sections));
    TT_TRY(add_sections(r, tt_distribution_sections));
    TT_TRY(add_policies(r));
    return add_codecs(r);
}

tt_status tt_keys_all(tt_arena *arena, const tt_keys_row **row_out,
                      int64_t *n_out)
{
    rows r = {.arena = arena};
    TT_TRY(collect(&r));
    tt_keys_row *all = tt_arena_alloc(arena, (r.n + 1) * (int64_t)sizeof *all);
    if (all == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < r.n; i++)
        all[i] = r.v[i].known;
    *row_out = all;
    *n_out = r.n;
    return TT_OK;
}
