// federated_round - one step of a federation is one round.
//
//   draw who is asked -> weights to all ranks -> each client that answers: its change
//   to rank 0 -> mean -> the server's update
//
// The mean of the changes, with its sign turned, is the gradient of the plan's update. A
// round in which nobody answers changes nothing.

#include "base/rng.h"
#include "job/dynamic/dynamic_math.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

// What ranks tell each other after a round, besides the clients' figures.
enum { STOP, SAVE, NORM, N_WISHES };

static bool is_server(const tt__federated *f)
{
    return tt_peers_is_first(&f->d->job->peers);
}

double tt__federated_weight(const tt__federated *f, int32_t client)
{
    return f->params->weights == TT_WEIGHTS_EQUAL ? 1 : (double)f->size[client];
}

// ---- weights to all ------------------------------------------------------

static tt_status spread(const tt__federated *f, void *v,
                        const tt_vector_span *n)
{
    return tt_peers_broadcast(&f->d->job->peers, "round", v,
                              tt_vector_bytes(n));
}

static tt_status begin(tt__federated *f)
{
    tt_dynamic *d = f->d;
    if (is_server(f)) {
        memcpy(f->begin, d->now, (size_t)tt_vector_bytes(&d->all));
        memset(d->sum, 0, (size_t)tt_vector_bytes(&d->all));
    }
    f->weight = 0;
    if (f->params->masks) {
        f->masks = tt_masks_of(f->rules.pace.seed, d->job->step, f->round.n);
        memset(f->is_there, 0, (size_t)f->round.n);
        memset(f->hidden_sum, 0,
               (size_t)f->update_span.n * sizeof *f->hidden_sum);
    }
    TT_TRY(spread(f, f->begin, &d->all));
    if (f->control == NULL)
        return TT_OK;
    memset(f->moved, 0, (size_t)tt_vector_bytes(&f->weights));
    return spread(f, f->control, &f->weights);
}

// ---- changes to the server -----------------------------------------------

static void take(tt__federated *f, int32_t client)
{
    tt_dynamic *d = f->d;
    const double weight = tt__federated_weight(f, client);
    const double all =
        f->params->weights == TT_WEIGHTS_EQUAL ? d->workers : (double)f->total;
    tt_vector_add(&d->all, weight, f->update, d->sum);
    f->weight += weight;
    if (f->control != NULL)
        tt_vector_add(&f->weights, weight / all, tt__federated_control(f),
                      f->moved);
}

// What a client sends behind its head.
static tt_status list_posts(tt__federated *f, int32_t rank,
                            const tt__push_head *head, tt__post post[2])
{
    void *sent = f->params->masks ? (void *)f->hidden : f->update;
    if (f->d->coder != NULL)
        return tt__federated_code_posts(f, rank, head, post);
    post[0] = (tt__post){rank, 0, sent, sent, (int64_t)head->v[TT_HEAD_BYTES]};
    return TT_OK;
}

// What the server makes of it. All ranks hear of a code that it refuses.
static tt_status hear(tt__federated *f, int32_t i, const tt__push_head *head)
{
    const int32_t client = f->round.client[i].client;
    bool is_good = true;
    if (f->params->masks) {
        tt__federated_add_hidden(f, i);
        return TT_OK;
    }
    if (f->d->coder != NULL)
        TT_TRY(tt__federated_decode(f, client, head, &is_good));
    if (is_good)
        take(f, client);
    else
        f->d->tally[(int64_t)i * TT_HEAD_N + TT_HEAD_REFUSED] = 1;
    return TT_OK;
}

