// What verify says when something is wrong: an operator that computes otherwise on
// one rank, an operator whose signature is wrong, copies that differ.

#include "backend/kernel.h"
#include "base/alloc.h"
#include "base/file.h"
#include "comm/launch.h"
#include "graph/build.h"
#include "model/model.h"
#include "model/nn.h"
#include "ops/cost.h"
#include "ops/infer_common.h"
#include "ops/ops.h"
#include "ops/shard_common.h"
#include "test.h"
#include "verify/verify_parts.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

// ---- an operator that does nothing, or something wrong -------------------

typedef enum fault { NONE, RANK_1, LOCAL_MEAN } fault;

static fault planted; // set before ranks begin
static int32_t my_rank;

static tt_status infer_same(tt_op_io *io)
{
    return tt_infer_elementwise(io, "fault", 1);
}

static void shard_same(const tt_op_io *io, int axis_size, tt_sigs *sigs)
{
    tt_shard_elementwise(io, axis_size, sigs);
}

static void cost_same(const tt_op_io *io, int axis_size, tt_cost *cost_out)
{
    (void)axis_size;
    tt_cost_elementwise(io, 0, 1, cost_out);
}

static tt_status copy(const tt_site *site, const tt_args *args, double by)
{
    const int64_t n = tt_operand_count(&site->in[0]);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(site->out[0].dtype, args->out[0], i,
                       by * tt_dtype_load(site->in[0].dtype, args->in[0], i));
    return TT_OK;
}

static tt_status run_forward(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    return copy(site, args, 1);
}

// One rank is wrong by a millionth (in low precisions by all of it); or the result
// depends on how many samples there are, which the signature denies.
static tt_status run_backward(void *state, const tt_site *site,
                              const tt_args *args)
{
    (void)state;
    const bool is_low = site->in[0].dtype == TT_BF16;
    if (planted == RANK_1 && my_rank == 1)
        return copy(site, args, is_low ? 2 : 1 + 1e-6);
    if (planted == LOCAL_MEAN)
        return copy(site, args, 1.0 / (double)tt_operand_dim(&site->in[0], 0));
    return copy(site, args, 1);
}

static const tt_op_def op_forward, op_backward;

static const tt_kernel_def kernel_forward = {
    .name = "test.fault", .op = &op_forward, .run = run_forward};
static const tt_kernel_def kernel_backward = {
    .name = "test.fault_grad", .op = &op_backward, .run = run_backward};

static tt_status grad(tt_builder *b, const tt_node *node, const tt_val *dout,
                      const bool *need, tt_val *din)
{
    (void)node;
    if (need[0])
        din[0] = tt_call(b, &op_backward, NULL, &dout[0], 1, NULL);
    return tt_builder_status(b);
}

static const tt_op_def op_forward = {.name = "fault",
                                     .doc = "Nothing.",
                                     .infer = infer_same,
                                     .grad = grad,
                                     .shard = shard_same,
                                     .cost = cost_same,
                                     .kernel = &kernel_forward};
static const tt_op_def op_backward = {.name = "fault_grad",
                                      .doc = "Nothing, or something wrong.",
                                      .infer = infer_same,
                                      .shard = shard_same,
                                      .cost = cost_same,
                                      .kernel = &kernel_backward};

static tt_val dense(tt_builder *b, tt_val x, const char *name, const char *out)
{
    char in[64];
    snprintf(in, sizeof in, "in:%lld", (long long)tt_dim_of(b, x, 1));
    const tt_dense d = {.name = name,
                        .in = in,
                        .out = out,
                        .is_transposed = true,
                        .has_bias = true,
                        .init = tt_init_fan_in(8),
                        .bias_init = tt_init_fan_in(8)};
    return tt_nn_dense(b, x, &d);
}

