// Inputs on their way to a device, and states that are kept on it: a backend whose
// memory is the host's, with lanes that lose what is taken too early or twice.

#include "backend/ref/table.h"
#include "base/alloc.h"
#include "exec/world.h"
#include "test.h"

#include <string.h>

typedef struct lane {
    int64_t bytes;
    bool is_sent;
    char *host, *device;
} lane;

static struct device {
    bool has_no_memory;
    int n_open;
    int64_t n_copied;
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

static tt_status copy_beside(tt_backend *backend, void *to, const void *from,
                             int64_t bytes)
{
    device.n_copied += bytes;
    return copy(backend, to, from, bytes);
}

static tt_status wait_all(tt_backend *backend)
{
    (void)backend;
    return TT_OK;
}

static tt_status lane_open(tt_backend *backend, int64_t bytes, void **out)
{
    (void)backend;
    *out = NULL;
    if (device.has_no_memory)
        return TT_OK;
    lane *l = tt_alloc(sizeof *l);
    CHECK(l != NULL);
    *l = (lane){
        .bytes = bytes, .host = tt_alloc(bytes), .device = tt_alloc(bytes)};
    CHECK(l->host != NULL && l->device != NULL);
    device.n_open++;
    *out = l;
    return TT_OK;
}

static void lane_close(tt_backend *backend, void *state)
{
    lane *l = state;
    (void)backend;
    if (l == NULL)
        return;
    tt_free(l->host);
    tt_free(l->device);
    tt_free(l);
    device.n_open--;
}

static tt_status lane_room(tt_backend *backend, void *state, void **host_out)
{
    (void)backend;
    *host_out = ((lane *)state)->host;
    return TT_OK;
}

static tt_status lane_send(tt_backend *backend, void *state, int64_t bytes)
{
    lane *l = state;
    (void)backend;
    CHECK(bytes == l->bytes);
    memcpy(l->device, l->host, (size_t)bytes);
    memset(l->host, 0xff, (size_t)bytes);
    l->is_sent = true;
    return TT_OK;
}

static tt_status lane_take(tt_backend *backend, void *state, void *to,
                           int64_t bytes)
{
    lane *l = state;
    (void)backend;
    CHECK(bytes == l->bytes && l->is_sent);
    memcpy(to, l->device, (size_t)bytes);
    l->is_sent = false;
    return TT_OK;
}

static const tt_memory_def memory = {.alloc = alloc_block,
                                     .free = free_block,
                                     .fill = fill,
                                     .write = copy,
                                     .read = copy,
                                     .copy = copy_beside,
                                     .wait = wait_all};
static const tt_lane_def lanes = {.open = lane_open,
                                  .close = lane_close,
                                  .room = lane_room,
                                  .send = lane_send,
                                  .take = lane_take};

static bool has_dtype(tt_dtype dtype)
{
    return dtype < TT_N_DTYPES;
}

static const tt_backend_def laned = {.name = "laned",
                                     .doc = "Has lanes.",
                                     .kernels = tt_ref_kernels,
                                     .memory = &memory,
                                     .lane = &lanes,
                                     .has_dtype = has_dtype};

static void open_mlp(world *w, const tt_backend_def *def)
{
    world_init(w);
    world_build_mlp(&w->b, 4);
    world_open(w, def, &(tt_lower_options){.n_micro = 3});
}

// The same rows as world_feed_rows writes, by way of a lane.
static tt_status feed_rows(void *user, tt_exec *exec, int32_t micro)
{
    const world *w = user;
    const tt_val x = world_find(w, "x");
    double data[12];
    void *room = NULL;
    TT_TRY(world_feed_rows(user, exec, micro));
    TT_TRY(tt_exec_read(exec, x, data));
    TT_TRY(tt_exec_room(exec, x, &room));
    CHECK(room != NULL);
    memcpy(room, data, sizeof data);
    TT_TRY(tt_exec_send(exec, x));
    memset(data, 0, sizeof data);
    TT_TRY(tt_exec_write(exec, x, data)); // what was there before
    return tt_exec_take(exec, x);
}

TEST(inputs_that_were_sent_are_what_is_taken)
{
    world here, there;
    double a[24], b[24];
    open_mlp(&here, NULL);
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt_exec_run(here.exec, world_feed_rows, &here));
    world_read(&here, "w1", a);
    world_fini(&here);
    open_mlp(&there, &laned);
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt_exec_run(there.exec, feed_rows, &there));
    world_read(&there, "w1", b);
    CHECK(device.n_open == 1);
    world_fini(&there);
    CHECK(device.n_open == 0);
    CHECK(memcmp(a, b, sizeof a) == 0);
}

TEST(without_lanes_there_is_no_room)
{
    world w;
    void *room = &w;
    open_mlp(&w, NULL);
    CHECK_OK(tt_exec_room(w.exec, world_find(&w, "x"), &room));
    CHECK(room == NULL);
    world_fini(&w);
    device.has_no_memory = true;
    room = &w;
    open_mlp(&w, &laned);
    CHECK_OK(tt_exec_room(w.exec, world_find(&w, "x"), &room));
    CHECK(room == NULL);
    device.has_no_memory = false;
    CHECK_OK(tt_exec_room(w.exec, world_find(&w, "x"), &room));
    CHECK(room != NULL);
    world_fini(&w);
}

TEST(states_that_are_kept_come_back)
{
    const tt_backend_def *const defs[] = {NULL, &laned};
    for (int i = 0; i < 2; i++) {
        world w;
        double before[24], after[24], back[24];
        open_mlp(&w, defs[i]);
        const tt_val w1 = world_find(&w, "w1");
        world_read(&w, "w1", before);
        device.n_copied = 0;
        CHECK_OK(tt_exec_save_value(w.exec, w1));
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        world_read(&w, "w1", after);
        CHECK(memcmp(before, after, sizeof before) != 0);
        CHECK_OK(tt_exec_restore_value(w.exec, w1));
        world_read(&w, "w1", back);
        CHECK(memcmp(before, back, sizeof before) == 0);
        CHECK_OK(tt_exec_write(w.exec, w1, after));
        CHECK_OK(tt_exec_save_value(w.exec, w1)); // anew
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        CHECK_OK(tt_exec_restore_value(w.exec, w1));
        world_read(&w, "w1", back);
        CHECK(memcmp(after, back, sizeof after) == 0);
        CHECK(device.n_copied == (i == 0 ? 0 : 4 * (int64_t)sizeof before));
        world_fini(&w);
    }
}

TEST(numbers_are_read_together_as_alone)
{
    const tt_backend_def *const defs[] = {NULL, &laned};
    for (int i = 0; i < 2; i++) {
        world w;
        open_mlp(&w, defs[i]);
        CHECK_OK(tt_exec_run(w.exec, world_feed_rows, &w));
        const tt_val loss = world_find(&w, "loss");
        const tt_val v[] = {TT_NONE, loss, TT_NONE, loss};
        double x[4] = {1, 1, 1, 1};
        CHECK_OK(tt_exec_get_scalars(w.exec, v, 4, x));
        CHECK(x[1] == world_scalar(&w, "loss") && x[3] == x[1] && x[1] > 0);
        CHECK(x[0] == 0 && x[2] == 0);
        const tt_val matrix = world_find(&w, "w1");
        CHECK(tt_exec_get_scalars(w.exec, &matrix, 1, x) == TT_ERR_ARG);
        world_fini(&w);
    }
}