// Client i of those who were asked, the `k`-th that answers. One that is refused sends
// nothing but its head.
static tt_status ask(tt__federated *f, int32_t k, int32_t i)
{
    tt_dynamic *d = f->d;
    const int32_t client = f->round.client[i].client;
    const int32_t ranks = d->job->peers.size;
    const int32_t rank = (f->kept_bytes > 0 ? client : k) % ranks;
    tt__push_head head = {0};
    if (rank == d->job->peers.rank) {
        TT_TRY(tt__federated_client(f, client, &head));
        if (f->params->masks)
            tt__federated_hide(f, i, &head);
        memcpy(&d->tally[(int64_t)i * TT_HEAD_N], head.v, sizeof head);
    }
    const tt__post first = {rank, 0, &head, &head, sizeof head};
    TT_TRY(tt__post_all(d, &first, 1));
    if (head.v[TT_HEAD_REFUSED] != 0)
        return TT_OK;
    tt__post post[2] = {0};
    TT_TRY(list_posts(f, rank, &head, post));
    TT_TRY(tt__post_all(d, post, 2));
    return is_server(f) ? hear(f, i, &head) : TT_OK;
}

// ---- the update ----------------------------------------------------------

static tt_status move_buffers(tt__federated *f)
{
    tt_dynamic *d = f->d;
    for (int32_t i = 0; i < d->n_parts; i++) {
        const tt__dynamic_part *p = &d->part[i];
        const tt_vector_span n = {d->all.is_wide, p->tensor.count};
        if (!p->is_buffer)
            continue;
        tt_vector_add(&n, 1 / f->weight, tt__element_at(d, d->sum, p->at),
                      tt__element_at(d, d->now, p->at));
        TT_TRY(tt__dynamic_write_part(d, d->job->exec, &p->tensor,
                                      tt__element_at(d, d->now, p->at)));
    }
    return TT_OK;
}

// Noise on the sum, of which a client's part is clip at most; the mean is then that over
// the clients that a round asks on average, so that it does not tell how many there were.
static void add_noise(tt__federated *f)
{
    tt_dynamic *d = f->d;
    const double deviation = f->params->noise * f->params->clip;
    const uint64_t key = tt_rng_key(f->rules.pace.seed, "exchange.noise",
                                    (uint64_t)d->job->step);
    for (int64_t i = 0; i < d->all.n; i++) {
        const double x = deviation * tt_rng_normal(key, (uint64_t)i);
        if (d->all.is_wide)
            ((double *)d->sum)[i] += x;
        else
            ((float *)d->sum)[i] += (float)x;
    }
    f->weight = f->rules.fraction * tt_round_eligible(&f->rules);
}

static tt_status update(tt__federated *f)
{
    tt_dynamic *d = f->d;
    bool is_enough = true;
    d->norm = 0;
    if (!is_server(f))
        return TT_OK;
    if (f->params->masks)
        TT_TRY(tt__federated_reveal(f, &is_enough));
    if (!is_enough)
        f->weight = 0;
    if (f->params->noise > 0)
        add_noise(f);
    if (f->weight <= 0)
        return TT_OK;
    TT_TRY(move_buffers(f));
    if (f->control != NULL)
        tt_vector_add(&f->weights, 1, f->moved, f->control);
    tt_vector_scale(&f->weights, -1, d->sum);
    TT_TRY(tt__dynamic_clip(d, f->weight));
    d->server.version = d->job->step;
    return tt__dynamic_update(d, f->weight, 1);
}

// ---- results -------------------------------------------------------------

// Where the time of a client that was asked went.
static void note(tt__federated *f, const tt_round_client *r)
{
    const double end = f->now + f->round.seconds;
    const double moved = 2 * f->rules.pace.delay;
    if (r->fate != TT_FATE_TAKEN) {
        tt_diary_add(&f->diary, r->client, TT_CAUSE_WASTED, f->now,
                     fmin(f->now + r->due, end));
        return;
    }
    tt_diary_turn(&f->diary, &(tt_turn){.worker = r->client,
                                        .began = f->now,
                                        .moved = moved,
                                        .computed = r->due - moved});
    tt_diary_add(&f->diary, r->client, TT_CAUSE_HELD, f->now + r->due, end);
}

