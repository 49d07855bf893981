// wire_packets - a flight of packets: lengths first, then the bytes that are used
// (traffic/packets.h).
//
//   scratch   [ lengths of all ranks | bodies of rank 0 | bodies of rank 1 | ... ]
//
// In both calls a rank's own part is written at its place, where an all-gather may find
// it. Then bodies are copied to where their readers expect whole packets; what lies
// behind them there is not read.

#include "exec/wire/wire_plan.h"
#include "ops/codec/packet.h"

#include <string.h>

enum { LINE = 64 };

static int64_t round_up(int64_t bytes, int64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

static int64_t lengths_bytes(const tt__wire_packets *p)
{
    return round_up(p->lengths.count * (int64_t)sizeof(int32_t), LINE);
}

static int64_t algorithm_bytes(const tt__wire_packets *p)
{
    const int64_t a = tt_coll_scratch_bytes(p->lengths_def, &p->lengths);
    const int64_t b = tt_coll_scratch_bytes(p->bodies_def, &p->bodies);
    return a > b ? a : b;
}

// Algorithms are chosen as if all packets were full.
void tt__wire_packets_bind(const tt__carrier *c, tt__wire_job *job,
                           int64_t *bounds)
{
    tt__wire_packets *p = &job->packets;
    if (p->what.is_merged) {
        tt__wire_merge_bind(c, job, bounds);
        return;
    }
    const tt_traffic_group *ranks = &job->leg[0].group;
    const int64_t size = p->what.x.size;
    const tt_traffic_group lengths = {ranks->member, ranks->member_host,
                                      bounds};
    const tt_traffic_group bodies = {ranks->member, ranks->member_host,
                                     bounds + size + 1};
    p->lengths = tt_traffic_packets_lengths(&p->what, &c->rules, &lengths);
    p->lengths_def = tt_traffic_choose(&c->rules, &p->lengths);
    p->bodies = tt_traffic_packets_bodies(&p->what, &c->rules, &bodies);
    p->bodies_def = tt_traffic_choose(&c->rules, &p->bodies);
    p->bound = bodies.bound;
    p->scratch_bytes =
        lengths_bytes(p) + round_up(p->what.bytes, LINE) + algorithm_bytes(p);
}

int64_t tt__wire_packets_capacity(const tt__wire_packets *p,
                                  const tt__wire_leg *leg)
{
    return leg->x.out_bytes / (p->what.each * p->what.x.size);
}

// Bytes of packet k of a member: whole words of 8, so that bodies stay aligned.
static int32_t used(const char *packet, int64_t most)
{
    const int64_t n = round_up(tt_packet_used(packet), 8);
    return (int32_t)(n < TT_PACKET_HEADER || n > most ? most : n);
}

// The number of the first packet of member m on rank i.
static int64_t first_of(const tt__wire_packets *p, int32_t i, int32_t m)
{
    return (i * (int64_t)p->what.n + m) * p->what.each;
}

tt__wire_ends tt__wire_packets_ends(const tt__wire_job *job, int32_t m,
                                    char *stage)
{
    const tt__wire_leg *leg = &job->leg[m];
    if (stage == NULL)
        return (tt__wire_ends){leg->in, leg->out};
    for (int32_t i = 0; i < m; i++)
        stage += tt__wire_packets_room(&job->leg[i].x);
    return (tt__wire_ends){stage, stage + round_up(leg->x.in_bytes, LINE)};
}

int64_t tt__wire_packets_room(const tt_traffic_site *x)
{
    return round_up(x->in_bytes, LINE) + round_up(x->out_bytes, LINE);
}

// Where each rank's bodies begin. Lengths are what others say, so they are looked at.
static tt_status find_bounds(const tt__wire_job *job, const int32_t *length)
{
    const tt__wire_packets *p = &job->packets;
    p->bound[0] = 0;
    for (int32_t i = 0; i < p->what.x.size; i++) {
        p->bound[i + 1] = p->bound[i];
        for (int32_t m = 0; m < p->what.n; m++)
            for (int64_t k = 0; k < p->what.each; k++) {
                const int32_t n = length[first_of(p, i, m) + k];
                if (n < TT_PACKET_HEADER ||
                    n > tt__wire_packets_capacity(p, &job->leg[m]))
                    return tt_fail(
                        TT_ERR_PEER,
                        "%s: rank %d says that a code has %d bytes, and "
                        "there can be %lld",
                        job->leg[m].where, tt_coll_rank(&p->bodies.group, i), n,
                        (long long)tt__wire_packets_capacity(p, &job->leg[m]));
                p->bound[i + 1] += n;
            }
    }
    return TT_OK;
}

static void pack(const tt__wire_job *job, char *stage, const int32_t *length,
                 char *to)
{
    const tt__wire_packets *p = &job->packets;
    for (int32_t m = 0; m < p->what.n; m++)
        for (int64_t k = 0; k < p->what.each; k++) {
            const int32_t n = length[first_of(p, p->bodies.group.me, m) + k];
            memcpy(to,
                   tt__wire_packets_ends(job, m, stage).in +
                       k * tt__wire_packets_capacity(p, &job->leg[m]),
                   (size_t)n);
            to += n;
        }
}

static void unpack(const tt__wire_job *job, char *stage, const int32_t *length,
                   const char *from)
{
    const tt__wire_packets *p = &job->packets;
    for (int32_t i = 0; i < p->what.x.size; i++)
        for (int32_t m = 0; m < p->what.n; m++)
            for (int64_t k = 0; k < p->what.each; k++) {
                const int32_t n = length[first_of(p, i, m) + k];
                memcpy(tt__wire_packets_ends(job, m, stage).out +
                           (i * p->what.each + k) *
                               tt__wire_packets_capacity(p, &job->leg[m]),
                       from, (size_t)n);
                from += n;
            }
}

tt_status tt__wire_packets_run(tt__carrier *c, const tt__wire_job *job,
                               char *stage)
{
    const tt__wire_packets *p = &job->packets;
    if (p->what.is_merged)
        return tt__wire_merge_run(c, job, stage);
    tt_coll_call lengths = p->lengths, bodies = p->bodies;
    int32_t *length = (int32_t *)(void *)c->scratch;
    char *body = c->scratch + lengths_bytes(p);
    char *room = body + round_up(p->what.bytes, LINE);
    const int32_t me = bodies.group.me;
    for (int32_t m = 0; m < p->what.n; m++)
        for (int64_t k = 0; k < p->what.each; k++) {
            const int64_t most = tt__wire_packets_capacity(p, &job->leg[m]);
            length[first_of(p, me, m) + k] =
                used(tt__wire_packets_ends(job, m, stage).in + k * most, most);
        }
    lengths.in = length + first_of(p, me, 0);
    lengths.out = length;
    lengths.scratch = room;
    TT_TRY(tt_coll_run(p->lengths_def, c->comm, &lengths));
    TT_TRY(find_bounds(job, length));
    pack(job, stage, length, body + p->bound[me]);
    bodies.count = p->bound[p->what.x.size];
    bodies.in = body + p->bound[me];
    bodies.out = body;
    bodies.scratch = room;
    TT_TRY(tt_coll_run(p->bodies_def, c->comm, &bodies));
    unpack(job, stage, length, body);
    c->packet_bytes += p->bound[me + 1] - p->bound[me];
    return TT_OK;
}
