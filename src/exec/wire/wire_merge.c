// wire_merge - a flight of lists that are added up on the way (ops/codec/merge.h).
//
//   lengths   how many entries of each of its packets a rank has for each part
//   pieces    these entries, to the rank that adds the part up
//   forms     how each rank writes its sums: so many entries, or all numbers
//   bodies    the sums of all parts, to all
//
//   scratch   [ lengths out | lengths in | forms | pieces out, own sums | pieces in, all
//               sums | the sum that is made | algorithms ]
//
// Then each rank writes packets of the sums where readers expect those of replicas: each
// full but the last that has entries. Pieces and sums end with a check. Whatever a rank
// says is looked at before it is used.

#include "exec/wire/wire_plan.h"
#include "ops/codec/merge.h"

#include <string.h>

enum { LINE = 64 };

typedef struct merging {
    tt__carrier *c;
    const tt__wire_job *job;
    const tt__wire_packets *p;
    char *stage;
    int32_t ranks, me;
    int64_t of_rank; // lengths that a rank says to another
    int32_t *out_length, *in_length, *form;
    unsigned char *out, *in, *sum;
    void *room;
} merging;

static int64_t round_up(int64_t bytes)
{
    return (bytes + LINE - 1) / LINE * LINE;
}

static int64_t max(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// ---- scratch ---------------------------------------------------------------

static int64_t lengths_bytes(const tt_traffic_packets *w)
{
    return round_up(w->n * w->each * w->x.size * (int64_t)sizeof(int32_t));
}

static int64_t forms_bytes(const tt_traffic_packets *w)
{
    return round_up((int64_t)sizeof(int32_t) * w->n * w->x.size);
}

static int64_t checks_bytes(const tt_traffic_packets *w)
{
    return (int64_t)w->x.size * TT_TRAFFIC_CHECK;
}

static int64_t out_bytes(const tt_traffic_packets *w)
{
    return round_up(max(w->bytes / w->x.size, w->sums) + checks_bytes(w));
}

static int64_t in_bytes(const tt_traffic_packets *w)
{
    return round_up(max(w->bytes, w->sums * w->x.size) + checks_bytes(w));
}

static int64_t algorithm_bytes(const tt__wire_packets *p)
{
    return max(tt_coll_scratch_bytes(p->lengths_def, &p->lengths),
               max(tt_coll_scratch_bytes(p->forms_def, &p->forms),
                   tt_coll_scratch_bytes(p->bodies_def, &p->bodies)));
}

void tt__wire_merge_bind(const tt__carrier *c, tt__wire_job *job,
                         int64_t *bounds)
{
    tt__wire_packets *p = &job->packets;
    const tt_traffic_packets *w = &p->what;
    const tt_traffic_group *ranks = &job->leg[0].group;
    const tt_traffic_group group = {ranks->member, ranks->member_host, bounds};
    p->bodies = tt_traffic_merge_bodies(w, &c->rules, &group);
    p->lengths = tt_traffic_merge_lengths(w, &c->rules, &group);
    p->forms = tt_traffic_merge_forms(w, &c->rules, &group);
    p->bodies_def = tt_traffic_choose(&c->rules, &p->bodies);
    p->lengths_def = tt_traffic_choose(&c->rules, &p->lengths);
    p->forms_def = tt_traffic_choose(&c->rules, &p->forms);
    p->bound = bounds;
    p->scratch_bytes = 2 * lengths_bytes(w) + forms_bytes(w) + out_bytes(w) +
                       in_bytes(w) + round_up(tt_merged_room(w->part, 8)) +
                       algorithm_bytes(p);
}

static merging begin(tt__carrier *c, const tt__wire_job *job, char *stage)
{
    const tt__wire_packets *p = &job->packets;
    const tt_traffic_packets *w = &p->what;
    char *at = c->scratch;
    merging g = {.c = c,
                 .job = job,
                 .p = p,
                 .stage = stage,
                 .ranks = w->x.size,
                 .me = p->bodies.group.me,
                 .of_rank = w->n * w->each};
    g.out_length = (int32_t *)(void *)at;
    g.in_length = (int32_t *)(void *)(at += lengths_bytes(w));
    g.form = (int32_t *)(void *)(at += lengths_bytes(w));
    g.out = (unsigned char *)(at += forms_bytes(w));
    g.in = (unsigned char *)(at += out_bytes(w));
    g.sum = (unsigned char *)(at += in_bytes(w));
    g.room = at + round_up(tt_merged_room(w->part, 8));
    return g;
}

// ---- members ---------------------------------------------------------------

static int64_t capacity(const merging *g, int32_t m)
{
    return tt__wire_packets_capacity(g->p, &g->job->leg[m]);
}

static int64_t value_bytes(const merging *g, int32_t m)
{
    return g->job->leg[m].x.p->value_bytes;
}

// Numbers of member m as this rank holds it: its own packets say it.
static int64_t numbers(const merging *g, int32_t m)
{
    int64_t n;
    memcpy(&n, tt__wire_packets_ends(g->job, m, g->stage).in + 8, sizeof n);
    return n;
}

static tt_merged_sum part_of(const merging *g, int32_t m, int32_t rank)
{
    const int64_t n = numbers(g, m);
    const int64_t first = tt_merged_first(n, g->ranks, rank);
    const int64_t end =
        rank + 1 == g->ranks ? n : tt_merged_first(n, g->ranks, rank + 1);
    return (tt_merged_sum){first, end - first, value_bytes(g, m), g->sum};
}

static tt_status open_own(const merging *g, int32_t m, int64_t k,
                          tt_merged_list *out)
{
    const char *in = tt__wire_packets_ends(g->job, m, g->stage).in;
    const int64_t n = numbers(g, m);
    if (n > g->job->leg[m].x.p->merge ||
        !tt_merged_open((const unsigned char *)in + k * capacity(g, m),
                        capacity(g, m), n, value_bytes(g, m), out))
        return tt_fail(TT_ERR_STATE, "%s: this is no list of entries",
                       g->job->leg[m].where);
    return TT_OK;
}

static tt_status refuse(const merging *g, int32_t m, int32_t rank)
{
    return tt_fail(
        TT_ERR_PEER, "%s: what rank %d sends of merged lists is damaged",
        g->job->leg[m].where, tt_coll_rank(&g->p->bodies.group, rank));
}

// ---- checks ----------------------------------------------------------------

static void close_row(unsigned char *data, int64_t bytes)
{
    const uint32_t check[2] = {tt_packet_hash(data, bytes), 0};
    memcpy(data + bytes, check, sizeof check);
}

static bool row_is_right(const unsigned char *data, int64_t bytes)
{
    uint32_t check;
    memcpy(&check, data + bytes, sizeof check);
    return check == tt_packet_hash(data, bytes);
}

// ---- pieces ----------------------------------------------------------------

static tt_status say_lengths(const merging *g)
{
    const tt_traffic_packets *w = &g->p->what;
    tt_coll_call call = g->p->lengths;
    for (int32_t m = 0; m < w->n; m++)
        for (int64_t k = 0; k < w->each; k++) {
            tt_merged_list list;
            TT_TRY(open_own(g, m, k, &list));
            g->c->packet_bytes +=
                TT_PACKET_HEADER + tt_sparse_body(list.n, list.value_bytes);
            for (int32_t i = 0; i < g->ranks; i++) {
                const tt_merged_sum part = part_of(g, m, i);
                g->out_length[i * g->of_rank + m * w->each + k] =
                    (int32_t)tt_merged_cut(&list, part.first,
                                           part.first + part.n)
                        .n;
            }
        }
    call.in = g->out_length;
    call.out = g->in_length;
    call.scratch = g->room;
    return tt_coll_run(g->p->lengths_def, g->c->comm, &call);
}

// Bytes of what a rank's lengths say, with a check; -1: that cannot be.
static int64_t piece_bytes(const merging *g, const int32_t *length)
{
    const tt_traffic_packets *w = &g->p->what;
    int64_t bytes = TT_TRAFFIC_CHECK;
    for (int32_t m = 0; m < w->n; m++)
        for (int64_t k = 0; k < w->each; k++) {
            const int32_t n = length[m * w->each + k];
            if (n < 0 || n > tt_merged_most(capacity(g, m), value_bytes(g, m)))
                return -1;
            bytes += n * (value_bytes(g, m) + 4);
        }
    return bytes;
}

// What this rank has for another; returns the end.
static unsigned char *write_piece(const merging *g, int32_t to,
                                  unsigned char *at)
{
    const tt_traffic_packets *w = &g->p->what;
    unsigned char *const begin = at;
    for (int32_t m = 0; m < w->n; m++)
        for (int64_t k = 0; k < w->each; k++) {
            const tt_merged_sum part = part_of(g, m, to);
            tt_merged_list list = {0};
            (void)open_own(g, m, k, &list);
            list = tt_merged_cut(&list, part.first, part.first + part.n);
            memcpy(at, list.value, (size_t)(list.n * list.value_bytes));
            at += list.n * list.value_bytes;
            memcpy(at, list.place, (size_t)(list.n * 4));
            at += list.n * 4;
        }
    close_row(begin, at - begin);
    return at + TT_TRAFFIC_CHECK;
}

// To and from all others at once; what this rank has for itself lies among the rest.
static tt_status send_pieces(const merging *g)
{
    const tt_coll_call *call = &g->p->bodies;
    unsigned char *out = g->out, *in = g->in;
    const int64_t each = (int64_t)(sizeof(tt_msg) + sizeof(tt_msg *));
    tt_msg *msg =
        tt_comm_room(g->c->comm, TT_ROOM_MESSAGES, 2 * each * g->ranks);
    if (msg == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %d messages", g->ranks);
    tt_msg **list = (tt_msg **)(msg + (int64_t)2 * g->ranks);
    int n = 0;
    for (int32_t i = 0; i < g->ranks; i++) {
        const int64_t bytes = piece_bytes(g, &g->in_length[i * g->of_rank]);
        if (bytes < 0)
            return refuse(g, 0, i);
        if (i == g->me) {
            in = write_piece(g, i, in);
            continue;
        }
        msg[n] = tt_coll_in(call, i, in, bytes);
        list[n] = &msg[n];
        TT_TRY(tt_comm_receive(g->c->comm, &msg[n++]));
        in += bytes;
    }
    for (int32_t k = 1; k < g->ranks; k++) {
        const int32_t i = (g->me + k) % g->ranks;
        unsigned char *const end = write_piece(g, i, out);
        msg[n] = tt_coll_out(call, i, out, end - out);
        list[n] = &msg[n];
        TT_TRY(tt_comm_send(g->c->comm, &msg[n++]));
        out = end;
    }
    return tt_comm_wait(g->c->comm, list, n);
}

// ---- sums ------------------------------------------------------------------

static tt_status check_pieces(const merging *g)
{
    const unsigned char *in = g->in;
    for (int32_t i = 0; i < g->ranks; i++) {
        const int64_t bytes = piece_bytes(g, &g->in_length[i * g->of_rank]);
        if (!row_is_right(in, bytes - TT_TRAFFIC_CHECK))
            return refuse(g, 0, i);
        in += bytes;
    }
    return TT_OK;
}

// Replica after replica: rank i has those from i each on.
static tt_status add_member(const merging *g, int32_t m,
                            const tt_merged_sum *sum)
{
    const tt_traffic_packets *w = &g->p->what;
    const unsigned char *row = g->in;
    tt_merged_begin(sum);
    for (int32_t i = 0; i < g->ranks; i++) {
        const int32_t *length = &g->in_length[i * g->of_rank];
        const unsigned char *at = row;
        for (int64_t l = 0; l < (m + 1) * w->each; l++) {
            const int64_t bytes = value_bytes(g, (int32_t)(l / w->each));
            const tt_merged_list list = {length[l], bytes, at,
                                         at + length[l] * bytes};
            at += length[l] * (bytes + 4);
            if (l >= m * w->each && !tt_merged_add(sum, &list))
                return refuse(g, m, i);
        }
        row += piece_bytes(g, length);
    }
    return TT_OK;
}

// The sums of this rank's parts, one after another in `out`.
static tt_status add_all(const merging *g, int64_t *bytes_out)
{
    const tt_traffic_packets *w = &g->p->what;
    unsigned char *at = g->out;
    TT_TRY(check_pieces(g));
    for (int32_t m = 0; m < w->n; m++) {
        const tt_merged_sum sum = part_of(g, m, g->me);
        TT_TRY(add_member(g, m, &sum));
        const int64_t count = tt_merged_count(&sum);
        g->form[g->me * w->n + m] = (int32_t)count;
        tt_merged_write(&sum, count, at);
        at += tt_merged_bytes(count, sum.n, sum.value_bytes);
    }
    close_row(g->out, at - g->out);
    *bytes_out = at - g->out + TT_TRAFFIC_CHECK;
    return TT_OK;
}

// Where each rank's sums begin.
static tt_status find_bounds(const merging *g)
{
    const tt_traffic_packets *w = &g->p->what;
    g->p->bound[0] = 0;
    for (int32_t i = 0; i < g->ranks; i++) {
        int64_t bytes = TT_TRAFFIC_CHECK;
        for (int32_t m = 0; m < w->n; m++) {
            const tt_merged_sum part = part_of(g, m, i);
            const int32_t count = g->form[i * w->n + m];
            if (count < -1 || count > part.n)
                return refuse(g, m, i);
            bytes += tt_merged_bytes(count, part.n, part.value_bytes);
        }
        if (bytes > w->sums + TT_TRAFFIC_CHECK)
            return refuse(g, 0, i);
        g->p->bound[i + 1] = g->p->bound[i] + bytes;
    }
    return TT_OK;
}

static tt_status send_sums(const merging *g)
{
    int64_t bytes = 0;
    tt_coll_call forms = g->p->forms, bodies = g->p->bodies;
    TT_TRY(add_all(g, &bytes));
    forms.in = g->form + (int64_t)g->me * g->p->what.n;
    forms.out = g->form;
    forms.scratch = bodies.scratch = g->room;
    TT_TRY(tt_coll_run(g->p->forms_def, g->c->comm, &forms));
    TT_TRY(find_bounds(g));
    bodies.count = g->p->bound[g->ranks];
    bodies.in = g->out;
    bodies.out = g->in;
    TT_TRY(tt_coll_run(g->p->bodies_def, g->c->comm, &bodies));
    for (int32_t i = 0; i < g->ranks; i++)
        if (!row_is_right(g->in + g->p->bound[i], g->p->bound[i + 1] -
                                                      g->p->bound[i] -
                                                      TT_TRAFFIC_CHECK))
            return refuse(g, 0, i);
    return TT_OK;
}

// ---- packets ---------------------------------------------------------------

// Member m's sum in rank i's row.
static const unsigned char *sum_at(const merging *g, int32_t m, int32_t i)
{
    const unsigned char *at = g->in + g->p->bound[i];
    for (int32_t l = 0; l < m; l++) {
        const tt_merged_sum part = part_of(g, l, i);
        at += tt_merged_bytes(g->form[i * g->p->what.n + l], part.n,
                              part.value_bytes);
    }
    return at;
}

static tt_status write_member(const merging *g, int32_t m)
{
    const tt_traffic_packets *w = &g->p->what;
    tt_merged_out out = {
        .packet =
            (unsigned char *)tt__wire_packets_ends(g->job, m, g->stage).out,
        .packets = w->each * g->ranks,
        .capacity = capacity(g, m),
        .n = numbers(g, m),
        .value_bytes = value_bytes(g, m)};
    for (int pass = 0; pass < 2; pass++)
        for (int32_t i = 0; i < g->ranks; i++) {
            const tt_merged_sum part = part_of(g, m, i);
            const int32_t count = g->form[i * w->n + m];
            const unsigned char *data = sum_at(g, m, i);
            if (pass == 1) {
                tt_merged_put(&out, &part, count, data);
                continue;
            }
            const int64_t entries = tt_merged_entries(&part, count, data);
            out.entries += entries;
            if (entries < 0 ||
                out.entries >
                    out.packets * tt_merged_most(out.capacity, out.value_bytes))
                return refuse(g, m, i);
        }
    tt_merged_close(&out);
    return TT_OK;
}

tt_status tt__wire_merge_run(tt__carrier *c, const tt__wire_job *job,
                             char *stage)
{
    const merging g = begin(c, job, stage);
    TT_TRY(say_lengths(&g));
    TT_TRY(send_pieces(&g));
    TT_TRY(send_sums(&g));
    for (int32_t m = 0; m < g.p->what.n; m++)
        TT_TRY(write_member(&g, m));
    return TT_OK;
}
