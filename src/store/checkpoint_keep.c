// checkpoint_keep - which checkpoints go.

#include "base/alloc.h"
#include "store/checkpoint_folder.h"

static bool is_kept(const tt_checkpoint_rules *rules, int64_t step,
                    int64_t best, int64_t n_newer)
{
    return n_newer < rules->keep || step == best ||
           (rules->keep_every > 0 && step % rules->keep_every == 0);
}

tt_status tt__checkpoint_keep(const char *folder,
                              const tt_checkpoint_rules *rules,
                              const tt__steps *bad, int64_t newest)
{
    tt__steps steps = {0};
    int64_t n_newer = 0;
    const int64_t best = tt__checkpoint_named(folder, "best");
    tt_status status = tt__checkpoint_steps(folder, &steps);
    if (status == TT_OK && (best > newest || tt__steps_has(bad, best)))
        status = tt__checkpoint_name(folder, "best", -1);
    for (int64_t i = steps.n; i-- > 0 && status == TT_OK;) {
        const int64_t step = steps.v[i];
        if (step > newest || tt__steps_has(bad, step) ||
            !is_kept(rules, step, best, n_newer))
            status = tt__checkpoint_remove(folder, step);
        else
            n_newer++;
    }
    tt_free(steps.v);
    return status;
}

tt_status tt__checkpoint_cut(const char *folder, int64_t step)
{
    tt__steps steps = {0};
    tt_status status = tt__checkpoint_steps(folder, &steps);
    int64_t newest = -1;
    for (int64_t i = 0; i < steps.n; i++)
        if (steps.v[i] <= step)
            newest = steps.v[i];
    if (status == TT_OK && newest < tt__checkpoint_named(folder, "best"))
        status = tt__checkpoint_name(folder, "best", -1);
    if (status == TT_OK && newest != tt__checkpoint_named(folder, "latest"))
        status = tt__checkpoint_name(folder, "latest", newest);
    for (int64_t i = steps.n; i-- > 0 && status == TT_OK;)
        if (steps.v[i] > step)
            status = tt__checkpoint_remove(folder, steps.v[i]);
    tt_free(steps.v);
    return status;
}
