// policy - the registry of policies.

#include "policy/policy.h"

#include "ops/arith.h"

#include <string.h>

#define TT_POLICY(name) extern const tt_policy_def tt_policy_##name;
#include "policy/list.h"
#undef TT_POLICY

static const tt_policy_def *const all[] = {
#define TT_POLICY(name) &tt_policy_##name,
#include "policy/list.h"
#undef TT_POLICY
};

enum { N_POLICIES = sizeof(all) / sizeof(all[0]) };

const tt_policy_def *const *tt_policy_all(int *n)
{
    *n = N_POLICIES;
    return all;
}

const tt_policy_def *tt_policy_find(const char *name)
{
    for (int i = 0; i < N_POLICIES; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

int tt_policy_variants(const tt_policy_def *def, const void *params,
                       int64_t replicas)
{
    return def->variants == NULL ? 1 : def->variants(params, replicas);
}

bool tt_policy_mix(const tt_policy_def *def, const void *params,
                   int64_t replicas, int variant, double *w)
{
    memset(w, 0, (size_t)(replicas * replicas) * sizeof *w);
    return def->mix != NULL && def->mix(params, replicas, variant, w);
}

int tt_policy_states(const tt_policy_def *def, const void *params,
                     const tt_policy_state **state_out)
{
    *state_out = NULL;
    return def->states == NULL ? 0 : def->states(params, state_out);
}

bool tt_policy_is_retimed(const tt_policy_def *def, const void *params)
{
    return def->is_retimed != NULL && def->is_retimed(params);
}

bool tt_policy_has_mass(const tt_policy_def *def, const void *params)
{
    return def->has_mass != NULL && def->has_mass(params);
}

bool tt_policy_keeps_model(const tt_policy_def *def, const void *params)
{
    return def->keeps_model != NULL && def->keeps_model(params);
}

// The step has changed x by what comes to the untold.
tt_val tt_policy_untold(tt_builder *b, const tt_agreement *a)
{
    const tt_val ahead = tt_policy_add(b, a->x, -1, a->model);
    return tt_policy_add(b, ahead, 1 - 1 / (double)a->replicas, a->state[0]);
}

tt_val tt_policy_add(tt_builder *b, tt_val x, double factor, tt_val y)
{
    return tt_add(b, x, factor == 1 ? y : tt_scale(b, y, factor));
}
