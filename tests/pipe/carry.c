// carry - see carry.h.
//
// Every chunk and copy has, on its rank: slots, each with the micro-batch whose
// activations it holds; a ring of weights, each with the number of updates in it; per
// phase a sum, which is the set of micro-batches that were added since it was last
// written; and the sums that were sent to the other copies. Messages are pairs (what,
// micro-batch) that lie between two ranks, at most `capacity` of them.

#include "carry.h"

#include "../test.h"
#include "base/alloc.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { MICRO_MAX = 128, CHUNKS_MAX = 64, RANKS_MAX = 16, MESSAGES_MAX = 4096 };

typedef struct sum {
    bool has[MICRO_MAX];
    int n;
    int done; // complete sums so far
} sum;

typedef struct chunk {
    int slot[MICRO_MAX];         // micro-batch, -1: empty
    bool has_grad[MICRO_MAX];    // per slot: the input gradient was computed
    int ring[MICRO_MAX];         // version in each place
    int updates;                 // made
    int read[MICRO_MAX];         // version that forward read
    sum phase[TT_N_PIPE_PHASES]; // sums while they grow
    bool sent[MICRO_MAX][MICRO_MAX]; // per step: the set that was complete
    bool is_sent[MICRO_MAX];         // per step
    bool has_out[MICRO_MAX];         // output or gradient for the same rank
    bool has_back[MICRO_MAX];
} chunk;

typedef struct message {
    int from, to, what, chunk, micro; // what: 0 forward, 1 gradient
} message;

typedef struct carrier {
    const tt_pipe *p;
    int capacity, n_all;
    int at[RANKS_MAX];
    bool is_begun[RANKS_MAX];
    chunk *chunk; // per tt_pipe_at
    message message[MESSAGES_MAX];
    int n_messages;
    const char *why;
} carrier;

static bool wrong(carrier *c, const char *why)
{
    if (c->why == NULL)
        c->why = why;
    return false;
}

static int find(const carrier *c, int to, int what, int at_chunk, int micro)
{
    for (int i = 0; i < c->n_messages; i++)
        if (c->message[i].to == to && c->message[i].what == what &&
            c->message[i].chunk == at_chunk && c->message[i].micro == micro)
            return i;
    return -1;
}

static int lying(const carrier *c, int from, int to)
{
    int n = 0;
    for (int i = 0; i < c->n_messages; i++)
        n += c->message[i].from == from && c->message[i].to == to;
    return n;
}

// 1: it is here and was taken; 0: not yet.
static int take(carrier *c, int rank, int what, int at_chunk, int micro)
{
    const int i = find(c, rank, what, at_chunk, micro);
    if (i < 0)
        return 0;
    c->message[i] = c->message[--c->n_messages];
    return 1;
}

static bool is_gradient(tt_pipe_phase phase)
{
    return phase == TT_PIPE_BACKWARD || phase == TT_PIPE_INPUT_GRAD;
}

// The other copies' sums of this step are there.
static bool others_sent(const carrier *c, const tt_pipe_row *row)
{
    for (int copy = 0; copy < c->p->n_copies; copy++)
        if (copy != row->copy && !c->chunk[tt_pipe_at(c->p, copy, row->chunk)]
                                      .is_sent[row->micro / c->p->n_micro])
            return false;
    return true;
}

// ---- what a row does -----------------------------------------------------

// 1: what it needs from elsewhere is here and was taken; 0: it must wait; -1: its rank
// will never have it.
static int begin(carrier *c, int rank, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    const bool is_forward = row->phase == TT_PIPE_FORWARD;
    if (row->phase == TT_PIPE_UPDATE)
        return others_sent(c, row);
    if (!is_forward && !is_gradient(row->phase))
        return 1;
    const int from = row->chunk + (is_forward ? -1 : 1);
    if (from < 0 || from >= p->n_chunks)
        return 1;
    if (p->place[tt_pipe_at(p, row->copy, from)] != rank)
        return take(c, rank, !is_forward, row->chunk, row->micro);
    chunk *k = &c->chunk[tt_pipe_at(p, row->copy, from)];
    bool *here =
        is_forward ? &k->has_out[row->micro] : &k->has_back[row->micro];
    if (!*here)
        return -1;
    *here = false;
    return 1;
}

