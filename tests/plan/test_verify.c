// Plans that break what they promise about memory are refused; sizes in words.

#include "exec/world.h"
#include "ops/act/activation.h"
#include "ops/arith.h"
#include "test.h"

#include <string.h>

// x -> tanh -> h; y = h * x, z = h + y: several buffers live at the same time.
static void build(world *w)
{
    world_init(w);
    const tt_val x = tt_input(&w->b, "x", TT_F64, "n:40");
    const tt_val h = tt_tanh(&w->b, x);
    const tt_val y = tt_mul(&w->b, h, x);
    tt_output(&w->b, "y", y);
    tt_output(&w->b, "z", tt_add(&w->b, h, y));
    world_open(w, NULL, NULL);
    CHECK_OK(tt_plan_verify(w->plan));
    CHECK(w->plan->n_steps == 3 && w->plan->n_buffers >= 3);
}

static void refuses(const world *w, const char *why)
{
    CHECK(tt_plan_verify(w->plan) == TT_ERR_STATE);
    CHECK_MSG(strstr(tt_error_message(), why) != NULL, "%s",
              tt_error_message());
}

static bool meet(const tt_buffer *a, const tt_buffer *b)
{
    return a->class_ == TT_PERSISTENT || b->class_ == TT_PERSISTENT ||
           (a->first <= b->last && b->first <= a->last);
}

TEST(buffers_that_meet_may_not_overlap)
{
    world w;
    build(&w);
    int n = 0;
    for (int32_t i = 0; i < w.plan->n_buffers; i++)
        for (int32_t j = 0; j < w.plan->n_buffers; j++) {
            tt_buffer *a = &w.plan->buffer[i];
            const tt_buffer *b = &w.plan->buffer[j];
            const int64_t offset = a->offset;
            if (i == j || !meet(a, b))
                continue;
            a->offset = b->offset;
            refuses(&w, "overlap");
            a->offset = offset;
            n++;
        }
    CHECK(n >= 4);
    world_fini(&w);
}

TEST(buffers_lie_in_the_arena)
{
    world w;
    build(&w);
    tt_buffer *b = &w.plan->buffer[0];
    const int64_t offset = b->offset;
    b->offset = -64;
    refuses(&w, "arena");
    b->offset = offset + 32;
    refuses(&w, "arena");
    b->offset = w.plan->peak_bytes / 64 * 64;
    refuses(&w, "arena");
    b->offset = offset;
    w.plan->peak_bytes -= 64;
    refuses(&w, "arena");
    w.plan->peak_bytes += 64;
    CHECK_OK(tt_plan_verify(w.plan));
    world_fini(&w);
}

TEST(operands_lie_in_their_buffers)
{
    world w;
    build(&w);
    tt_step *step = &w.plan->step[1];
    const tt_ref *in = step->in, *out = step->out;
    for (int k = 0; k < 4; k++) {
        tt_ref refs[3] = {in[0], in[1], out[0]};
        tt_ref *bad = &refs[k / 2 + 1];
        bad->offset = k % 2 == 0 ? -8 : 8;
        step->in = refs;
        step->out = &refs[2];
        refuses(&w, "not inside");
        step->in = in;
        step->out = out;
    }
    world_fini(&w);
}

TEST(nothing_is_read_before_it_is_written)
{
    world w;
    build(&w);
    tt_step *step = w.plan->step;
    for (int k = 0; k < 2; k++) {
        const tt_step first = step[k];
        step[k] = step[k + 1];
        step[k + 1] = first;
        refuses(&w, "too early");
        step[k + 1] = step[k];
        step[k] = first;
    }
    CHECK_OK(tt_plan_verify(w.plan));
    world_fini(&w);
}
