// Resharding: what one layout saved another loads, in every bit, and each rank reads
// the bytes of its own parts and no others.

#include "base/alloc.h"
#include "base/file.h"
#include "crew.h"
#include "jobs.h"
#include "state/parts.h"
#include "state/restore.h"
#include "store/checkpoint.h"
#include "test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct layout {
    int32_t ranks;
    const char *setting[6]; // ends with NULL
} layout;

typedef enum trouble { NONE, BLIND, DAMAGED } trouble;

typedef struct task {
    const family *family;
    const layout *layout;
    char folder[64]; // of checkpoints
    bool loads;      // before it saves; else it trains
    int64_t step;    // under which it saves
    trouble trouble; // of the last rank, or of the file
    // Shared with ranks: rank 0's, of the step after saving; whether all was well
    // on each rank.
    struct {
        double loss;
        int32_t n_good;
        tt_slices_result read;
    } * out;
} task;

// ---- one rank ------------------------------------------------------------

// The bytes that this rank needs: its parts, and the tables in front of them.
static int64_t needed(const tt_job *job, const tt_checkpoint *c)
{
    const tt_graph *g = job->graph;
    const int32_t rank = job->peers.rank;
    int64_t bytes = tt_safetensors_header_bytes(c->model) +
                    tt_safetensors_header_bytes(c->optim);
    for (int64_t i = 0; i < job->tensors.n; i++) {
        const tt_tensor *t = &job->tensors.v[i];
        const tt__rank_part own = tt__rank_part_of(g, t->val, rank);
        bytes += own.count * tt_dtype_bytes(t->dtype);
        if (!tt_is(t->work))
            continue;
        const tt__rank_part work = tt__rank_part_of(g, t->work, rank);
        if (!tt__rank_part_equal(&own, &work))
            bytes += work.count * tt_dtype_bytes(t->dtype);
    }
    return bytes;
}

// As if this rank were on a host that has no such file.
static void limit_files(bool is_blind)
{
    struct rlimit limit;
    static rlim_t before;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (is_blind)
        before = limit.rlim_cur;
    limit.rlim_cur = is_blind ? 0 : before;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
}

static int64_t size_of(const tt_safetensors *file)
{
    struct stat info;
    CHECK(stat(tt_safetensors_path(file), &info) == 0);
    return info.st_size;
}

static void check_read(const task *t, const tt_job *job, tt_checkpoint *from,
                       const tt_slices_result *r)
{
    const bool is_first = tt_peers_is_first(&job->peers);
    CHECK(r->least_read <= r->bytes_read && r->bytes_read <= r->most_read);
    CHECK((r->hidden[0] != '\0') == (t->trouble == BLIND));
    if (t->trouble == NONE && is_first)
        CHECK(r->bytes == size_of(from->model) + size_of(from->optim));
    if (t->trouble == NONE)
        CHECK_MSG(r->bytes_read == needed(job, from), "rank %d: %lld of %lld",
                  job->peers.rank, (long long)r->bytes_read,
                  (long long)needed(job, from));
    if (is_first)
        t->out->read = *r;
}

static tt_status load(const task *t, tt_job *job)
{
    tt_checkpoint *mine = NULL; // all look, only rank 0 needs to
    tt_slices_result result;
    const bool is_first = tt_peers_is_first(&job->peers);
    const bool is_blind =
        t->trouble == BLIND && job->peers.rank == job->peers.size - 1;
    const tt_checkpoint_search search = {.leaves_data = true,
                                         .limit = INT64_MAX};
    TT_TRY(tt_checkpoint_read(t->folder, &search, NULL, &mine));
    const tt_restore from = {.model = is_first ? mine->model : NULL,
                             .optim = is_first ? mine->optim : NULL,
                             .name = "it"};
    if (is_blind)
        limit_files(true);
    const tt_status status =
        tt_tensors_restore(job->exec, &job->tensors, &from, &result);
    if (is_blind)
        limit_files(false);
    const bool is_bad = t->trouble == DAMAGED;
    CHECK((status == TT_OK) == !is_bad && result.is_damaged == is_bad);
    if (is_bad && is_first)
        CHECK_MSG(strstr(tt_error_message(), "its sum is wrong") != NULL, "%s",
                  tt_error_message());
    if (!is_bad)
        check_read(t, job, mine, &result);
    tt_checkpoint_close(mine);
    return TT_OK;
}

