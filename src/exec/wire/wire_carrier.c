// wire_carrier - memory and algorithms of the wire.
//
// Scratch memory is sized when a plan is bound, for its largest collective, so that a
// step allocates nothing. It comes from the transport where peers can read it in place,
// otherwise from the heap; memory of the transport is never given back.

#include "base/alloc.h"
#include "exec/wire/wire_state.h"

#include <string.h>

enum { ALIGN = 64 };

tt_status tt__carrier_init(tt__carrier *c, tt_comm *comm,
                           const tt_wire_options *options)
{
    const char *name = options->collective;
    const int64_t n = comm->size + 1;
    *c = (tt__carrier){.comm = comm,
                       .host = options->host,
                       .calibration = options->calibration};
    if (name != NULL && strcmp(name, "auto") != 0) {
        c->coll = tt_coll_find(name);
        if (c->coll == NULL)
            return tt_fail(TT_ERR_ARG, "there is no collective algorithm %s",
                           name);
    }
    c->member = tt_alloc(n * (int64_t)sizeof(*c->member));
    c->member_host = tt_alloc(n * (int64_t)sizeof(*c->member_host));
    c->bound = tt_alloc(n * (int64_t)sizeof(*c->bound));
    c->call = tt_alloc(2 * n * (int64_t)sizeof(*c->call));
    if (c->member == NULL || c->member_host == NULL || c->bound == NULL ||
        c->call == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a wire");
    return TT_OK;
}

static void free_scratch(tt__carrier *c)
{
    if (!c->is_scratch_shared)
        tt_free_aligned(c->scratch);
    c->scratch = NULL;
    c->scratch_bytes = 0;
}

void tt__carrier_fini(tt__carrier *c)
{
    free_scratch(c);
    tt__wire_stage_fini(c);
    tt_free(c->call);
    tt_free(c->bound);
    tt_free(c->member_host);
    tt_free(c->member);
}

tt_status tt__carrier_room(tt__carrier *c, int64_t bytes)
{
    if (bytes <= c->scratch_bytes)
        return TT_OK;
    free_scratch(c);
    c->scratch = tt_comm_alloc(c->comm, bytes);
    c->is_scratch_shared = c->scratch != NULL;
    if (c->scratch == NULL)
        c->scratch = tt_alloc_aligned(bytes, ALIGN);
    if (c->scratch == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no %lld bytes of scratch memory for collectives",
                       (long long)bytes);
    c->scratch_bytes = bytes;
    return TT_OK;
}

// The user's choice comes first. Exact mode then leaves hosts out: a hierarchical sum
// depends on which rank is on which host, and exact sums may not. Without measurements
// only the size decides: few rounds for small arrays, few bytes for large ones.
const tt_coll_def *tt__carrier_choose(const tt__carrier *c,
                                      const tt_coll_call *call)
{
    enum { SMALL = 64 << 10 };
    const int64_t bytes = tt_coll_bytes(call, call->count);
    if (c->coll != NULL)
        return c->coll;
    if (c->is_exact) {
        tt_group flat = call->group; // hosts have sums of their own
        flat.host = NULL;
        return c->calibration == NULL
                   ? tt_coll_find("direct")
                   : tt_coll_choose(c->calibration, call->kind, bytes, &flat);
    }
    if (c->calibration != NULL)
        return tt_coll_choose(c->calibration, call->kind, bytes, &call->group);
    return tt_coll_find(bytes < SMALL ? "doubling" : "ring");
}

tt_status tt__carry_call(tt__carrier *c, const tt_coll_call *call)
{
    tt_coll_call mine = *call;
    mine.group =
        (tt_group){.n = c->comm->size, .me = c->comm->rank, .host = c->host};
    const tt_coll_def *def = tt__carrier_choose(c, &mine);
    const int64_t bytes = tt_coll_scratch_bytes(def, &mine);
    TT_TRY(tt__carrier_room(c, bytes));
    mine.scratch = bytes > 0 ? c->scratch : NULL;
    mine.tag = 0;
    return tt_coll_run(def, c->comm, &mine);
}