static tt_status build(tt_builder *b, const void *params, tt_model_io *io)
{
    (void)params;
    io->image = 4;
    tt_val x =
        tt_nn_flatten(b, tt_nn_pixels(b, io->batch, 1, io->image, &io->labels));
    x = dense(b, x, "below", "ff:12");
    x = tt_call(b, &op_forward, NULL, &x, 1, NULL);
    io->logits = dense(b, x, "above", "classes:10");
    return tt_builder_status(b);
}

static const tt_model_def model = {.name = "faulty",
                                   .doc = "Two layers.",
                                   .task = TT_TASK_IMAGES,
                                   .build = build};

// ---- ranks ---------------------------------------------------------------

typedef struct task {
    const char *setting[8];
    int32_t ranks;
    bool only_copies; // no verify: see copies_differ
    struct {
        tt_verify_result result;
        char culprit[64], op[64];
        bool is_done;
    } * out;
} task;

static tt_job *configure(const task *t, const tt_peers *peers, tt_arena *arena,
                         const char *more)
{
    tt_settings settings = {0};
    tt_job *job = NULL;
    for (const char *const *s = t->setting; *s != NULL; s++)
        if (peers->size > 1 || strncmp(*s, "mesh", 4) != 0)
            CHECK_OK(tt_settings_assign(&settings, *s, "test", arena));
    if (more != NULL)
        CHECK_OK(tt_settings_assign(&settings, more, "test", arena));
    CHECK_OK(tt_job_configure_peers(&settings, NULL, peers, &job));
    return job;
}

static void verify(const task *t, const tt_peers *peers, tt_arena *arena)
{
    const tt_peers alone = {.size = 1, .cores = 1};
    char folder[] = "/tmp/tutti-faults-XXXXXX";
    const bool is_first = tt_peers_is_first(peers);
    tt_verify_result r;
    tt_verify_request request = {.many = configure(t, peers, arena, NULL),
                                 .folder = folder,
                                 .arena = arena};
    if (is_first) {
        CHECK(mkdtemp(folder) != NULL);
        request.one = configure(t, &alone, arena, NULL);
        if (request.many->options.precision == TT_PRECISION_BF16)
            request.low = configure(t, &alone, arena, "precision=fp32");
    }
    CHECK_OK(tt_verify(&request, &r));
    if (is_first) {
        t->out->result = r;
        snprintf(t->out->culprit, sizeof t->out->culprit, "%s",
                 r.culprit != NULL ? r.culprit : "");
        snprintf(t->out->op, sizeof t->out->op, "%s",
                 r.culprit != NULL ? r.op : "");
        t->out->is_done = true;
        CHECK_OK(tt_file_remove(folder));
    }
    tt_job_close(request.many);
    tt_job_close(request.one);
    tt_job_close(request.low);
}

// Rank 1 has another weight than rank 0, where both should have the same.
static void copies_differ(const task *t, const tt_peers *peers, tt_arena *arena)
{
    tt__taken before, after;
    tt_job *job = configure(t, peers, arena, NULL);
    CHECK_OK(tt_job_start(job, NULL));
    CHECK_OK(tt__verify_take(job, arena, &before));
    CHECK(before.n_copies == 0);
    const tt_tensor *w = tt_tensors_find(&job->tensors, "above.bias");
    double data[10];
    CHECK_OK(tt_exec_read(job->exec, w->val, data));
    data[7] += 1e-3;
    if (peers->rank == 1)
        CHECK_OK(tt_exec_write(job->exec, w->val, data));
    CHECK_OK(tt__verify_take(job, arena, &after));
    if (tt_peers_is_first(peers)) {
        CHECK(after.n_copies == 1 && after.copy[0].rank == 1);
        CHECK(after.copy[0].data[7] == data[7]);
        const tt__distance d = tt__verify_compare(&after, &before, 1e-9);
        CHECK(d.first >= 0 && d.copy == &after.copy[0]);
        CHECK(strcmp(after.tensor[d.first].name, "above.bias") == 0);
        CHECK(tt__verify_compare(&before, &before, 0).first == -1);
        CHECK(!tt__verify_equal(&after, &before));
        CHECK(tt__verify_equal(&before, &before));
        t->out->is_done = true;
    }
    tt_job_close(job);
}

