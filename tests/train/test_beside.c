// What a plan does beside what, and what no rank holds whole: rings and sums of
// gradients travel while something is computed; keys, values and logits are in parts
// wherever they are.

#include "job/infer.h"
#include "jobs.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

static const family wide = {"wide",
                            {"model=gpt", "model.layers=2", "model.width=16",
                             "model.heads=4", "model.ff=16", "model.vocab=16",
                             "model.context=64", "batch=8", NULL},
                            false};
static const family wordy = {"wordy",
                             {"model=gpt", "model.layers=1", "model.width=16",
                              "model.heads=4", "model.vocab=2048",
                              "model.context=16", "batch=4", NULL},
                             false};

static made plan_of(const family *f, const char *const *more)
{
    made m = make_job(f, more);
    CHECK_OK(tt_job_plan(m.job));
    return m;
}

// Whether a step of this operator runs while the flight is in the air.
static bool has_beside(const tt_plan *plan, const tt_flight *flight,
                       const tt_op_def *op)
{
    for (int32_t s = flight->begin; s < flight->end && s < plan->n_steps; s++)
        if (plan->step[s].op == op)
            return true;
    return false;
}

typedef struct tally {
    int all, beside;
} tally;

static tally count(const tt_plan *plan, const tt_op_def *sent, tt_phase phase,
                   const tt_op_def *op)
{
    tally n = {0};
    for (int32_t f = 0; f < plan->n_flights; f++) {
        const tt_flight *flight = &plan->flight[f];
        const tt_step *step = &plan->step[plan->member[flight->first]];
        if (step->op != sent || step->phase != phase || flight->is_last_only ||
            strstr(plan->graph->node[step->node].origin, "h.") == NULL)
            continue;
        n.all++;
        n.beside += has_beside(plan, flight, op);
    }
    return n;
}

// Per layer: keys and values go on p - 1 times, each time beside attention to what
// is there; in backward so do their gradients, p times, the last time home.
TEST(rings_turn_while_attention_is_computed)
{
    made m = plan_of(&wide, (const char *const[]){"mesh.context=4", NULL});
    const tt_plan *plan = m.job->plan;
    const tally forward =
        count(plan, &tt_op_shift, TT_FORWARD, &tt_op_attention);
    const tally backward =
        count(plan, &tt_op_shift, TT_BACKWARD, &tt_op_attention_grad);
    CHECK(forward.all == 2 * 2 * 3 && forward.beside == forward.all);
    CHECK(backward.all == 2 * 2 * (3 + 4));
    CHECK(backward.beside == 2 * 2 * (3 + 3));
    close_job(&m);
}

static bool is_own_scratch(const tt_plan *plan, int32_t b)
{
    for (int32_t s = 0; s < plan->n_steps; s++)
        if (plan->step[s].scratch == b)
            return true;
    return false;
}

// Of those that hold values, not what kernels use for themselves.
static int64_t largest_buffer(const tt_plan *plan)
{
    int64_t bytes = 0;
    for (int32_t b = 0; b < plan->n_buffers; b++)
        if (bytes < plan->buffer[b].bytes && !is_own_scratch(plan, b))
            bytes = plan->buffer[b].bytes;
    return bytes;
}

// Bytes of results of shifts that lie in memory at once, at most.
static int64_t most_shifted(const tt_plan *plan)
{
    int64_t most = 0;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int64_t bytes = 0;
        for (int32_t t = 0; t < plan->n_steps; t++) {
            const tt_step *step = &plan->step[t];
            if (step->op != &tt_op_shift || step->phase != TT_FORWARD)
                continue;
            const tt_buffer *b = &plan->buffer[step->out[0].buffer];
            bytes += b->first <= s && s <= b->last ? b->bytes : 0;
        }
        most = bytes > most ? bytes : most;
    }
    return most;
}

TEST(no_rank_of_a_context_has_all_keys)
{
    static const char *const orders[] = {"layout.zigzag=true",
                                         "layout.zigzag=false"};
    const int64_t keys = INT64_C(8) * 64 * 16 * 4;
    for (int i = 0; i < 2; i++) {
        made m = plan_of(
            &wide, (const char *const[]){"mesh.context=4", orders[i], NULL});
        CHECK_MSG(largest_buffer(m.job->plan) < keys, "%lld of %lld",
                  (long long)largest_buffer(m.job->plan), (long long)keys);
        // The blocks that are there and those that arrive, of keys and values.
        CHECK(most_shifted(m.job->plan) <= 4 * keys / 4);
        close_job(&m);
        m = plan_of(&wide,
                    (const char *const[]){"mesh.context=8", orders[i], NULL});
        CHECK(most_shifted(m.job->plan) <= 4 * keys / 8);
        close_job(&m);
    }
}

TEST(gradients_of_weights_are_computed_beside_sums_of_activations)
{
    static const char *const layouts[] = {"layout.seq=auto",
                                          "layout.seq=tensor"};
    static const char *const names[] = {"gpt", "llama"};
    for (int i = 0; i < 4; i++) {
        made m = plan_of(family_named(names[i / 2]),
                         (const char *const[]){"mesh.tensor=2", "model.heads=4",
                                               "model.width=32", layouts[i % 2],
                                               NULL});
        const tt_op_def *sum =
            i % 2 == 0 ? &tt_op_all_reduce : &tt_op_reduce_scatter;
        const tt_plan *plan = m.job->plan;
        tally n = {0};
        for (int32_t f = 0; f < plan->n_flights; f++) {
            const tt_flight *flight = &plan->flight[f];
            const tt_step *step = &plan->step[plan->member[flight->first]];
            if (step->op != sum || step->phase != TT_BACKWARD)
                continue;
            n.all++;
            n.beside += has_beside(plan, flight, &tt_op_matmul_grad_w);
        }
        CHECK_MSG(n.all == 2 * 2 + 1 && n.beside == n.all, "%s %s: %d of %d",
                  names[i / 2], layouts[i % 2], n.beside, n.all);
        close_job(&m);
    }
}

static void check_logits(const tt_plan *plan)
{
    const int64_t logits = INT64_C(4) * 16 * 2048 * 4;
    CHECK_MSG(largest_buffer(plan) <= logits / 2, "%lld of %lld",
              (long long)largest_buffer(plan), (long long)logits);
}

TEST(no_rank_has_all_logits_where_the_vocabulary_is_split)
{
    static const char *const more[][4] = {
        {"mesh.tensor=2", NULL},
        {"mesh.tensor=2", "layout.seq=tensor", NULL},
        {"mesh.tensor=2", "recompute=full", NULL},
        {"mesh.tensor=2", "mesh.context=2", "smoothing=0.1", NULL},
    };
    for (int i = 0; i < 4; i++) {
        made m = plan_of(&wordy, more[i]);
        tt_inference *infer = NULL;
        check_logits(m.job->plan);
        CHECK_OK(tt_inference_open(
            m.job, &(tt_inference_options){.on_ranks = true, .plan_only = true},
            &infer));
        check_logits(infer->plan);
        tt_inference_close(infer);
        close_job(&m);
    }
}
