// Work that a device records and replays: a backend on the host's memory that notes
// kernels instead of running them while it records.

#include "backend/ref/table.h"
#include "base/alloc.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "ops/comm/exchange_points.h"
#include "ops/ops.h"
#include "ops/shape/move.h"
#include "test.h"

#include <math.h>
#include <string.h>

enum { MOST = 512 };

typedef struct note {
    tt_kernel_run_fn *run;
    void *state;
    const tt_site *site;
    tt_args args;
} note;

typedef struct recording {
    int n;
    note note[MOST];
} recording;

static struct device {
    recording *now; // that is made
    int n_recorded, n_replayed, n_live;
    int n_run;         // kernels, replayed ones too
    bool refuses;      // recordings come to nothing
    const char *stops; // an operator that cannot be recorded
} device;

static tt_kernel_def kernel[257];
static const tt_kernel_def *const kernels[] = {kernel, NULL};

static const tt_kernel_def *plain_kernel(const tt_op_def *op)
{
    for (int i = 0; tt_ref_kernels[i] != NULL; i++)
        for (const tt_kernel_def *k = tt_ref_kernels[i]; k->name != NULL; k++)
            if (k->op == op)
                return k;
    return NULL;
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    const note n = {plain_kernel(site->op)->run, state, site, *args};
    if (device.now == NULL) {
        device.n_run++;
        return n.run(state, site, args);
    }
    if (device.stops != NULL && strcmp(site->op->name, device.stops) == 0)
        return tt_fail(TT_ERR_IO, "cannot be recorded");
    CHECK(device.now->n < MOST);
    device.now->note[device.now->n++] = n;
    return TT_OK;
}

// All kernels, or all but those of one operator, which then work on copies.
static void make_kernels(const char *without)
{
    int n = 0;
    for (int i = 0; tt_ref_kernels[i] != NULL; i++)
        for (const tt_kernel_def *k = tt_ref_kernels[i]; k->name != NULL; k++) {
            if (without != NULL && strcmp(k->op->name, without) == 0)
                continue;
            CHECK(n < 256);
            kernel[n] = *k;
            kernel[n++].run = run;
        }
    kernel[n] = (tt_kernel_def){0};
}

static tt_status alloc_block(tt_backend *backend, int64_t bytes, void **out)
{
    (void)backend;
    *out = tt_alloc_aligned(bytes, 64);
    return *out != NULL ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory");
}

static void free_block(tt_backend *backend, void *block)
{
    (void)backend;
    tt_free_aligned(block);
}

static tt_status fill(tt_backend *backend, void *to, int byte, int64_t bytes)
{
    (void)backend;
    memset(to, byte, (size_t)bytes);
    return TT_OK;
}

static tt_status copy(tt_backend *backend, void *to, const void *from,
                      int64_t bytes)
{
    (void)backend;
    CHECK(device.now == NULL);
    memcpy(to, from, (size_t)bytes);
    return TT_OK;
}

static tt_status wait_all(tt_backend *backend)
{
    (void)backend;
    CHECK(device.now == NULL);
    return TT_OK;
}

static tt_status record(tt_backend *backend)
{
    (void)backend;
    CHECK(device.now == NULL);
    device.now = tt_alloc(sizeof *device.now);
    CHECK(device.now != NULL);
    return TT_OK;
}

static void forget(tt_backend *backend, void *made)
{
    (void)backend;
    device.n_live -= made != NULL;
    tt_free(made);
}

static tt_status recorded(tt_backend *backend, bool keep, void **out)
{
    recording *made = device.now;
    device.now = NULL;
    *out = NULL;
    device.n_recorded++;
    device.n_live++;
    if (keep && !device.refuses)
        *out = made;
    else
        forget(backend, made);
    return TT_OK;
}

static tt_status replay(tt_backend *backend, void *made)
{
    const recording *r = made;
    (void)backend;
    CHECK(device.now == NULL);
    device.n_replayed++;
    for (int i = 0; i < r->n; i++, device.n_run++) {
        const note *n = &r->note[i];
        TT_TRY(n->run(n->state, n->site, &n->args));
    }
    return TT_OK;
}

static const tt_memory_def memory = {
    .alloc = alloc_block,
    .free = free_block,
    .fill = fill,
    .write = copy,
    .read = copy,
    .wait = wait_all,
    .record = record,
    .recorded = recorded,
    .replay = replay,
    .forget = forget,
};

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

static const tt_backend_def repeating = {
    .name = "repeating",
    .doc = "Records and replays.",
    .kernels = kernels,
    .memory = &memory,
    .has_dtype = has_dtype,
};

typedef struct outcome {
    double loss, w1[24], w2[16], bias[4];
    tt_exec_stats stats;
} outcome;