static tt_status be_rank(const tt_launch_rank *rank, void *user)
{
    const task *t = user;
    tt_peers peers = {.rank = rank->rank,
                      .size = rank->n_ranks,
                      .on_host = rank->n_ranks,
                      .cores = 1};
    tt_arena *arena = tt_arena_create();
    my_rank = rank->rank;
    TT_TRY(tt_shm_open(rank->world, rank->rank, rank->deadline, &peers.comm));
    TT_TRY(tt_comm_wire_open(peers.comm, &(tt_wire_options){0}, &peers.wire));
    if (t->only_copies)
        copies_differ(t, &peers, arena);
    else
        verify(t, &peers, arena);
    tt_arena_destroy(arena);
    tt_comm_wire_close(peers.wire);
    tt_comm_close(peers.comm);
    return TT_OK;
}

static void run(task *t)
{
    static bool is_known;
    const tt_launch_options options = {
        .n_ranks = t->ranks, .rank_bytes = INT64_C(1) << 28, .pin = false};
    if (!is_known) {
        CHECK_OK(tt_op_register(&op_forward));
        CHECK_OK(tt_op_register(&op_backward));
        CHECK_OK(tt_model_register(&model));
    }
    is_known = true;
    t->out = mmap(NULL, sizeof *t->out, PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(t->out != MAP_FAILED);
    CHECK_OK(tt_launch(&options, be_rank, t));
    CHECK(t->out->is_done);
}

static void check_good(const tt_verify_result *r)
{
    CHECK(r->ok && r->checkpoint_ok && r->culprit == NULL);
}

// The fault is in a gradient on its way down, and in nothing above it.
static void check_blames(const task *t, int32_t rank)
{
    const tt_verify_result *r = &t->out->result;
    CHECK(!r->ok && r->checkpoint_ok && r->culprit != NULL);
    CHECK_MSG(strncmp(t->out->culprit, "below.", 6) == 0, "%s",
              t->out->culprit);
    CHECK_MSG(strcmp(t->out->op, "bias_grad") == 0, "%s", t->out->op);
    CHECK_MSG(r->rank == rank, "rank %d", r->rank);
}

TEST_SLOW(verify_names_tensor_operator_and_rank, 120)
{
    task t = {{"model=faulty", "batch=6", "precision=fp64", "mesh.tensor=2",
               "optim=sgd"},
              2};
    planted = NONE;
    run(&t);
    check_good(&t.out->result);
    planted = RANK_1;
    run(&t);
    check_blames(&t, 1); // it alone holds that half
    CHECK(!t.out->result.has_copies);
}

TEST_SLOW(verify_finds_a_signature_that_is_wrong, 120)
{
    task t = {{"model=faulty", "batch=6", "precision=fp64", "optim=sgd"}, 3};
    planted = LOCAL_MEAN;
    run(&t);
    check_blames(&t, 0);
    CHECK(t.out->result.has_copies);
}

TEST_SLOW(verify_finds_faults_in_bf16, 120)
{
    task t = {{"model=faulty", "batch=6", "precision=bf16", "mesh.tensor=2",
               "optim=sgd"},
              2};
    planted = NONE;
    run(&t);
    check_good(&t.out->result);
    CHECK(t.out->result.low_ratio <= 1.5 && t.out->result.low_each <= 4);
    planted = RANK_1;
    run(&t);
    check_blames(&t, 1);
    CHECK(t.out->result.low_each > 4);
}

TEST_SLOW(verify_looks_at_the_copies_of_all_ranks, 120)
{
    task t = {{"model=faulty", "batch=6", "precision=fp64"}, 2, true, NULL};
    planted = NONE;
    run(&t);
}