// Whether the weights stayed as they were; all ranks know.
static bool is_lost(const tt__federated *f)
{
    int32_t n = 0;
    for (int32_t i = 0; i < f->round.n; i++)
        n += f->round.client[i].fate == TT_FATE_TAKEN &&
             f->d->tally[(int64_t)i * TT_HEAD_N + TT_HEAD_REFUSED] == 0;
    return f->params->noise <= 0 &&
           n < (f->params->masks ? f->round.n / 2 + 1 : 1);
}

static void count(tt__federated *f)
{
    f->did.made++;
    f->did.lost += is_lost(f);
    for (int32_t i = 0; i < f->round.n; i++) {
        const tt_round_client *r = &f->round.client[i];
        const double *v = &f->d->tally[(int64_t)i * TT_HEAD_N];
        tt__client *c = &f->client[r->client];
        const bool is_refused = v[TT_HEAD_REFUSED] != 0;
        f->did.asked++;
        f->did.late += r->fate == TT_FATE_LATE;
        f->did.dropped += r->fate == TT_FATE_DROPPED;
        c->asked++;
        c->late += r->fate == TT_FATE_LATE;
        c->dropped += r->fate == TT_FATE_DROPPED;
        note(f, r);
        if (r->fate != TT_FATE_TAKEN)
            continue;
        c->taken++;
        c->refused += is_refused;
        c->batches += f->rules.steps[r->client];
        c->up += v[TT_HEAD_BYTES];
        c->has_kept |= f->kept_bytes > 0 && v[TT_HEAD_BYTES] > 0;
    }
    f->now += f->round.seconds;
}

static void add_up(const tt__federated *f, tt_step_result *r)
{
    for (int32_t i = 0; i < f->round.n; i++) {
        const double *v = &f->d->tally[(int64_t)i * TT_HEAD_N];
        if (v[TT_HEAD_REFUSED] != 0)
            continue;
        r->loss += v[TT_HEAD_LOSS];
        r->count += v[TT_HEAD_COUNT];
        r->correct += v[TT_HEAD_CORRECT];
    }
    r->loss = r->count > 0 ? r->loss / r->count : f->loss;
}

static tt_status tell(tt__federated *f, tt_step_result *result_out)
{
    tt_dynamic *d = f->d;
    const tt_job *job = d->job;
    const int64_t n = (int64_t)f->round.n * TT_HEAD_N;
    double *wish = &d->tally[n];
    wish[STOP] = job->wants_stop ? 1 : 0;
    wish[SAVE] = job->wants_save ? 1 : 0;
    wish[NORM] = is_server(f) ? d->norm : 0;
    TT_TRY(tt__post_sum(d, d->tally, n + N_WISHES));
    tt_step_result r = {.norm = wish[NORM]};
    add_up(f, &r);
    f->loss = r.loss;
    r.stop = wish[STOP] > 0;
    r.save = wish[SAVE] > 0 && !r.stop;
    *result_out = r;
    count(f);
    return r.count > 0 || f->round.taken == 0
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "the changes of all %d clients of round %lld were "
                         "refused: they are not finite, longer than "
                         "exchange.limit=%g, or of a loss beyond the limit of "
                         "train.spike",
                         f->round.taken, (long long)job->step,
                         f->params->ps.limit);
}

tt_status tt__federated_step(tt_dynamic *d, tt_step_result *result_out)
{
    tt__federated *f = d->federated;
    tt_job *job = d->job;
    int32_t k = 0;
    tt_round_draw(&f->round, &f->rules, job->step);
    memset(d->tally, 0,
           (size_t)(f->round.n * TT_HEAD_N + N_WISHES) * sizeof *d->tally);
    if (job->peers.wire != NULL)
        tt_comm_wire_step(job->peers.wire, job->step + 1);
    TT_TRY(begin(f));
    for (int32_t i = 0; i < f->round.n; i++)
        if (f->round.client[i].fate == TT_FATE_TAKEN)
            TT_TRY(ask(f, k++, i));
    TT_TRY(update(f));
    job->step++;
    return tell(f, result_out);
}
