// States on their way to the host: a backend whose memory is the host's and whose
// drain copies as late as it may, when somebody waits or steps are held.

#include "backend/ref/table.h"
#include "base/alloc.h"
#include "exec/world.h"
#include "ops/arith.h"
#include "test.h"

#include <string.h>

enum { MOST = 16 };

static struct device {
    int n, n_in_steps, n_held;
    struct {
        void *host;
        const void *from;
        int64_t bytes;
    } queued[MOST];
} device;

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
    memcpy(to, from, (size_t)bytes);
    return TT_OK;
}

static tt_status nothing(tt_backend *backend)
{
    (void)backend;
    return TT_OK;
}

static tt_status drain_copy(tt_backend *backend, void *host, const void *from,
                            int64_t bytes, bool in_steps)
{
    if (in_steps) {
        device.n_in_steps++;
        return copy(backend, host, from, bytes);
    }
    CHECK(device.n < MOST);
    device.queued[device.n].host = host;
    device.queued[device.n].from = from;
    device.queued[device.n++].bytes = bytes;
    return TT_OK;
}

static tt_status drain_wait(tt_backend *backend)
{
    for (int i = 0; i < device.n; i++)
        (void)copy(backend, device.queued[i].host, device.queued[i].from,
                   device.queued[i].bytes);
    device.n = 0;
    return TT_OK;
}

static tt_status drain_hold(tt_backend *backend)
{
    device.n_held++;
    return drain_wait(backend);
}

static const tt_memory_def memory = {.alloc = alloc_block,
                                     .free = free_block,
                                     .fill = fill,
                                     .write = copy,
                                     .read = copy,
                                     .copy = copy,
                                     .wait = nothing};
static const tt_drain_def drain = {.begin = nothing,
                                   .copy = drain_copy,
                                   .end = nothing,
                                   .hold = drain_hold,
                                   .wait = drain_wait};

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

static const tt_backend_def drained = {.name = "drained",
                                       .doc = "Has a drain.",
                                       .kernels = tt_ref_kernels,
                                       .memory = &memory,
                                       .drain = &drain,
                                       .has_dtype = has_dtype};

// An MLP, and a state that the forward pass writes.
static void open_mlp(world *w, const tt_backend_def *def)
{
    device = (struct device){0};
    world_init(w);
    const tt_shape one = {.ndim = 0};
    const tt_val seen = tt_state(&w->b, TT_ROLE_BUFFER, "seen", TT_F64, &one,
                                 (tt_init){.kind = TT_INIT_CONST, .a = 1});
    tt_update(&w->b, seen, tt_scale(&w->b, seen, 2));
    world_build_mlp(&w->b, 4);
    world_open(w, def, &(tt_lower_options){.n_micro = 3});
    CHECK_OK(tt_exec_run(w->exec, world_feed_rows, w));
}

typedef struct states {
    double w1[24], w2[16], seen;
} states;

static states read_all(world *w)
{
    states s;
    world_read(w, "w1", s.w1);
    world_read(w, "w2", s.w2);
    world_read(w, "seen", &s.seen);
    return s;
}

static void begin(world *w, states *to)
{
    CHECK_OK(tt_exec_drain_begin(w->exec));
    CHECK_OK(tt_exec_drain(w->exec, world_find(w, "w1"), to->w1));
    CHECK_OK(tt_exec_drain(w->exec, world_find(w, "w2"), to->w2));
    CHECK_OK(tt_exec_drain(w->exec, world_find(w, "seen"), &to->seen));
    CHECK_OK(tt_exec_drain_end(w->exec));
}

static const tt_backend_def *const defs[] = {NULL, &drained};

TEST(drained_states_are_those_of_their_moment)
{
    for (int i = 0; i < 2; i++) {
        world w;
        states got = {{0}};
        open_mlp(&w, defs[i]);
        const states then = read_all(&w);
        begin(&w, &got);
        CHECK(device.n == (i == 0 ? 0 : 2));
        CHECK(device.n_in_steps ==
              (i == 0 ? 0 : 1)); // the next forward writes it
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        CHECK(device.n_held == (i == 0 ? 0 : 1));
        CHECK_OK(tt_exec_drain_wait(w.exec));
        CHECK(memcmp(&got, &then, sizeof got) == 0);
        const states now = read_all(&w);
        CHECK(memcmp(&now, &then, sizeof now) != 0 && now.seen != then.seen);
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        CHECK(device.n_held == (i == 0 ? 0 : 1)); // held once
        world_fini(&w);
    }
}

// Whoever else writes a state waits for the drain; inputs do not.
TEST(drained_states_are_not_overwritten_from_the_host)
{
    world w;
    states got = {{0}};
    double other[24] = {0}, rows[12] = {0};
    open_mlp(&w, &drained);
    const states then = read_all(&w);
    begin(&w, &got);
    CHECK_OK(tt_exec_write(w.exec, world_find(&w, "x"), rows));
    CHECK(device.n_held == 0);
    CHECK_OK(tt_exec_write(w.exec, world_find(&w, "w1"), other));
    CHECK(device.n_held == 1);
    CHECK_OK(tt_exec_drain_wait(w.exec));
    CHECK(memcmp(&got, &then, sizeof got) == 0);
    CHECK_OK(tt_exec_save_value(w.exec, world_find(&w, "w2")));
    begin(&w, &got);
    CHECK_OK(tt_exec_restore_value(w.exec, world_find(&w, "w2")));
    CHECK(device.n_held == 2);
    world_fini(&w);
}
