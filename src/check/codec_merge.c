// codec_merge - the codes of several replicas, merged in any number of parts, are packets of
// the sum that gathered codes have, in every bit (ops/codec/merge.h).
//
//   parts      1, 2, 3 and 5, as ranks would have them
//   forms      a part is written in the fewer bytes: as a list or as all numbers
//   damage     places that do not ascend, or are of another part, are refused

#include "check/codec_merge.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "check/codec_trial.h"
#include "ops/codec/merge.h"

#include <string.h>

typedef struct merge {
    tt_law_report *r;
    tt_trial *t;
    int64_t capacity, value_bytes;
    tt_merged_list list[TT_TRIAL_PEERS];
    unsigned char *part,
        *packets; // a part as it is sent; the packets of the sum
    void *room;
    double *sum, *merged;
} merge;

static const char *name_of(const merge *g)
{
    return g->t->asked.codec->name;
}

static tt_merged_sum part_of(const merge *g, int parts, int i)
{
    const int64_t first = tt_merged_first(g->t->n, parts, i);
    const int64_t end =
        i + 1 == parts ? g->t->n : tt_merged_first(g->t->n, parts, i + 1);
    return (tt_merged_sum){first, end - first, g->value_bytes, g->room};
}

// Writes one part; returns its form.
static int64_t add_part(const merge *g, const tt_merged_sum *part)
{
    tt_merged_begin(part);
    for (int p = 0; p < g->t->asked.peers; p++) {
        const tt_merged_list piece =
            tt_merged_cut(&g->list[p], part->first, part->first + part->n);
        tt_law_report_check(g->r, tt_merged_add(part, &piece),
                            "codec %s: a right list is refused", name_of(g));
    }
    const int64_t count = tt_merged_count(part);
    tt_merged_write(part, count, g->part);
    const int64_t bytes = tt_merged_bytes(count, part->n, g->value_bytes);
    tt_law_report_check(g->r,
                        bytes <= tt_merged_bytes(-1, part->n, g->value_bytes),
                        "codec %s: a part of %lld numbers has %lld bytes",
                        name_of(g), (long long)part->n, (long long)bytes);
    return count;
}

static void read_packets(const merge *g)
{
    memset(g->merged, 0, (size_t)g->t->n * sizeof *g->merged);
    for (int p = 0; p < g->t->asked.peers; p++) {
        tt_merged_list list = {0};
        tt_law_report_check(
            g->r,
            tt_merged_open(g->packets + p * g->capacity, g->capacity, g->t->n,
                           g->value_bytes, &list),
            "codec %s: a merged packet cannot be read", name_of(g));
        for (int64_t i = 0; i < list.n; i++) {
            uint32_t at;
            memcpy(&at, list.place + 4 * i, sizeof at);
            g->merged[at] = tt_dtype_load(g->value_bytes == 8 ? TT_F64 : TT_F32,
                                          list.value, i);
        }
    }
}

static void check_parts(const merge *g, int parts)
{
    tt_merged_out out = {.packet = g->packets,
                         .packets = g->t->asked.peers,
                         .capacity = g->capacity,
                         .n = g->t->n,
                         .value_bytes = g->value_bytes};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < parts; i++) {
            const tt_merged_sum part = part_of(g, parts, i);
            const int64_t count = add_part(g, &part);
            if (pass == 0)
                out.entries += tt_merged_entries(&part, count, g->part);
            else
                tt_merged_put(&out, &part, count, g->part);
        }
    tt_merged_close(&out);
    read_packets(g);
    int64_t wrong = 0;
    for (int64_t i = 0; i < g->t->n; i++)
        wrong += g->merged[i] != g->sum[i];
    tt_law_report_check(g->r, wrong == 0 && out.at == out.entries,
                        "codec %s: %s of %d replicas in %d parts: %lld sums "
                        "are not those of gathered codes",
                        name_of(g), g->t->asked.shape, g->t->asked.peers, parts,
                        (long long)wrong);
}

