// coder - see the header.

#include "base/alloc.h"
#include "base/rng.h"
#include "job/dynamic/coder_state.h"
#include "ops/codec/packet.h"

#include <stdio.h>
#include <string.h>

static int64_t bytes_of(const tt_graph *g, tt_val v)
{
    const tt_type *type = &g->value[v.id].type;
    return tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
}

// ---- bytes ---------------------------------------------------------------

// A value on its way: how many bytes, then these, up to the next 8.
static int64_t framed(int64_t bytes)
{
    return 8 + (bytes + 7) / 8 * 8;
}

static int64_t room_of(const tt_dynamic *d, int32_t part)
{
    const tt__coder_part *p = &d->coder->part[part];
    int64_t bytes = 0;
    if (!tt__coder_has(d, part))
        return framed(d->part[part].tensor.count * tt__element(d));
    for (int k = 0; k < p->n_sent; k++)
        bytes += framed(bytes_of(d->coder->graph, p->sent[k]));
    return bytes;
}

static void measure(tt_dynamic *d)
{
    tt__coder *c = d->coder;
    for (int32_t i = 0; i < d->n_parts; i++) {
        c->most += room_of(d, i);
        if (d->part[i].owner == d->job->peers.rank)
            c->room += room_of(d, i);
        for (int k = 0; tt__coder_has(d, i) && k < c->part[i].n_states; k++)
            c->state_bytes += bytes_of(c->graph, c->part[i].state[k]);
    }
}

int64_t tt__coder_room(const tt_dynamic *d)
{
    return d->coder->room;
}

int64_t tt__coder_state_bytes(const tt_dynamic *d)
{
    return d->coder != NULL ? d->coder->state_bytes : 0;
}

int64_t tt__coder_most(const tt_dynamic *d)
{
    return d->coder->most;
}

const char *tt__coder_begin(const tt_dynamic *d)
{
    return d->coder->begin;
}

char *tt__coder_state(const tt_dynamic *d, int32_t worker, bool is_before)
{
    const tt__coder_worker *w = &d->coder->worker[worker - d->first];
    return is_before ? w->before : w->state;
}

// ---- encode --------------------------------------------------------------

static tt_status set(const tt__coder *c, const char *name, double value)
{
    return tt_is(tt_graph_find(c->graph, name))
               ? tt_exec_set_scalar(c->exec, name, value)
               : TT_OK;
}

// Another seed for each worker and tensor, and a step: the worker's number.
static tt_status set_seeds(const tt_dynamic *d, int32_t worker, int64_t number)
{
    char name[TT_CODER_NAME];
    for (int32_t i = 0; i < d->n_parts; i++) {
        const uint64_t key =
            tt_rng_key((uint64_t)d->job->options.seed, d->part[i].tensor.name,
                       (uint64_t)worker);
        snprintf(name, sizeof name, "seed.%d", i);
        if (tt__coder_has(d, i))
            TT_TRY(set(d->coder, name, (double)(int64_t)(key >> 12)));
    }
    return set(d->coder, "step", (double)(number + 1));
}

typedef tt_status move_fn(tt_exec *exec, tt_val v, char *at);

static tt_status write_state(tt_exec *exec, tt_val v, char *at)
{
    return tt_exec_write(exec, v, at);
}

static tt_status read_state(tt_exec *exec, tt_val v, char *at)
{
    return tt_exec_read(exec, v, at);
}

static tt_status move_states(const tt_dynamic *d, char *state, move_fn *move)
{
    const tt__coder *c = d->coder;
    for (int32_t i = 0; i < d->n_parts; i++)
        for (int k = 0; tt__coder_has(d, i) && k < c->part[i].n_states; k++) {
            TT_TRY(move(c->exec, c->part[i].state[k], state));
            state += bytes_of(c->graph, c->part[i].state[k]);
        }
    return TT_OK;
}

static char *put_framed(char *to, const void *data, int64_t bytes)
{
    memcpy(to, &bytes, sizeof bytes);
    memcpy(to + 8, data, (size_t)bytes);
    memset(to + 8 + bytes, 0, (size_t)(framed(bytes) - 8 - bytes));
    return to + framed(bytes);
}

// Rows of the micro-batches that were finished.
static void put_rows(const tt_dynamic *d, const tt__coder_part *p,
                     int64_t micros, char **to)
{
    for (int k = 0; k < TT_ROWS_FACTORS; k++)
        *to = put_framed(*to, d->coder->rows + p->factor[k].at,
                         micros * p->factor[k].bytes);
}

static tt_status put_part(const tt_dynamic *d, int32_t i,
                          const tt__coder_input *in, char **to)
{
    const tt__coder *c = d->coder;
    const tt__dynamic_part *p = &d->part[i];
    if (c->part[i].is_product) {
        put_rows(d, &c->part[i], in->micros, to);
        return TT_OK;
    }
    if (!tt__coder_has(d, i)) {
        *to = put_framed(*to, tt__element_at(d, in->vector, p->at),
                         p->tensor.count * tt__element(d));
        return TT_OK;
    }
    for (int k = 0; k < c->part[i].n_sent; k++) {
        const tt_val v = c->part[i].sent[k];
        TT_TRY(tt_exec_read(c->exec, v, c->packet));
        const bool is_packet = c->graph->value[v.id].type.dtype == TT_U8;
        *to = put_framed(*to, c->packet,
                         is_packet ? tt_packet_used(c->packet)
                                   : bytes_of(c->graph, v));
    }
    return TT_OK;
}

