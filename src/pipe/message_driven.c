// message-driven - a rank runs what has arrived.
//
// The order is decided at run time, so a rank whose next message is late does other
// work. The rule: the first rank starts a micro-batch whenever fewer than `slots` are in
// flight; a rank that is free runs what has arrived, gradients before outputs, and of
// each kind what arrived first. Gradients go first because the ranks before wait for
// them, and they free slots: first in, first out among both kinds would double the
// bubble. No rank ever has more in flight than the first one, so `slots` slots and as
// much room for messages are enough, and there is no deadlock.
//
// The table has the order that comes out when a gradient takes twice as long as a
// forward row and messages take no time. Flags are those of that order: whoever runs the
// rule decides first and last anew.

#include "pipe/inside.h"

#include <math.h>

typedef struct slot_params {
    int64_t slots;
} slot_params;

static const tt_opt options[] = {
    {"slots", "0", "most micro-batches in flight; 0: as many as ranks",
     TT_OPT_I64, offsetof(slot_params, slots), NULL, 0, TT_PIPE_MICRO_MAX},
    {0},
};

static int32_t bound_of(const tt_pipe_shape *s, const slot_params *params)
{
    return params->slots > 0 ? (int32_t)params->slots : s->ranks;
}

// Along a chain messages of a kind arrive in the order of the micro-batches.
typedef struct rank_state {
    int32_t next[2]; // micro-batch: forward, backward
    double *came[2]; // when its message came; INFINITY: not yet
    double free_at;
} rank_state;

// What a rank would run next: 0 forward, 1 backward, -1 nothing yet.
static int choose(const rank_state *k, int32_t n_micro, double *start_out)
{
    double came[2];
    for (int i = 0; i < 2; i++)
        came[i] =
            k->next[i] < n_micro ? k->came[i][k->next[i]] : (double)INFINITY;
    *start_out = fmax(fmin(came[0], came[1]), k->free_at);
    if (isinf(*start_out))
        return -1;
    return came[1] <= *start_out;
}

static void run(rank_state *state, const tt_pipe_shape *s, int32_t rank,
                int what, int32_t bound)
{
    rank_state *k = &state[rank];
    double start = 0;
    (void)choose(k, s->micro, &start);
    const int32_t m = k->next[what]++;
    const double over = start + (what == 0 ? 1 : 2);
    k->free_at = over;
    if (what == 0 && rank + 1 < s->ranks)
        state[rank + 1].came[0][m] = over;
    else if (what == 0)
        k->came[1][m] = over;
    else if (rank > 0)
        state[rank - 1].came[1][m] = over;
    else if (m + bound < s->micro)
        k->came[0][m + bound] = over;
}

static tt_status make_states(tt_arena *arena, const tt_pipe_shape *s,
                             int32_t bound, rank_state **state_out)
{
    rank_state *state =
        tt_arena_alloc(arena, s->ranks * (int64_t)sizeof(*state));
    if (state == NULL)
        return TT_ERR_NOMEM;
    for (int32_t r = 0; r < s->ranks; r++)
        for (int i = 0; i < 2; i++) {
            state[r].came[i] =
                tt_arena_alloc(arena, s->micro * (int64_t)sizeof(double));
            if (state[r].came[i] == NULL)
                return TT_ERR_NOMEM;
            for (int32_t m = 0; m < s->micro; m++)
                state[r].came[i][m] =
                    r == 0 && i == 0 && m < bound ? 0 : (double)INFINITY;
        }
    *state_out = state;
    return TT_OK;
}

static tt_status fill(tt_pipe *p, const tt_pipe_shape *s, const void *params)
{
    p->bound = bound_of(s, params);
    rank_state *state = NULL;
    TT_TRY(make_states(p->arena, s, p->bound, &state));
    for (;;) {
        int32_t rank = -1;
        int what = -1;
        double first = (double)INFINITY;
        for (int32_t r = 0; r < s->ranks; r++) {
            double start = 0;
            const int kind = choose(&state[r], s->micro, &start);
            if (kind >= 0 && start < first) {
                first = start;
                rank = r;
                what = kind;
            }
        }
        if (rank < 0)
            return TT_OK;
        TT_TRY(tt__pipe_add(p, rank,
                            what == 0 ? TT_PIPE_FORWARD : TT_PIPE_BACKWARD,
                            rank, state[rank].next[what]));
        run(state, s, rank, what, p->bound);
    }
}

static double bubble(const tt_pipe_shape *s, const void *params,
                     const tt_pipe_even *t)
{
    const double b = t->input_grad + t->weight_grad;
    if (bound_of(s, params) < s->ranks || b != 2 * t->forward)
        return -1;
    return (s->ranks - 1) * (t->forward + b);
}

const tt_pipe_def tt_pipe_message_driven = {
    .name = "message-driven",
    .doc = "a rank runs what has arrived, within a bound of micro-batches in "
           "flight",
    .paper = "Singh and Bhatele, AxoNN, IPDPS 2022",
    .options = options,
    .params_bytes = sizeof(slot_params),
    .has_no_chunks = true,
    .fill = fill,
    .bubble = bubble,
};
