// fuzz_metrics - what a run has logged.

#include "fuzz/fuzz.h"
#include "store/metrics.h"

FUZZ(metrics)
{
    tt_arena *arena = tt_arena_create();
    tt_metrics metrics = {0};
    if (arena != NULL && tt_metrics_parse((const char *)data, (int64_t)n, arena,
                                          &metrics) == TT_OK)
        for (int i = 0; i < metrics.n; i++)
            (void)tt_metrics_last(&metrics, metrics.v[i].name);
    tt_arena_destroy(arena);
}