static bool use_slot(carrier *c, chunk *k, const tt_pipe_row *row)
{
    const int n = c->p->n_slots[tt_pipe_at(c->p, row->copy, row->chunk)];
    if (row->phase == TT_PIPE_UPDATE)
        return row->slot == -1 || wrong(c, "an update with a slot");
    if (row->slot < 0 || row->slot >= n)
        return wrong(c, "no such slot");
    if (row->phase == TT_PIPE_FORWARD) {
        if (k->slot[row->slot] != -1)
            return wrong(c, "slot overwritten");
        k->slot[row->slot] = row->micro;
        k->has_grad[row->slot] = false;
        return true;
    }
    if (k->slot[row->slot] != row->micro)
        return wrong(c, "slot of another micro-batch");
    if (row->phase == TT_PIPE_INPUT_GRAD) {
        if (k->has_grad[row->slot])
            return wrong(c, "input gradient twice");
        k->has_grad[row->slot] = true;
        return true;
    }
    if (row->phase == TT_PIPE_WEIGHT_GRAD && !k->has_grad[row->slot])
        return wrong(c, "weight gradient without input gradient");
    if (row->phase == TT_PIPE_BACKWARD && k->has_grad[row->slot])
        return wrong(c, "backward after input gradient");
    k->slot[row->slot] = -1;
    return true;
}

// The version that the papers want, from what is known when the row runs.
static int wanted(const carrier *c, const chunk *k, const tt_pipe_row *row)
{
    const int step = row->micro / c->p->n_micro;
    switch (c->p->rule) {
    case TT_PIPE_STASH:
        return row->phase == TT_PIPE_FORWARD ? k->updates : k->read[row->micro];
    case TT_PIPE_DOUBLE:
        return step == 0 ? 0 : step - 1;
    case TT_PIPE_PREDICT:
        return k->updates;
    default:
        return step;
    }
}

static bool use_weights(carrier *c, chunk *k, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    const int n = p->n_versions[tt_pipe_at(p, row->copy, row->chunk)];
    const int step = row->micro / p->n_micro;
    const int v = row->version;
    if (n < 1 || v < 0 || k->ring[v % n] != v)
        return wrong(c, "no such version of the weights");
    if (row->phase == TT_PIPE_UPDATE) {
        if (v != step || k->updates != step)
            return wrong(c, "update of another step's weights");
        k->updates++;
        k->ring[k->updates % n] = k->updates;
        return row->ahead == 0 || wrong(c, "an update that predicts");
    }
    if (v != wanted(c, k, row))
        return wrong(c, "another version than the rule says");
    const int target = p->rule == TT_PIPE_PREDICT ? step + row->chunk / 2 : v;
    if (v + row->ahead != target)
        return wrong(c, "predicts other weights than the rule says");
    if (row->phase == TT_PIPE_FORWARD)
        k->read[row->micro] = v;
    return true;
}

// How many micro-batches of a step go through a copy: what ranks know before they run.
static int share(const carrier *c, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    const int step = row->micro / p->n_micro;
    int n = 0;
    for (int r = 0; r < p->n_ranks; r++)
        for (int i = 0; i < p->rank[r].n; i++) {
            const tt_pipe_row *o = &p->rank[r].row[i];
            n += o->phase == TT_PIPE_FORWARD && o->copy == row->copy &&
                 o->chunk == row->chunk && o->micro / p->n_micro == step;
        }
    return n;
}

