// packets - see packets.h.

#include "traffic/packets.h"

#include "ops/codec/merge.h"
#include "ops/ops.h"

static bool is_packets(const tt_step *step)
{
    return step->op == &tt_op_all_gather &&
           ((const tt_comm_params *)step->params)->packets;
}

// A rank's part is as long as another's, but for one number.
static void add_merged(tt_traffic_packets *out, const tt_traffic_site *x)
{
    const int64_t bytes = x->p->value_bytes;
    const int64_t part = x->p->merge / x->size + 2;
    const int64_t listed = out->each * x->size *
                           tt_merged_most(x->in_bytes / out->each, bytes) *
                           (bytes + 4);
    const int64_t whole = part * bytes;
    out->sums += listed < whole ? listed : whole;
    out->part = part > out->part ? part : out->part;
}

// Members of a flight have one axis (plan/bucket.c), and so the same replicas.
bool tt_traffic_packets_of(const tt_plan *plan, const tt_flight *flight,
                           tt_traffic_packets *out)
{
    const int32_t *member = &plan->member[flight->first];
    *out = (tt_traffic_packets){.n = flight->n, .is_merged = true};
    for (int32_t i = 0; i < flight->n; i++) {
        if (!is_packets(&plan->step[member[i]]))
            return false;
        const tt_traffic_site x = tt_traffic_site_of(plan, member[i]);
        const int64_t replicas = x.out_type->shape.factor[0].size;
        if (i == 0)
            out->x = x;
        if (x.size < 2 || x.axis != out->x.axis || replicas % x.size != 0)
            return false;
        out->each = replicas / x.size;
        out->bytes += x.out_bytes;
        out->is_merged = out->is_merged && x.p->merge > 0;
        if (x.p->merge > 0)
            add_merged(out, &x);
    }
    return true;
}

// A gather of `count` elements, as much from each.
static tt_coll_call gather(const tt_traffic_packets *p,
                           const tt_traffic_rules *rules,
                           const tt_traffic_group *group, tt_num type,
                           int64_t count)
{
    tt_coll_call call = tt_traffic_reduce_call(&p->x, rules, group);
    call.kind = TT_ALL_GATHER;
    call.fold.type = type;
    call.count = count;
    call.bound = group->bound;
    for (int32_t i = 0; i <= p->x.size; i++)
        group->bound[i] = count / p->x.size * i;
    return call;
}

tt_coll_call tt_traffic_packets_lengths(const tt_traffic_packets *p,
                                        const tt_traffic_rules *rules,
                                        const tt_traffic_group *group)
{
    return gather(p, rules, group, TT_NUM_I32, p->n * p->each * p->x.size);
}

tt_coll_call tt_traffic_packets_bodies(const tt_traffic_packets *p,
                                       const tt_traffic_rules *rules,
                                       const tt_traffic_group *group)
{
    return gather(p, rules, group, TT_NUM_U8, p->bytes);
}

// Of equal blocks, which need no bounds.
static tt_coll_call equal_call(const tt_traffic_packets *p,
                               const tt_traffic_rules *rules,
                               const tt_traffic_group *group, tt_coll_kind kind,
                               int64_t count)
{
    tt_coll_call call = tt_traffic_reduce_call(&p->x, rules, group);
    call.kind = kind;
    call.fold.type = TT_NUM_I32;
    call.count = count;
    call.bound = NULL;
    return call;
}

tt_coll_call tt_traffic_merge_lengths(const tt_traffic_packets *p,
                                      const tt_traffic_rules *rules,
                                      const tt_traffic_group *group)
{
    return equal_call(p, rules, group, TT_ALL_TO_ALL,
                      p->n * p->each * p->x.size);
}

tt_coll_call tt_traffic_merge_forms(const tt_traffic_packets *p,
                                    const tt_traffic_rules *rules,
                                    const tt_traffic_group *group)
{
    return equal_call(p, rules, group, TT_ALL_GATHER,
                      (int64_t)p->n * p->x.size);
}

tt_coll_call tt_traffic_merge_bodies(const tt_traffic_packets *p,
                                     const tt_traffic_rules *rules,
                                     const tt_traffic_group *group)
{
    return gather(p, rules, group, TT_NUM_U8,
                  (p->sums + TT_TRAFFIC_CHECK) * p->x.size);
}