static tt_status save(const task *t, tt_job *job, tt_arena *arena)
{
    tt_snapshot s = {0};
    tt_checkpoints *store = NULL;
    TT_TRY(tt_snapshot_take(job->exec, &job->tensors, arena, &s));
    if (!tt_peers_is_first(&job->peers))
        return TT_OK;
    TT_TRY(tt_checkpoints_open(t->folder, &(tt_checkpoint_rules){.keep = 9},
                               &store));
    const tt_checkpoint_content content = {.step = t->step,
                                           .model = s.model,
                                           .optim = s.optim,
                                           .n_model = s.n_model,
                                           .n_optim = s.n_optim,
                                           .memory = s.memory};
    TT_TRY(tt_checkpoints_save(store, &content));
    TT_TRY(tt_checkpoints_wait(store));
    tt_checkpoints_close(store);
    return TT_OK;
}

static tt_status work(tt_job *job, tt_arena *arena, void *user)
{
    const task *t = user;
    tt_step_result last = {0};
    TT_TRY(tt_job_start(job, NULL));
    TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
    if (t->loads) // over other states than those that were saved
        TT_TRY(load(t, job));
    else
        TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
    if (t->trouble == DAMAGED)
        return TT_OK;
    TT_TRY(save(t, job, arena));
    job->step = 2;
    TT_TRY(tt_job_step(job, tt_job_feed_random, NULL, &last));
    if (tt_peers_is_first(&job->peers))
        t->out->loss = last.loss;
    return TT_OK;
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const task *t = user;
    TT_TRY(crew_be_rank(rank, t->family, t->layout->setting, work, user));
    __atomic_add_fetch(&t->out->n_good, 1, __ATOMIC_SEQ_CST);
    return TT_OK;
}

static void run(task *t)
{
    const tt_launch_options options = {.n_ranks = t->layout->ranks,
                                       .rank_bytes = INT64_C(1) << 28,
                                       .pin = false};
    t->out->n_good = 0;
    CHECK_OK(tt_launch(&options, be_rank, t));
    CHECK(t->out->n_good == t->layout->ranks);
}

static task make_task(const family *f)
{
    task t = {.family = f, .folder = "/tmp/tutti-slices-XXXXXX"};
    CHECK(mkdtemp(t.folder) != NULL);
    t.out = mmap(NULL, sizeof *t.out, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t.out != MAP_FAILED);
    return t;
}

// ---- pairs ---------------------------------------------------------------

static tt_str read_file(const char *folder, int64_t step, const char *name)
{
    char path[128];
    tt_str text = {0};
    snprintf(path, sizeof path, "%s/step-%08lld/%s", folder, (long long)step,
             name);
    CHECK_OK(tt_file_read(path, 64 << 20, &text));
    return text;
}

static void check_same(const char *folder, int64_t a, int64_t b)
{
    static const char *const name[] = {"model.safetensors",
                                       "optim.safetensors"};
    for (int i = 0; i < 2; i++) {
        tt_str x = read_file(folder, a, name[i]);
        tt_str y = read_file(folder, b, name[i]);
        CHECK_MSG(x.n == y.n && memcmp(x.text, y.text, (size_t)x.n) == 0,
                  "%s of steps %lld and %lld", name[i], (long long)a,
                  (long long)b);
        tt_str_fini(&x);
        tt_str_fini(&y);
    }
}

// The first layout trains and saves; each of the others loads that, saves it again
// and goes on with the same loss.
static void check_layouts(const char *name, const layout *v, int n)
{
    task t = make_task(family_named(name));
    t.step = 1;
    t.layout = &v[0];
    run(&t);
    const double loss = t.out->loss;
    for (int i = 1; i < n; i++) {
        t.loads = true;
        t.step = 1 + i;
        t.layout = &v[i];
        run(&t);
        check_same(t.folder, 1, t.step);
        CHECK_CLOSE(t.out->loss, loss, 1e-12);
    }
    CHECK_OK(tt_file_remove(t.folder));
}

TEST_SLOW(slices_of_a_gpt_go_from_any_layout_to_any, 120)
{
    static const layout v[] = {
        {4, {"precision=fp64", "batch=4", "mesh.tensor=2", "zero=3", NULL}},
        {1, {"precision=fp64", "batch=4", NULL}},
        {3, {"precision=fp64", "batch=4", "mesh.tensor=3", NULL}},
        {4, {"precision=fp64", "batch=4", "mesh.context=2", "zero=1", NULL}},
        {2, {"precision=fp64", "batch=4", "zero=2", NULL}},
    };
    check_layouts("gpt", v, 5);
}