static bool add_to_sum(carrier *c, chunk *k, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    sum *s = &k->phase[row->phase];
    const int step = row->micro / p->n_micro;
    const bool is_weight =
        row->phase == TT_PIPE_BACKWARD || row->phase == TT_PIPE_WEIGHT_GRAD;
    if (row->is_first) {
        if (s->n != 0)
            return wrong(c, "a sum is overwritten before it is complete");
        if (is_weight && step > 0 && k->updates != step)
            return wrong(c, "a sum is overwritten before its update");
        memset(s->has, 0, sizeof(s->has));
    } else if (s->n == 0) {
        return wrong(c, "adds to an old sum");
    }
    if (step != s->done)
        return wrong(c, "adds to the sum of another step");
    s->has[row->micro] = true;
    s->n++;
    if (!row->is_last)
        return true;
    if (s->n != share(c, row))
        return wrong(c, "a sum is called complete before it is");
    if (is_weight) {
        memcpy(k->sent[step], s->has, sizeof(s->has));
        k->is_sent[step] = true;
    }
    s->n = 0;
    s->done++;
    return true;
}

static bool update(carrier *c, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    const int step = row->micro / p->n_micro;
    if ((row->micro + 1) % p->n_micro != 0)
        return wrong(c, "an update in the middle of a step");
    for (int m = 0; m < c->n_all; m++) {
        int n = 0;
        for (int copy = 0; copy < p->n_copies; copy++)
            n += c->chunk[tt_pipe_at(p, copy, row->chunk)].sent[step][m];
        if (n != (m / p->n_micro == step))
            return wrong(c, "an update with a wrong sum");
    }
    return row->is_first && row->is_last ? true
                                         : wrong(c, "flags of an update");
}

static bool compute(carrier *c, const tt_pipe_row *row)
{
    chunk *k = &c->chunk[tt_pipe_at(c->p, row->copy, row->chunk)];
    if (!use_slot(c, k, row) || !use_weights(c, k, row))
        return false;
    return row->phase == TT_PIPE_UPDATE ? update(c, row)
                                        : add_to_sum(c, k, row);
}

// 1: sent or nothing to send; 0: no room.
static int end(carrier *c, int rank, const tt_pipe_row *row)
{
    const tt_pipe *p = c->p;
    const bool is_forward = row->phase == TT_PIPE_FORWARD;
    const int to = row->chunk + (is_forward ? 1 : -1);
    if ((!is_forward && !is_gradient(row->phase)) || to < 0 ||
        to >= p->n_chunks)
        return 1;
    const int other = p->place[tt_pipe_at(p, row->copy, to)];
    if (other == rank) {
        chunk *k = &c->chunk[tt_pipe_at(p, row->copy, row->chunk)];
        *(is_forward ? &k->has_out[row->micro] : &k->has_back[row->micro]) =
            true;
        return 1;
    }
    if ((c->capacity > 0 && lying(c, rank, other) >= c->capacity) ||
        c->n_messages == MESSAGES_MAX)
        return 0;
    c->message[c->n_messages++] =
        (message){rank, other, !is_forward, to, row->micro};
    return 1;
}

// ---- all ranks -----------------------------------------------------------

static bool is_in_range(const carrier *c, int rank, const tt_pipe_row *row)
{
    return row->chunk >= 0 && row->chunk < c->p->n_chunks && row->copy >= 0 &&
           row->copy < c->p->n_copies && row->micro >= 0 &&
           row->micro < c->n_all &&
           c->p->place[tt_pipe_at(c->p, row->copy, row->chunk)] == rank;
}

// 1: moved; 0: waits or is over; -1: wrong.
static int go_on(carrier *c, int rank)
{
    if (c->at[rank] == c->p->rank[rank].n)
        return 0;
    const tt_pipe_row *row = &c->p->rank[rank].row[c->at[rank]];
    if (!c->is_begun[rank]) {
        if (!is_in_range(c, rank, row)) {
            (void)wrong(c, "a row out of range");
            return -1;
        }
        const int got = begin(c, rank, row);
        if (got <= 0) {
            if (got < 0)
                (void)wrong(c, "what it needs of its own rank is not there");
            return got;
        }
        if (!compute(c, row))
            return -1;
        c->is_begun[rank] = true;
        return 1;
    }
    if (end(c, rank, row) == 0)
        return 0;
    c->is_begun[rank] = false;
    c->at[rank]++;
    return 1;
}

