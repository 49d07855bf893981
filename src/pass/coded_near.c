// coded_near - codes of a replica that its neighbours decode one by one.
//
// The problem. Codecs are made for sums over all replicas: a code has a meaning once it is
// joined with the others'. Neighbours need what one replica's code stands for.
//
// The idea. The sum over one replica is that replica's. So the replica goes through the
// rounds alone, with its own codes for joined ones, and whoever gets the codes of all rounds
// goes the same way to the same result.
//
//   replica     x -> encode -> p -> encode -> q -> decode -> what it stands for
//   neighbour                  p -> encode -> .    q -> decode -> the same
//
// What a code did not say is no residual: it is in the difference from the public copy, the
// next time (is_kept).

#include "ops/comm/replicas.h"
#include "ops/infer_common.h"
#include "ops/shape/move.h"
#include "pass/coded.h"

// A single packet as a row of packets.
static tt_val joined_of(const tt__coded_by *by, const tt_coding *c, tt_val code)
{
    return c->join == TT_CODEC_ADDED ? code
                                     : tt_stack(by->b, code, TT_REPLICA ":1");
}

static void join(const tt__coded_by *by, const tt_coding *c, const tt_val *code,
                 tt_val *joined_out)
{
    for (int i = 0; i < c->n_codes; i++)
        joined_out[i] = joined_of(by, c, code[i]);
}

tt_status tt__coded_near_begin(const tt__coded_by *by, tt__coded_near *near,
                               tt_val x, const tt_type *like, const char *name)
{
    tt_coding *c = &near->p.c;
    tt_val joined[TT_CODEC_CODES];
    *near = (tt__coded_near){0};
    TT_TRY(tt__coded_prepare(by, &near->p, x, like, name));
    const int32_t first = by->b->graph->n_nodes;
    for (int r = 0; r < TT_CODEC_ROUNDS && !c->is_last; r++) {
        TT_TRY(tt_codec_encode(by->b, c, r == 0 ? NULL : joined));
        join(by, c, c->code, joined);
        near->first = r == 0 ? *c : near->first;
        near->n_codes[near->n_rounds] = c->n_codes;
        for (int i = 0; i < c->n_codes; i++)
            near->code[near->n_rounds][i] = c->code[i];
        near->n_rounds++;
    }
    tt__coded_place(by, first);
    return by->b->status;
}

tt_status tt__coded_near_own(const tt__coded_by *by, tt__coded_near *near,
                             tt_val *own_out)
{
    tt_val joined[TT_CODEC_CODES];
    const int32_t first = by->b->graph->n_nodes;
    join(by, &near->p.c, near->p.c.code, joined);
    TT_TRY(tt_codec_decode(by->b, &near->p.c, joined, own_out));
    tt__coded_place(by, first);
    tt__coded_settle(by, &near->p);
    return by->b->status;
}

tt_status tt__coded_near_of(const tt__coded_by *by, const tt__coded_near *near,
                            tt_val code[TT_CODEC_ROUNDS][TT_CODEC_CODES],
                            tt_val *out)
{
    const int32_t first = by->b->graph->n_nodes;
    tt_coding c = near->first;
    tt_val joined[TT_CODEC_CODES];
    for (int r = 0; r < near->n_rounds; r++) {
        if (r > 0)
            TT_TRY(tt_codec_encode(by->b, &c, joined));
        join(by, &c, code[r], joined);
    }
    TT_TRY(tt_codec_decode(by->b, &c, joined, out));
    tt__coded_place(by, first);
    return by->b->status;
}
