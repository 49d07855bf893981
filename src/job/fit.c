// fit - does the plan fit into memory, and if not, what should the user change?
//
// A plan knows its peak exactly, before anything is allocated. When it is too
// large, an error "out of memory" is of little use. The useful answer is a list of
// changes with the memory that each needs. So each change is planned in full
// (job/variant.h), without running it, and the table shows the true peak.
//
// Changes are tried from the cheapest in time to the dearest: ZeRO, the loss in
// chunks, selective recomputation, smaller micro-batches, full recomputation, all
// of these together, offloading, and bf16. What a single process cannot solve by a
// change of its plan (weights that are larger than the memory) leads to advice:
// more ranks, or the host's memory. That number is an estimate, since a plan for
// other ranks would need another job.

#include "backend/machine.h"
#include "base/figures.h"
#include "job/internal.h"
#include "job/variant.h"

#include <string.h>

enum { MAX_ALTERNATIVES = 16 };

typedef struct alternatives {
    int n;
    tt_alternative list[MAX_ALTERNATIVES];
} alternatives;

static const char *describe(tt_job *job, const tt__variant *v)
{
    static const char *const mode[] = {"none", "selective", "full"};
    const tt__variant now = tt__variant_of(job);
    tt_str s = {0};
    // In the user's own words: batch, micro and accumulate determine each other.
    if (v->accumulate != now.accumulate && job->has_micro)
        tt_str_addf(&s, " micro=%lld",
                    (long long)(job->options.batch / v->accumulate));
    if (v->accumulate != now.accumulate &&
        (job->has_accumulate || !job->has_micro))
        tt_str_addf(&s, " accumulate=%lld", (long long)v->accumulate);
    if (v->recompute != now.recompute)
        tt_str_addf(&s, " recompute=%s", mode[v->recompute]);
    if (v->precision != now.precision)
        tt_str_add(&s, " precision=bf16");
    if (v->chunks != now.chunks)
        tt_str_addf(&s, " loss.chunks=%lld", (long long)v->chunks);
    if (v->offload != now.offload)
        tt_str_addf(&s, " offload=%s", tt_offload_name[v->offload]);
    if (v->zero != now.zero)
        tt_str_addf(&s, " zero=%lld", (long long)v->zero);
    const char *text = tt_arena_strdup(job->arena, tt_str_text(&s) + 1);
    tt_str_fini(&s);
    return text;
}

// Plans one change and adds it to the list. A change that cannot be planned, or
// that changes nothing, is left out.
static void try_change(tt_job *job, tt__variant v, alternatives *a)
{
    const tt__variant now = tt__variant_of(job);
    tt__planned p;
    if (a->n == MAX_ALTERNATIVES ||
        (v.accumulate == now.accumulate && v.precision == now.precision &&
         v.recompute == now.recompute && v.zero == now.zero &&
         v.chunks == now.chunks && v.offload == now.offload) ||
        tt__variant_plan(job, &v, &p) != TT_OK)
        return;
    const char *text = describe(job, &v);
    bool is_new = text != NULL;
    for (int i = 0; i < a->n && is_new;
         i++) // two ways may lead to the same change
        is_new = strcmp(a->list[i].text, text) != 0;
    if (is_new)
        a->list[a->n++] = (tt_alternative){text, p.plan->peak_bytes};
    tt__planned_free(&p);
}

// Offloading: values the device does not need for a while lie in the host's memory.
static void try_offload(tt_job *job, const tt__variant *least, alternatives *a)
{
    tt__variant v = tt__variant_of(job);
    if (job->backend->def->memory == NULL || v.offload != TT_OFFLOAD_NONE)
        return;
    v.offload = TT_OFFLOAD_OPTIMISER;
    try_change(job, v, a);
    v.offload = TT_OFFLOAD_ALL;
    try_change(job, v, a);
    v = *least;
    v.offload = TT_OFFLOAD_ALL;
    try_change(job, v, a);
    // With small micro-batches the logits are small too, and need no chunks.
    if (v.chunks > 1 && job->distribution.chunks == 0) {
        v.chunks = 1;
        try_change(job, v, a);
    }
}

// From the cheapest change to the dearest; see the top of this file.
static void try_all(tt_job *job, alternatives *a)
{
    enum { SELECTIVE = 1, FULL = 2 };
    const tt__variant now = tt__variant_of(job);
    const int64_t batch = job->options.batch;
    tt_target *target = &job->backend->target;
    tt__variant v = now;
    for (v.zero++; v.zero <= 3 && job->peers.size > 1; v.zero++)
        try_change(job, v, a);
    v = now;
    if (now.chunks < TT__USUAL_CHUNKS) {
        v.chunks = TT__USUAL_CHUNKS;
        try_change(job, v, a);
        v = now;
    }
    if (now.recompute < SELECTIVE) {
        v.recompute = SELECTIVE;
        try_change(job, v, a);
        v = now;
    }
    int64_t smallest = now.accumulate;
    for (v.accumulate *= 2; v.accumulate <= batch && a->n < 4;
         v.accumulate *= 2)
        if (batch % v.accumulate == 0) {
            try_change(job, v, a);
            smallest = v.accumulate;
        }
    v.accumulate = batch;
    if (batch > smallest)
        try_change(job, v, a);
    v = now;
    v.recompute = FULL;
    if (now.recompute < FULL)
        try_change(job, v, a);
    tt__variant least = now;
    least.accumulate = batch;
    least.recompute = FULL;
    if (now.recompute < FULL && batch > now.accumulate)
        try_change(job, least, a);
    try_offload(job, &least, a);
    if (now.precision != TT_PRECISION_FP32 ||
        !target->has_dtype(target, TT_BF16))
        return;
    v = now;
    v.precision = least.precision = TT_PRECISION_BF16;
    try_change(job, v, a);
    try_change(job, least, a);
}

