// seconds - how long a segment takes on a machine of round numbers.
//
// Schedules are drawn, and rows are paced (trial.pace), before anybody has measured the
// machine; and results of two machines should be alike. So the machine is fixed: 10 GFLOP
// and 1 GB per second, 10 us for each kernel. The ratio is that of cores and GPUs, the
// rates are a tenth of a core's, so that several ranks can share one and still be in time.

#include "plan/seconds.h"

double tt_plan_seconds(const tt_plan *plan, int32_t segment)
{
    static const double flops_rate = 1e10, memory_rate = 1e9, launch = 1e-5;
    const tt_segment *x = &plan->segment[segment];
    double sum = 0;
    for (int32_t s = x->first; s < x->first + x->n; s++) {
        const tt_step *step = &plan->step[s];
        if (!tt_op_is_collective(step->op))
            sum += step->cost.flops / flops_rate +
                   step->cost.bytes / memory_rate + launch;
    }
    return sum;
}