TEST_SLOW(slices_of_a_resnet_go_from_any_layout_to_any, 120)
{
    static const layout v[] = {
        {2, {"precision=fp64", "batch=4", "mesh.space=2", NULL}},
        {2,
         {"precision=fp64", "batch=4", "mesh.tensor=2", "layout.filters=tensor",
          NULL}},
        {3, {"precision=fp64", "batch=4", "zero=3", NULL}},
    };
    check_layouts("resnet", v, 3);
}

// Master weights in parts beside whole copies in the compute precision: both are
// read. Averages too.
TEST_SLOW(slices_in_bf16_serve_weights_and_their_copies, 120)
{
    static const layout v[] = {
        {3, {"precision=bf16", "batch=4", "zero=1", "train.ema=0.5", NULL}},
        {2, {"precision=bf16", "batch=4", "zero=3", "train.ema=0.5", NULL}},
        {3, {"precision=bf16", "batch=4", "zero=1", "train.ema=0.5", NULL}},
    };
    task t = make_task(family_named("llama"));
    for (int i = 0; i < 3; i++) {
        t.loads = i > 0;
        t.step = 1 + i;
        t.layout = &v[i];
        run(&t);
        check_same(t.folder, 1, t.step);
    }
    CHECK_OK(tt_file_remove(t.folder));
}

// ---- trouble -------------------------------------------------------------

static const layout parts = {
    3, {"precision=fp64", "batch=4", "mesh.tensor=3", NULL}};

TEST_SLOW(slices_come_from_rank_0_where_one_sees_no_file, 120)
{
    task t = make_task(family_named("gpt"));
    t.step = 1;
    t.layout = &parts;
    run(&t);
    const double loss = t.out->loss;
    t.loads = true;
    t.step = 2;
    t.trouble = BLIND;
    run(&t);
    check_same(t.folder, 1, 2);
    CHECK(t.out->loss == loss);
    CHECK_MSG(strncmp(t.out->read.hidden, "rank 2: /", 9) == 0 &&
                  strstr(t.out->read.hidden, strerror(EMFILE)) != NULL,
              "%s", t.out->read.hidden);
    CHECK(t.out->read.most_read >= t.out->read.bytes);
    CHECK_OK(tt_file_remove(t.folder));
}

static int open_file(const task *t, const char *name, int64_t *bytes_out)
{
    char path[128];
    snprintf(path, sizeof path, "%s/step-00000001/%s", t->folder, name);
    const int fd = open(path, O_RDWR);
    CHECK(fd >= 0);
    *bytes_out = lseek(fd, 0, SEEK_END);
    return fd;
}

// A changed byte is found whoever holds it.
TEST_SLOW(slices_that_are_damaged_are_found, 120)
{
    static const char *const name[] = {"model.safetensors",
                                       "optim.safetensors"};
    task t = make_task(family_named("gpt"));
    t.step = 1;
    t.layout = &parts;
    run(&t);
    t.loads = true;
    t.trouble = DAMAGED;
    for (int k = 0; k < 4; k++) {
        int64_t bytes = 0;
        char byte = 0;
        const int fd = open_file(&t, name[k % 2], &bytes);
        const int64_t at = bytes - 1 - k * (bytes / 7);
        CHECK(pread(fd, &byte, 1, at) == 1);
        byte ^= 4;
        CHECK(pwrite(fd, &byte, 1, at) == 1);
        run(&t);
        byte ^= 4;
        CHECK(pwrite(fd, &byte, 1, at) == 1 && close(fd) == 0);
    }
    t.trouble = NONE;
    t.step = 2;
    run(&t);
    check_same(t.folder, 1, 2);
    CHECK_OK(tt_file_remove(t.folder));
}

// ---- stages --------------------------------------------------------------

TEST_SLOW(slices_of_a_gpt_go_from_any_stages_to_any, 180)
{
    static const layout v[] = {
        {2, {"precision=fp64", "batch=4", "mesh.pipe=2", NULL}},
        {1, {"precision=fp64", "batch=4", NULL}},
        {4, {"precision=fp64", "batch=4", "mesh.pipe=4", NULL}},
        {4, {"precision=fp64", "batch=4", "mesh.pipe=2", "zero=3", NULL}},
        {4, {"precision=fp64", "batch=4", "mesh.pipe=2", "zero=1", NULL}},
        {4,
         {"precision=fp64", "batch=4", "mesh.pipe=2", "mesh.tensor=2", NULL}},
        {2, {"precision=fp64", "batch=4", "zero=2", NULL}},
        {3, {"precision=fp64", "batch=4", "mesh.pipe=3", NULL}},
    };
    check_layouts("gpt", v, 8);
}
