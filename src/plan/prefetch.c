// prefetch - gathers of weights ahead of their use (ZeRO-3).
//
// The weights that one layer reads are gathered together, as far ahead as gathered
// weights that are alive, with these, are no more bytes than those of the two
// largest layers, and at most AHEAD layers early. So they arrive while the
// layers before are computed, and the next ones are on their way.

#include "ops/ops.h"
#include "plan/flights.h"

enum { AHEAD = 3 };

typedef struct layer { // what is gathered together
    tt_flight *flight;
    int64_t bytes;         // gathered
    int32_t use, last_use; // steps
} layer;

static bool is_weight_gather(const tt__trips *t, int32_t k)
{
    const tt_plan *plan = t->l->plan;
    const tt_step *step = &plan->step[t->trip[k].step];
    if (step->in[0].buffer < 0)
        return false;
    const tt_buffer *from = &plan->buffer[step->in[0].buffer];
    return !t->trip[k].is_taken && step->op == &tt_op_all_gather &&
           step->phase != TT_UPDATE && from->class_ == TT_PERSISTENT &&
           from->use == TT_USE_PARAM;
}

static bool begins_segment(const tt_plan *plan, int32_t step)
{
    for (int32_t i = 0; i < plan->n_segments; i++)
        if (plan->segment[i].first == step)
            return true;
    return false;
}

// Gathers of a segment that follow each other, without another step between.
static int32_t take_layer(const tt__trips *t, int32_t k, int32_t *room)
{
    int32_t n = 0;
    do
        room[n++] = k++;
    while (k < t->n && is_weight_gather(t, k) &&
           t->trip[k].step == t->trip[k - 1].step + 1 &&
           !begins_segment(t->l->plan, t->trip[k].step));
    return n;
}

static int32_t last_use(const tt_plan *plan, const tt_flight *flight)
{
    int32_t last = flight->end;
    for (int32_t i = 0; i < flight->n; i++) {
        const tt_step *gather = &plan->step[plan->member[flight->first + i]];
        for (int32_t s = last; s < plan->n_steps; s++)
            for (int32_t k = 0; k < plan->step[s].n_in; k++)
                if (plan->step[s].in[k].buffer == gather->out[0].buffer)
                    last = s;
    }
    return last;
}

static layer add_layer(tt__trips *t, const int32_t *room, int32_t n)
{
    const tt_plan *plan = t->l->plan;
    layer a = {.flight = tt__flight_add(t, room, n)};
    for (int32_t i = 0; i < n; i++)
        a.bytes += t->trip[room[i]].bytes;
    a.flight->begin = plan->member[a.flight->first];
    a.use = a.flight->end;
    a.last_use = last_use(plan, a.flight);
    return a;
}

static int64_t two_largest(const layer *layers, int32_t n)
{
    int64_t first = 0, second = 0;
    for (int32_t i = 0; i < n; i++) {
        if (layers[i].bytes >= first) {
            second = first;
            first = layers[i].bytes;
        } else if (layers[i].bytes > second) {
            second = layers[i].bytes;
        }
    }
    return first + second;
}

// Bytes of gathered weights that lie in memory at a step, of layers before `n`.
static int64_t alive_at(const layer *layers, int32_t n, int32_t step)
{
    int64_t bytes = 0;
    for (int32_t i = 0; i < n; i++)
        if (layers[i].flight->begin <= step && step <= layers[i].last_use)
            bytes += layers[i].bytes;
    return bytes;
}

static void move_ahead(const layer *layers, int32_t n, int64_t most)
{
    tt_flight *flight = layers[n].flight;
    int32_t first = flight->ready;
    if (n > 0 && layers[n - 1].flight->begin > first)
        first = layers[n - 1].flight->begin; // in the order of use
    if (n >= AHEAD && layers[n - AHEAD].use > first)
        first = layers[n - AHEAD].use;
    while (flight->begin > first &&
           alive_at(layers, n, flight->begin - 1) + layers[n].bytes <= most)
        flight->begin--;
}

tt_status tt__prefetch(tt__trips *t)
{
    int32_t n = 0;
    const int64_t most = t->n + 1;
    int32_t *room = tt_arena_alloc(t->l->arena, most * (int64_t)sizeof(*room));
    layer *layers =
        tt_arena_alloc(t->l->arena, most * (int64_t)sizeof(*layers));
    if (room == NULL || layers == NULL)
        return TT_ERR_NOMEM;
    for (int32_t k = 0; k < t->n; k++)
        if (is_weight_gather(t, k))
            layers[n++] = add_layer(t, room, take_layer(t, k, room));
    const int64_t bytes = two_largest(layers, n);
    for (int32_t i = 0; i < n; i++)
        move_ahead(layers, i, bytes);
    return TT_OK;
}