// Some steps of three micro-batches, watched or not.
static outcome train_as(const tt_backend_def *def, bool launch,
                        const tt_exec_options *options,
                        const tt_lower_options *lower)
{
    world w;
    outcome o;
    memset(&o, 0, sizeof o);
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, def, lower);
    tt_exec_destroy(w.exec);
    w.backend->options.launch = launch;
    CHECK_OK(tt_exec_create(w.plan, w.backend, options, &w.exec));
    CHECK_OK(tt_exec_init_state(w.exec, 1));
    device.n_recorded = device.n_replayed = device.n_run = 0;
    for (int i = 0; i < 4; i++)
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    o.loss = world_scalar(&w, "loss");
    world_read(&w, "w1", o.w1);
    world_read(&w, "w2", o.w2);
    world_read(&w, "bias", o.bias);
    tt_exec_stats_get(w.exec, &o.stats);
    world_fini(&w);
    CHECK(device.n_live == 0);
    return o;
}

static outcome train(const tt_backend_def *def, bool launch,
                     const tt_exec_options *options)
{
    return train_as(def, launch, options, &(tt_lower_options){.n_micro = 3});
}

// Six steps, of which the last two are marked or not.
static double loss_after(bool is_marked, int *n_replayed_out)
{
    world w;
    world_init(&w);
    world_build_mlp(&w.b, 4);
    world_open(&w, &repeating, &(tt_lower_options){.n_micro = 3});
    tt_exec_destroy(w.exec);
    CHECK_OK(tt_exec_create(w.plan, w.backend, NULL, &w.exec));
    CHECK_OK(tt_exec_init_state(w.exec, 1));
    device.n_replayed = 0;
    for (int i = 0; i < 6; i++) {
        if (i == 4 && is_marked) {
            *n_replayed_out = device.n_replayed;
            CHECK_OK(tt_exec_mark(w.exec));
            CHECK_OK(tt_exec_mark(w.exec)); // is already
            CHECK(device.n_live == 0);
        }
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
    }
    const double loss = world_scalar(&w, "loss");
    world_fini(&w);
    return loss;
}

static bool is_same(const outcome *a, const outcome *b)
{
    return memcmp(a, b, offsetof(outcome, stats)) == 0;
}

TEST(replayed_steps_give_the_same_bits)
{
    const tt_exec_options plain = {0};
    make_kernels(NULL);
    const outcome here = train(NULL, false, &plain);
    const outcome o = train(&repeating, false, &plain);
    CHECK(is_same(&here, &o) && here.loss > 0);
    CHECK(device.n_recorded > 0 && device.n_replayed > device.n_recorded);
    CHECK(device.n_run == o.stats.n_steps);
    CHECK(o.stats.n_replayed > o.stats.n_steps / 2);
    CHECK(o.stats.n_steps == here.stats.n_steps && here.stats.n_replayed == 0);
    CHECK_CLOSE(o.stats.flops, here.stats.flops, 1e-12);
}

// Three micro-batches in flight, and two: a recording has the addresses of one slot.
TEST(replayed_steps_of_every_slot_give_the_same_bits)
{
    static const tt_lower_row all[] = {
        {TT_FORWARD, 0, 0},  {TT_FORWARD, 0, 1},  {TT_FORWARD, 0, 2},
        {TT_BACKWARD, 0, 0}, {TT_BACKWARD, 0, 1}, {TT_BACKWARD, 0, 2}};
    static const tt_lower_row two[] = {
        {TT_FORWARD, 0, 0}, {TT_FORWARD, 0, 1},  {TT_BACKWARD, 0, 0},
        {TT_FORWARD, 0, 2}, {TT_BACKWARD, 0, 1}, {TT_BACKWARD, 0, 2}};
    static const tt_lower_row *const order[] = {all, two};
    const tt_exec_options plain = {0};
    make_kernels(NULL);
    const outcome here = train(NULL, false, &plain);
    (void)train(&repeating, false, &plain);
    const int one_slot = device.n_recorded;
    for (int i = 0; i < 2; i++) {
        const tt_lower_options lower = {
            .n_micro = 3, .row = order[i], .n_rows = 6};
        const outcome o = train_as(&repeating, false, &plain, &lower);
        CHECK(is_same(&here, &o));
        CHECK(device.n_recorded > one_slot && device.n_replayed > 0);
        CHECK(device.n_run == o.stats.n_steps && o.stats.n_replayed > 0);
    }
}

TEST(steps_that_are_looked_at_are_not_replayed)
{
    const tt_exec_options options[] = {
        {.trace = true}, {.check_finite = true}, {.wait = true}};
    make_kernels(NULL);
    for (int i = 0; i < 4; i++) {
        (void)train(&repeating, i == 3, i < 3 ? &options[i] : NULL);
        CHECK(device.n_recorded == 0 && device.n_replayed == 0);
    }
}

