// crew - see the header.

#include "crew.h"

#include "base/alloc.h"
#include "test.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

typedef struct task {
    const family *family;
    const char *const *more;
    int64_t steps;
    crew_run *run;
} task;

// Reads every tensor on every rank; `out` is rank 0's.
static tt_status read_all(tt_job *job, crew_run *run, double *out)
{
    int64_t at = 0;
    if (job->tensors.n > CREW_TENSORS)
        return tt_fail(TT_ERR_ARG, "%lld tensors", (long long)job->tensors.n);
    for (int64_t i = 0; i < job->tensors.n; i++) {
        const tt_tensor *t = &job->tensors.v[i];
        void *data = tt_alloc(t->bytes);
        if (data == NULL || at + t->count > CREW_NUMBERS)
            return tt_fail(TT_ERR_ARG, "too many numbers");
        TT_TRY(tt_tensor_read(job->exec, t, data));
        if (out != NULL) {
            snprintf(run->tensor[i].name, sizeof run->tensor[i].name, "%s",
                     t->name);
            run->tensor[i].first = at;
            run->tensor[i].count = t->count;
            for (int64_t k = 0; k < t->count; k++)
                out[at + k] = tt_dtype_load(t->dtype, data, k);
        }
        at += t->count;
        tt_free(data);
    }
    run->n = job->tensors.n;
    return TT_OK;
}

static tt_status train(tt_job *job, tt_arena *arena, void *user)
{
    const task *t = user;
    (void)arena;
    const bool is_first = tt_peers_is_first(&job->peers);
    tt_step_result last = {0};
    job->guard = true;
    job->wants_model = true;
    TT_TRY(tt_job_start(job, NULL));
    TT_TRY(read_all(job, t->run, is_first ? t->run->before : NULL));
    for (int64_t i = 0; i < t->steps; i++)
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
    TT_TRY(read_all(job, t->run, is_first ? t->run->after : NULL));
    if (!is_first)
        return TT_OK;
    t->run->loss = last.loss;
    t->run->norm = last.norm;
    t->run->param_bytes = job->plan->bytes_by_use[TT_USE_PARAM];
    t->run->optim_bytes = job->plan->bytes_by_use[TT_USE_OPTIM];
    t->run->grad_bytes = job->plan->bytes_by_use[TT_USE_GRAD];
    return TT_OK;
}

static tt_status open_wire(const tt_launch_rank *rank,
                           const tt_settings *settings, tt_peers *peers)
{
    const tt_setting *named = tt_settings_find(settings, "collective");
    const tt_wire_options options = {.collective =
                                         named == NULL ? NULL : named->value};
    TT_TRY(tt_shm_open(rank->world, rank->rank, rank->deadline, &peers->comm));
    return tt_comm_wire_open(peers->comm, &options, &peers->wire);
}

tt_status crew_be_rank(const tt_launch_rank *rank, const family *f,
                       const char *const *more, crew_fn *fn, void *user)
{
    tt_peers peers = {.rank = rank->rank,
                      .size = rank->n_ranks,
                      .on_host = rank->n_ranks,
                      .cores = 1};
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_job *job = NULL;
    family_settings(f, more, &settings, arena);
    TT_TRY(open_wire(rank, &settings, &peers));
    tt_status status = tt_job_configure_peers(&settings, NULL, &peers, &job);
    if (status == TT_OK)
        status = fn(job, arena, user);
    tt_job_close(job);
    tt_arena_destroy(arena);
    tt_comm_wire_close(peers.wire);
    tt_comm_close(peers.comm);
    return status;
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const task *t = user;
    return crew_be_rank(rank, t->family, t->more, train, user);
}

crew_run *crew_train(const family *f, const char *const *more, int32_t n,
                     int64_t steps)
{
    crew_run *run = mmap(NULL, sizeof *run, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(run != MAP_FAILED);
    task t = {f, more, steps, run};
    const tt_launch_options options = {
        .n_ranks = n, .rank_bytes = INT64_C(1) << 30, .pin = false};
    CHECK_OK(tt_launch(&options, be_rank, &t));
    return run;
}

void crew_free(crew_run *run)
{
    (void)munmap(run, sizeof *run);
}

// Norm of u - v over a range.
static double distance(const double *u, const double *v, int64_t first,
                       int64_t n)
{
    double sum = 0;
    for (int64_t i = first; i < first + n; i++)
        sum += (u[i] - v[i]) * (u[i] - v[i]);
    return sqrt(sum);
}

double crew_difference(const crew_run *a, const crew_run *b,
                       const char **worst_out)
{
    CHECK(a->n == b->n && a->n > 0);
    const int64_t last = a->n - 1;
    const double all_n =
        (double)(a->tensor[last].first + a->tensor[last].count);
    const double all = distance(b->after, b->before, 0, (int64_t)all_n);
    double worst = 0;
    CHECK(all > 0);
    for (int64_t i = 0; i < a->n; i++) {
        const int64_t first = a->tensor[i].first, n = a->tensor[i].count;
        CHECK(strcmp(a->tensor[i].name, b->tensor[i].name) == 0);
        CHECK(distance(a->before, b->before, first, n) == 0);
        const double own = distance(b->after, b->before, first, n);
        const double least = 0.01 * all * sqrt((double)n / all_n);
        const double rel = distance(a->after, b->after, first, n) /
                           (own > least ? own : least);
        if (!(rel <= worst)) {
            worst = rel;
            *worst_out = a->tensor[i].name;
        }
    }
    return worst;
}