// The memory of a device for the plan. It was divided between the ranks of the
// device when that was opened (job/device.c). NCCL's buffers are not in the plan,
// so they are subtracted.
static int64_t device_memory(const tt_job *job)
{
    const int64_t memory = job->backend->target.memory_bytes;
    int64_t links = 0;
    if (!job->is_linked || job->plan == NULL ||
        tt_wire_device_bytes(job->plan, &links) != TT_OK)
        return memory;
    return memory > links ? memory - links : 1;
}

int64_t tt_job_memory(const tt_job *job)
{
    const int32_t on_host = job->peers.on_host;
    if (job->backend->def->memory != NULL)
        return device_memory(job);
    return job->backend->target.memory_bytes / (on_host > 1 ? on_host : 1);
}

// Offloaded values need room in the host's memory.
static tt_status check_host(const tt_job *job)
{
    const int64_t there = tt_machine_memory();
    const int64_t on_host = job->peers.on_host > 1 ? job->peers.on_host : 1;
    tt_str needed = {0}, has = {0};
    if (there <= 0 || job->backend->is_absent ||
        job->plan->host_bytes <= there / on_host)
        return TT_OK;
    tt_add_bytes(&needed, job->plan->host_bytes);
    tt_add_bytes(&has, there / on_host);
    const tt_status status =
        tt_fail(TT_ERR_NOMEM,
                "offload=%s needs %s of the host's memory, but %s are "
                "available; recompute=full or a smaller batch would save some",
                tt_offload_name[job->distribution.offload],
                tt_str_text(&needed), tt_str_text(&has));
    tt_str_fini(&needed);
    tt_str_fini(&has);
    return status;
}

// An estimate of what a rank needs if there were `times` as many ranks with zero=3.
// States are divided between the ranks, plus a quarter for weights that are
// gathered while layers use them. The rest shrinks with the samples of a rank; a
// sample is not divided.
static int64_t bytes_of_many(const tt_job *job, int64_t times)
{
    const int64_t held = job->plan->persistent_bytes;
    const int64_t rest = job->plan->peak_bytes - held;
    const int64_t least = job->options.micro / job->grid.data;
    const int64_t cuts = times < least ? times : least > 0 ? least : 1;
    return held / times + held / times / 4 + rest / cuts;
}

// Adds to the error what no change of one rank's plan achieves: more ranks, or the
// host's memory.
static tt_status advise(tt_job *job, int64_t memory, tt_status status)
{
    enum { MOST = 1024 };
    int64_t times = 2;
    tt_str text = {0};
    if (status == TT_OK)
        return status;
    while (times < MOST && bytes_of_many(job, times) > memory)
        times *= 2;
    tt_str_add(&text, tt_error_message());
    if (bytes_of_many(job, times) <= memory) {
        tt_str_addf(&text,
                    "\nor on more ranks: %lld with zero=3 share weights, "
                    "gradients and optimiser state, about ",
                    (long long)(times * job->peers.size));
        tt_add_bytes(&text, bytes_of_many(job, times));
        if (job->options.micro < times * job->grid.data)
            tt_str_addf(&text, " (batch=%lld at least)",
                        (long long)(times * job->grid.data));
        tt_str_add(&text, job->backend->def->memory != NULL
                              ? " on each GPU"
                              : " on each, so on several machines");
    } else {
        tt_str_add(&text, "\nor on many ranks: zero=3 and mesh.tensor share "
                          "out weights, gradients and optimiser state");
    }
    if (job->backend->def->memory == NULL)
        tt_str_add(&text, "; on a GPU, offload=all also leaves some of it in "
                          "the host's memory");
    else if (job->distribution.offload == TT_OFFLOAD_NONE)
        tt_str_add(&text, "; offload=optimiser or offload=all leaves some of "
                          "it in the host's memory");
    (void)tt_fail(status, "%s", tt_str_text(&text));
    tt_str_fini(&text);
    return status;
}

tt_status tt_job_check_fit(tt_job *job)
{
    const int64_t memory = tt_job_memory(job);
    alternatives a = {0};
    TT_TRY(check_host(job));
    if (tt_plan_check_fit(job->plan, memory, NULL, 0) == TT_OK)
        return TT_OK;
    // On one CPU rank these changes shrink activations only (bf16 keeps its master
    // weights in fp32). If the states alone are too large, none of them helps, and
    // planning them would take time for nothing.
    if (job->plan->persistent_bytes <= memory || job->peers.size > 1 ||
        job->backend->def->memory != NULL)
        try_all(job, &a);
    return advise(job, memory,
                  tt_plan_check_fit(job->plan, memory, a.list, a.n));
}