// One shard's tensors after another's.
static tt_status put_all(const tt_dynamic *d, const tt__coder_input *in,
                         char *code, int64_t *at)
{
    const int32_t ranks = d->job->peers.size;
    char *end = code;
    int32_t r = 0;
    for (int32_t i = 0; i < d->n_parts; i++) {
        while (r < d->part[i].owner)
            at[++r] = end - code;
        TT_TRY(put_part(d, i, in, &end));
    }
    while (r < ranks)
        at[++r] = end - code;
    return TT_OK;
}

static tt_status run_encoders(tt_dynamic *d, const tt__coder_input *in)
{
    const tt__coder *c = d->coder;
    for (int32_t i = 0; i < d->n_parts; i++)
        if (tt__coder_has(d, i))
            TT_TRY(tt_exec_write(c->exec, c->part[i].x,
                                 tt__element_at(d, in->vector, d->part[i].at)));
    TT_TRY(move_states(d, in->before, write_state));
    TT_TRY(set_seeds(d, in->worker, in->number));
    TT_TRY(tt_exec_run_part(c->exec, TT_RUN_UPDATE, c->encodes, NULL, NULL));
    return move_states(d, in->after, read_state);
}

tt_status tt__coder_write(tt_dynamic *d, const tt__coder_input *in, char *code,
                          int64_t *at)
{
    if (d->coder->rows == NULL) // else they are the code
        TT_TRY(run_encoders(d, in));
    return put_all(d, in, code, at);
}

tt_status tt__coder_encode(tt_dynamic *d, int32_t worker)
{
    tt__dynamic_worker *w = &d->own[worker - d->first];
    tt__coder_worker *own = &d->coder->worker[worker - d->first];
    const tt__coder_input in = {.worker = worker,
                                .number = w->number,
                                .vector = w->gradient,
                                .micros =
                                    d->job->options.accumulate - w->left_out,
                                .before = own->state,
                                .after = own->before};
    TT_TRY(tt__coder_write(d, &in, own->code, own->at));
    own->state = in.after;
    own->before = in.before;
    w->head.v[TT_HEAD_BYTES] = (double)own->at[d->job->peers.size];
    return TT_OK;
}

void *tt__coder_code(const tt_dynamic *d, int32_t worker, int32_t rank,
                     int64_t *bytes_out)
{
    const tt__coder_worker *own = &d->coder->worker[worker - d->first];
    *bytes_out = own->at[rank + 1] - own->at[rank];
    return own->code + own->at[rank];
}

void *tt__coder_whole(const tt_dynamic *d, int32_t worker, int64_t *bytes_out)
{
    const tt__coder_worker *own = &d->coder->worker[worker - d->first];
    *bytes_out = own->at[d->job->peers.size];
    return own->code;
}

// ---- decode --------------------------------------------------------------

typedef struct reader {
    const char *at, *end;
} reader;

// The next value, of at most so many bytes; NULL: there is none.
static const char *next(reader *r, int64_t most, int64_t *bytes_out)
{
    int64_t bytes = 0;
    if (r->end - r->at < 8)
        return NULL;
    memcpy(&bytes, r->at, sizeof bytes);
    if (bytes < 0 || bytes > most || r->end - r->at < framed(bytes))
        return NULL;
    const char *data = r->at + 8;
    r->at += framed(bytes);
    *bytes_out = bytes;
    return data;
}

static tt_status damaged(int32_t worker)
{
    return tt_fail(TT_ERR_ARG, "the code that worker %d sent is damaged",
                   worker);
}

static tt_status take_part(tt_dynamic *d, int32_t worker, int32_t i, reader *r,
                           char *to)
{
    const tt__coder *c = d->coder;
    const int64_t dense = d->part[i].tensor.count * tt__element(d);
    int64_t bytes = 0;
    if (!tt__coder_has(d, i)) {
        const char *data = next(r, dense, &bytes);
        if (data == NULL || bytes != dense)
            return damaged(worker);
        memcpy(to, data, (size_t)dense);
        return TT_OK;
    }
    for (int k = 0; k < c->part[i].n_sent; k++) {
        const int64_t most = bytes_of(c->graph, c->part[i].sent[k]);
        const char *data = next(r, most, &bytes);
        if (data == NULL)
            return damaged(worker);
        memcpy(c->packet, data, (size_t)bytes);
        if (c->part[i].is_product) // rows of 0 add nothing
            memset(c->packet + bytes, 0, (size_t)(most - bytes));
        TT_TRY(tt_exec_write(c->exec, c->part[i].sent[k], c->packet));
    }
    return TT_OK;
}

