// replicas_mass - how much of all weights a replica has, in push-sum (policy/gossip.c).
//
// One number for each replica, 1 at first, which is mixed by the links that weights go by
// and in the same agreement:
//
//   mass  [replica]   S / data -> own -> mix -> stack -> mass
//                                         '-> 1 / mass, for every weight
//
// Masses of all replicas add up to their number. With codes weights go the part gamma of the
// way to their mix, and so does the mass, which is sent as it is.
//
//   sent   a number for each neighbour

#include "pass/replicas_mass.h"

#include "ops/infer_common.h"
#include "ops/optim/clip.h"

static const char *name_of(int level)
{
    return level == 0 ? "exchange.mass" : "exchange.outer.mass";
}

// Of the precision in which weights are added.
static tt_dtype dtype_of(const tt__replicas *w)
{
    for (int32_t i = 0; i < w->n_states; i++)
        if (w->state[i].is_weight)
            return tt_dtype_master(w->r.old->value[w->state[i].old].type.dtype);
    return TT_F32;
}

tt_status tt__mass_begin(tt__replicas *w, int level)
{
    const tt__level *l = &w->level[level];
    w->mass[level] = TT_NONE;
    if (!tt_policy_has_mass(l->policy, l->params))
        return TT_OK;
    const tt_type own = {.dtype = dtype_of(w)};
    const tt_init one = {.kind = TT_INIT_CONST, .a = 1, .of = TT_NONE};
    w->mass[level] =
        tt__replicas_extra(w, name_of(level), &own, w->n_levels - level, one);
    return w->r.b.status;
}

tt_status tt__mass_send(tt__replicas *w, const tt__mix *mix, int level,
                        tt__mass *mass_out)
{
    *mass_out = (tt__mass){.leaf = TT_NONE};
    if (!tt_is(w->mass[level]))
        return TT_OK;
    mass_out->leaf = tt__replicas_again(w, w->mass[level]);
    mass_out->mixed = (tt__mixed){.x = tt__replicas_read(w, mass_out->leaf),
                                  .is_plain = true};
    return tt__mix_send(w, mix, &mass_out->mixed, "mass");
}

tt_status tt__mass_take(tt__replicas *w, tt__mix *mix, tt__mass *mass,
                        tt_val *per_mass_out)
{
    tt_builder *b = &w->r.b;
    tt_val mixed = TT_NONE, norm;
    *per_mass_out = TT_NONE;
    if (!tt_is(mass->leaf))
        return TT_OK;
    TT_TRY(tt__mix_take(w, mix, &mass->mixed, &mixed));
    const int32_t first = b->graph->n_nodes;
    if (tt__replicas_is_coded(w)) {
        const tt_val way = tt_policy_add(b, mixed, -1, mass->mixed.x);
        mixed = tt_policy_add(b, mass->mixed.x, tt__mix_gamma(w, mix), way);
    }
    *per_mass_out = tt_clip(b, TT_NONE, mixed, 0, &norm);
    tt__replicas_place(w, first);
    tt__replicas_settle(w, mass->leaf, mixed);
    return b->status;
}