static bool all_done(carrier *c)
{
    for (int i = 0; i < c->p->n_copies * c->p->n_chunks; i++) {
        if (c->chunk[i].updates != c->p->n_steps)
            return wrong(c, "an update is missing");
        for (int k = 0; k < TT_N_PIPE_PHASES; k++)
            if (c->chunk[i].phase[k].n != 0)
                return wrong(c, "a sum is never called complete");
    }
    return c->n_messages == 0 || wrong(c, "messages that nobody took");
}

static bool carry(carrier *c, uint64_t seed)
{
    const int n = c->p->n_ranks;
    uint64_t draws = 0;
    for (;;) {
        // A random rank first; then all, to see whether anyone can go on.
        const int first = (int)(tt_rng_u32(seed, draws++) % (uint32_t)n);
        int moved = 0;
        for (int i = 0; i < n && moved == 0; i++)
            moved = go_on(c, (first + i) % n);
        if (moved < 0)
            return false;
        if (moved == 0)
            break;
    }
    for (int r = 0; r < n; r++)
        if (c->at[r] < c->p->rank[r].n)
            return wrong(c, "nobody can go on");
    return all_done(c);
}

// A table in which a chunk's gradients have two forms, or which asks for memory that
// nobody could use, is not one that a job should run, even if it comes out right.
static bool is_odd(const tt_pipe *p)
{
    for (int i = 0; i < p->n_copies * p->n_chunks; i++)
        if (p->n_slots[i] < 0 || p->n_slots[i] > p->n_micro * p->n_steps ||
            p->n_versions[i] < 1)
            return true;
    for (int r = 0; r < p->n_ranks; r++)
        for (int i = 0; i < p->rank[r].n; i++)
            for (int j = 0; j < i; j++) {
                const tt_pipe_row *a = &p->rank[r].row[i];
                const tt_pipe_row *b = &p->rank[r].row[j];
                if (a->chunk != b->chunk || a->copy != b->copy)
                    continue;
                if ((a->phase == TT_PIPE_BACKWARD &&
                     (b->phase == TT_PIPE_INPUT_GRAD ||
                      b->phase == TT_PIPE_WEIGHT_GRAD)) ||
                    (b->phase == TT_PIPE_BACKWARD &&
                     (a->phase == TT_PIPE_INPUT_GRAD ||
                      a->phase == TT_PIPE_WEIGHT_GRAD)))
                    return true;
            }
    return false;
}

bool tt_pipe_carry(const tt_pipe *p, int32_t capacity, uint64_t seed,
                   const char **why_out)
{
    const int n = p->n_copies * p->n_chunks;
    carrier *c = tt_alloc(sizeof(*c));
    CHECK(c != NULL && p->n_ranks <= RANKS_MAX && n <= CHUNKS_MAX &&
          p->n_micro * p->n_steps <= MICRO_MAX);
    c->p = p;
    c->capacity = capacity;
    c->n_all = p->n_micro * p->n_steps;
    c->chunk = tt_alloc(n * (int64_t)sizeof(*c->chunk));
    CHECK(c->chunk != NULL);
    for (int i = 0; i < n; i++) {
        memset(c->chunk[i].slot, -1, sizeof(c->chunk[i].slot));
        for (int v = 1; v < MICRO_MAX; v++)
            c->chunk[i].ring[v] = -1;
    }
    const bool is_right =
        is_odd(p) ? wrong(c, "gradients of two forms, or odd memory")
                  : carry(c, seed);
    *why_out = c->why;
    tt_free(c->chunk);
    tt_free(c);
    return is_right;
}