TEST(marked_steps_go_on_where_replayed_ones_were)
{
    int n_replayed = 0;
    make_kernels(NULL);
    const double replayed = loss_after(false, NULL);
    const double marked = loss_after(true, &n_replayed);
    CHECK(replayed == marked);
    CHECK(n_replayed > 0 && device.n_replayed == n_replayed);
}

typedef struct beginnings {
    float weight[24], zero[24], half[24], minus[24];
    uint16_t copy[24];
} beginnings;

// Random numbers, the same in 16 bits, and constants.
static void build_states(tt_builder *b)
{
    const tt_init normal = {.kind = TT_INIT_NORMAL, .a = 0.5, .of = TT_NONE};
    tt_init constant = {.kind = TT_INIT_CONST, .of = TT_NONE};
    const char *const name[] = {"zero", "half", "minus"};
    const double value[] = {0, 0.5, -0.0};
    tt_shape shape = {0};
    CHECK_OK(tt_shape_push(&shape, "n", 24));
    const tt_val w =
        tt_state(b, TT_ROLE_PARAM, "weight", TT_F32, &shape, normal);
    const tt_init same = {.kind = TT_INIT_COPY, .of = w};
    const tt_val copy =
        tt_state(b, TT_ROLE_OPTIM, "copy", TT_BF16, &shape, same);
    b->phase = TT_UPDATE;
    tt_val sum = tt_add(b, w, tt_cast(b, copy, TT_F32));
    for (int i = 0; i < 3; i++) {
        constant.a = value[i];
        const tt_val v =
            tt_state(b, TT_ROLE_OPTIM, name[i], TT_F32, &shape, constant);
        sum = tt_add(b, sum, v);
    }
    tt_update(b, w, tt_agree(b, sum));
    CHECK_OK(tt_builder_status(b));
}

static beginnings begin(const tt_backend_def *def)
{
    beginnings s;
    world w;
    memset(&s, 0, sizeof s);
    world_init(&w);
    build_states(&w.b);
    world_open(&w, def, NULL);
    CHECK_OK(tt_exec_read(w.exec, world_find(&w, "weight"), s.weight));
    CHECK_OK(tt_exec_read(w.exec, world_find(&w, "copy"), s.copy));
    CHECK_OK(tt_exec_read(w.exec, world_find(&w, "zero"), s.zero));
    CHECK_OK(tt_exec_read(w.exec, world_find(&w, "half"), s.half));
    CHECK_OK(tt_exec_read(w.exec, world_find(&w, "minus"), s.minus));
    world_fini(&w);
    return s;
}

TEST(states_of_a_device_begin_as_those_of_the_host)
{
    make_kernels(NULL);
    const beginnings here = begin(NULL), there = begin(&repeating);
    CHECK(memcmp(&here, &there, sizeof here) == 0);
    for (int i = 0; i < 24; i++) {
        uint16_t rounded;
        tt_dtype_store(TT_BF16, &rounded, 0, (double)here.weight[i]);
        CHECK(here.weight[i] != 0 && here.copy[i] == rounded);
        CHECK(here.half[i] == 0.5f);
        CHECK(here.zero[i] == 0 && !signbit(here.zero[i]));
        CHECK(here.minus[i] == 0 && signbit(here.minus[i]));
    }
}

TEST(what_cannot_be_recorded_is_launched)
{
    const tt_exec_options plain = {0};
    make_kernels(NULL);
    const outcome here = train(NULL, false, &plain);
    device.refuses = true;
    const outcome refused = train(&repeating, false, &plain);
    device.refuses = false;
    CHECK(is_same(&here, &refused));
    CHECK(device.n_recorded > 0 && device.n_replayed == 0);
    CHECK(refused.stats.n_steps == here.stats.n_steps);

    device.stops = "tanh";
    const outcome stopped = train(&repeating, false, &plain);
    device.stops = NULL;
    CHECK(is_same(&here, &stopped));
    CHECK(device.n_replayed > 0); // where there is none
    CHECK(device.n_run == stopped.stats.n_steps);
}

TEST(steps_on_copies_are_between_replayed_pieces)
{
    const tt_exec_options plain = {0};
    make_kernels(NULL);
    const outcome here = train(NULL, false, &plain);
    (void)train(&repeating, false, &plain);
    const int whole = device.n_recorded;
    make_kernels("mul");
    const outcome o = train(&repeating, false, &plain);
    CHECK(is_same(&here, &o));
    CHECK(device.n_recorded > whole);
    CHECK(o.stats.n_replayed > 0 && o.stats.n_steps == here.stats.n_steps);
}