// An entry of another part, and one that is there twice.
static void check_damage(const merge *g)
{
    const tt_merged_sum low = part_of(g, 2, 0);
    unsigned char bytes[2 * (8 + 4)] = {0};
    unsigned char *place = bytes + 2 * g->value_bytes;
    const tt_merged_list list = {2, g->value_bytes, bytes, place};
    const uint32_t far[2] = {0, (uint32_t)(low.first + low.n)};
    tt_merged_begin(&low);
    tt_law_report_check(
        g->r,
        !tt_merged_add(&low, &list) && tt_merged_entries(&low, 2, bytes) < 0,
        "codec %s: a place that is there twice is taken", name_of(g));
    memcpy(place, far, sizeof far);
    tt_law_report_check(
        g->r,
        !tt_merged_add(&low, &list) && tt_merged_entries(&low, 2, bytes) < 0,
        "codec %s: a place of another part is taken", name_of(g));
}

static tt_status allocate(merge *g)
{
    const int64_t n = g->t->n;
    g->part = tt_alloc(n * 8 + 1);
    g->packets = tt_alloc(g->capacity * g->t->asked.peers + 1);
    g->room = tt_alloc(tt_merged_room(n, 8) + 1);
    g->sum = tt_alloc(n * (int64_t)sizeof *g->sum);
    g->merged = tt_alloc(n * (int64_t)sizeof *g->merged);
    return g->part != NULL && g->packets != NULL && g->room != NULL &&
                   g->sum != NULL && g->merged != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for a law");
}

static tt_status check_all(merge *g)
{
    tt_trial *t = g->t;
    TT_TRY(tt_trial_step(t, 3));
    tt_trial_read(t, t->sum[0], g->sum);
    for (int p = 0; p < t->asked.peers; p++) {
        const bool is_list =
            tt_merged_open(tt_interp_data(t->interp, 0, t->code[p][0]),
                           g->capacity, t->n, g->value_bytes, &g->list[p]);
        if (!is_list)
            return tt_fail(TT_ERR_STATE, "codec %s: its code is no list",
                           name_of(g));
    }
    static const int parts[] = {1, 2, 3, 5};
    for (int i = 0; i < 4; i++)
        check_parts(g, parts[i]);
    if (t->n > 8)
        check_damage(g);
    return TT_OK;
}

static tt_status check(tt_law_report *r, const tt_trial_options *o)
{
    tt_trial t;
    TT_TRY(tt_trial_init(&t, o));
    double *x = tt_alloc(t.n * (int64_t)sizeof *x);
    merge g = {.r = r, .t = &t};
    g.capacity = t.code_bytes;
    g.value_bytes = o->dtype == TT_F64 ? 8 : 4;
    tt_status status = x == NULL ? TT_ERR_NOMEM : allocate(&g);
    for (int p = 0; p < o->peers && status == TT_OK; p++) {
        for (int64_t i = 0; i < t.n; i++)
            x[i] = tt_rng_normal((uint64_t)(p + 1), (uint64_t)i);
        tt_trial_write(&t, t.x[p], x);
    }
    if (status == TT_OK)
        status = check_all(&g);
    tt_free(x);
    tt_free(g.part);
    tt_free(g.packets);
    tt_free(g.room);
    tt_free(g.sum);
    tt_free(g.merged);
    tt_trial_fini(&t);
    return status;
}

tt_status tt__trial_merge(tt_law_report *r, const tt_codec_def *codec)
{
    static const char *const shapes[] = {"a:1", "a:7", "a:37 b:41"};
    static const char *const ratio[] = {"ratio=0.02", "ratio=0.3", "ratio=1"};
    if (codec->list == NULL)
        return TT_OK;
    for (int i = 0; i < 3 * 3 * 2; i++) {
        const tt_trial_options o = {.codec = codec,
                                    .options = ratio[i / 3 % 3],
                                    .shape = shapes[i % 3],
                                    .dtype = i < 9 ? TT_F32 : TT_F64,
                                    .peers = 2 + i % 3,
                                    .feeds_back = true,
                                    .is_merged = true};
        TT_TRY(check(r, &o));
    }
    return TT_OK;
}
