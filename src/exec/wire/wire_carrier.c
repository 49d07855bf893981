// wire_carrier - memory of the wire, and calls of the host.
//
// Scratch memory is sized when a plan is bound, for its largest collective, so that a
// step allocates nothing. It comes from the transport where peers can read it in place,
// otherwise from the heap; memory of the transport is never given back.

#include "base/alloc.h"
#include "exec/wire/wire_plan.h"

#include <string.h>

enum { ALIGN = 64 };

tt_status tt__carrier_init(tt__carrier *c, tt_comm *comm,
                           const tt_wire_options *options)
{
    const char *name = options->collective;
    *c = (tt__carrier){
        .comm = comm,
        .rules = {.host = options->host, .calibration = options->calibration}};
    if (name != NULL && strcmp(name, "auto") != 0) {
        c->rules.coll = tt_coll_find(name);
        if (c->rules.coll == NULL)
            return tt_fail(TT_ERR_ARG, "there is no collective algorithm %s",
                           name);
    }
    c->call = tt_alloc(2 * (int64_t)comm->size * (int64_t)sizeof(*c->call));
    if (c->call == NULL)
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

tt_status tt__carrier_call(tt__carrier *c, const tt_coll_call *call)
{
    tt_coll_call mine = *call;
    mine.group = (tt_group){
        .n = c->comm->size, .me = c->comm->rank, .host = c->rules.host};
    const tt_coll_def *def = tt_traffic_choose(&c->rules, &mine);
    const int64_t bytes = tt_coll_scratch_bytes(def, &mine);
    TT_TRY(tt__carrier_room(c, bytes));
    mine.scratch = bytes > 0 ? c->scratch : NULL;
    mine.tag = 0;
    return tt_coll_run(def, c->comm, &mine);
}
