// fit - whether a plan's memory is there, and what to change when it is not.

#include "base/figures.h"
#include "plan/plan.h"

tt_status tt_plan_check_fit(const tt_plan *plan, int64_t memory_bytes,
                            const tt_alternative *alternatives, int n)
{
    if (memory_bytes <= 0 || plan->peak_bytes <= memory_bytes)
        return TT_OK;
    tt_str s = {0};
    tt_str_add(&s, "needs ");
    tt_add_bytes(&s, plan->peak_bytes);
    tt_str_add(&s, " of memory, but ");
    tt_add_bytes(&s, memory_bytes);
    tt_str_add(&s, " are available\n");
    tt_plan_print_memory(plan, &s);
    int n_fit = 0;
    for (int i = 0; i < n; i++) {
        if (alternatives[i].bytes > memory_bytes)
            continue;
        tt_str_addf(&s, "%s  %s: ", n_fit == 0 ? "what would fit:\n" : "\n",
                    alternatives[i].text);
        tt_add_bytes(&s, alternatives[i].bytes);
        n_fit++;
    }
    if (n_fit == 0)
        tt_str_add(&s, alternatives == NULL
                           ? "a smaller batch or model needs less"
                           : "no smaller batch, precision or recomputation "
                             "makes it fit: use a smaller model or more "
                             "memory");
    (void)tt_fail(TT_ERR_NOMEM, "%s", tt_str_text(&s));
    tt_str_fini(&s);
    return TT_ERR_NOMEM;
}