// Tensor by tensor: memory of one's codes is another's scratch before they are made.
static tt_status decode_part(tt_dynamic *d, int32_t i, void *to)
{
    const tt__coder *c = d->coder;
    const tt__coder_part *p = &c->part[i];
    for (int32_t s = 0; s < c->plan->n_steps; s++) {
        const int32_t node = c->plan->step[s].node;
        c->now[s] = c->decodes[s] && node >= p->middle && node < p->end;
    }
    TT_TRY(tt_exec_run_part(c->exec, TT_RUN_UPDATE, c->now, NULL, NULL));
    return tt_exec_read(c->exec, p->sum, to);
}

static tt_status take(tt_dynamic *d, int32_t worker, int32_t part, reader *r,
                      char *to)
{
    TT_TRY(take_part(d, worker, part, r, to));
    return tt__coder_has(d, part) ? decode_part(d, part, to) : TT_OK;
}

tt_status tt__coder_decode(tt_dynamic *d, int32_t worker, int64_t number,
                           const char *code, int64_t bytes, void *to)
{
    reader r = {code, code + bytes};
    const int32_t me = d->job->peers.rank;
    TT_TRY(set_seeds(d, worker, number));
    for (int32_t i = 0; i < d->n_parts; i++) {
        const int64_t at = d->part[i].at - d->bound[me];
        if (d->part[i].owner == me)
            TT_TRY(take(d, worker, i, &r, tt__element_at(d, to, at)));
    }
    return TT_OK;
}

tt_status tt__coder_decode_whole(tt_dynamic *d, int32_t worker, int64_t number,
                                 const char *code, int64_t bytes, void *to)
{
    reader r = {code, code + bytes};
    TT_TRY(set_seeds(d, worker, number));
    for (int32_t i = 0; i < d->n_parts; i++)
        TT_TRY(take(d, worker, i, &r, tt__element_at(d, to, d->part[i].at)));
    return TT_OK;
}

// ---- memory --------------------------------------------------------------

static tt_status make_workers(tt_dynamic *d)
{
    tt__coder *c = d->coder;
    int64_t longest = 0;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const int64_t bytes = room_of(d, i);
        longest = bytes > longest ? bytes : longest;
    }
    c->packet = tt_alloc(longest + 8);
    c->begin = tt_alloc(c->state_bytes + 8);
    c->worker =
        tt_arena_alloc(d->arena, (d->n_own + 1) * (int64_t)sizeof *c->worker);
    bool has_all = c->packet != NULL && c->begin != NULL && c->worker != NULL;
    if (has_all)
        TT_TRY(move_states(d, c->begin, read_state));
    for (int32_t i = 0; has_all && i < d->n_own; i++) {
        tt__coder_worker *w = &c->worker[i];
        w->state = tt_alloc(c->state_bytes + 8);
        w->before = tt_alloc(c->state_bytes + 8);
        w->code = tt_alloc(c->most + 8);
        w->at = tt_arena_alloc(d->arena, (d->job->peers.size + 1) *
                                             (int64_t)sizeof *w->at);
        has_all = w->state != NULL && w->before != NULL && w->code != NULL &&
                  w->at != NULL;
        if (has_all)
            memcpy(w->state, c->begin, (size_t)c->state_bytes);
    }
    return has_all ? TT_OK : tt__coder_no_memory();
}

tt_status tt__coder_open(tt_dynamic *d)
{
    if (!tt_exchange_is_coded(&d->job->exchange))
        return TT_OK;
    d->coder = tt_arena_alloc(d->arena, sizeof *d->coder);
    if (d->coder == NULL)
        return tt__coder_no_memory();
    d->coder->part = tt_arena_alloc(
        d->arena, (d->n_parts + 1) * (int64_t)sizeof *d->coder->part);
    if (d->coder->part == NULL)
        return tt__coder_no_memory();
    for (int32_t i = 0; i < d->n_parts; i++)
        d->coder->part[i].is_coded = !d->part[i].is_buffer;
    if (tt__coder_has_rows(d) && !tt__coder_find_rows(d)) {
        d->coder = NULL; // gradients are fewer bytes
        return TT_OK;
    }
    TT_TRY(tt__coder_plan(d));
    measure(d);
    TT_TRY(tt__coder_make_rows(d));
    return make_workers(d);
}

void tt__coder_close(tt_dynamic *d)
{
    tt__coder *c = d->coder;
    if (c == NULL)
        return;
    for (int32_t i = 0; c->worker != NULL && i < d->n_own; i++) {
        tt_free(c->worker[i].state);
        tt_free(c->worker[i].before);
        tt_free(c->worker[i].code);
    }
    tt_free(c->packet);
    tt_free(c->rows);
    tt_free(c->begin);
    tt_free(c->encodes);
    tt_free(c->decodes);
    tt_free(c->now);
    tt_exec_destroy(c->exec);
    tt_plan_destroy(c->plan);
    tt_graph_destroy(c->graph);
}
