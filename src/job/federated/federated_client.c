// federated_client - what a client does in a round: steps of plain descent from the
// server's weights w on, over batches of its own data.
//
//   y = w;  for each batch:  y -= lr (g(y) + proximal (y - w) + c - c_k)
//
// It sends y - w. The last two terms are SCAFFOLD's: the server's control variate c is
// about the gradient of all clients, the client's own c_k that of its data, so their
// difference takes the drift to its own data out. Afterwards (option II of the paper)
//
//   c_k += (w - y) / (steps lr) - c         and the server hears of the change
//
// Statistics of batch norm go with the weights: what they have moved is part of y - w.

#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

void *tt__federated_control(const tt__federated *f)
{
    return tt__element_at(f->d, f->update, f->d->all.n);
}

// The gradient of one batch at d->local, as a step of it, in d->mean.
static tt_status gradient(tt__federated *f, const tt__client *c, int64_t number,
                          tt__worker_feeding *feeding, tt__push_head *head)
{
    tt_dynamic *d = f->d;
    const tt_vector_span *n = &f->weights;
    const double pull = f->params->ps.proximal;
    tt__push_head one = {0};
    TT_TRY(tt__worker_run(d, number, d->local, feeding, &one));
    TT_TRY(tt__worker_read(d, d->local, d->mean));
    tt_vector_scale(n, 1 / one.v[TT_HEAD_COUNT], d->mean);
    if (pull > 0) {
        tt_vector_add(n, pull, d->local, d->mean);
        tt_vector_add(n, -pull, f->begin, d->mean);
    }
    if (f->control != NULL) {
        tt_vector_add(n, 1, f->control, d->mean);
        tt_vector_add(n, -1, c->kept, d->mean);
    }
    for (int i = TT_HEAD_LOSS; i <= TT_HEAD_CORRECT; i++)
        head->v[i] += one.v[i];
    return TT_OK;
}

static tt_status train(tt__federated *f, int32_t client, tt__push_head *head)
{
    tt_dynamic *d = f->d;
    const tt__client *c = &f->client[client];
    const tt_vector_span *n = &f->weights;
    const tt_vector_span buffers = {n->is_wide, d->all.n - n->n};
    tt__worker_feeding feeding = {.d = d,
                                  .first = client * d->job->options.batch};
    for (int64_t h = 0; h < d->job->local_steps; h++) {
        TT_TRY(gradient(f, c, c->batches + h, &feeding, head));
        tt_vector_add(n, -f->params->ps.local_lr, d->mean, d->local);
        tt_vector_add(&buffers, 1, tt__element_at(d, d->mean, n->n),
                      tt__element_at(d, d->local, n->n));
    }
    return TT_OK;
}

bool tt__federated_takes(const tt__federated *f, double length)
{
    const double limit = f->params->ps.limit;
    return isfinite(length) && (limit <= 0 || length <= limit);
}

static void judge(const tt__federated *f, tt__push_head *head)
{
    double *v = head->v;
    v[TT_HEAD_SQUARES] = tt_vector_squares(&f->d->all, f->update);
    const double loss = v[TT_HEAD_LOSS] / v[TT_HEAD_COUNT];
    const bool is_good =
        tt__federated_takes(f, sqrt(v[TT_HEAD_SQUARES])) && isfinite(loss);
    v[TT_HEAD_REFUSED] = is_good ? 0 : 1;
    tt__dynamic_judge(f->d, v);
}

// A change that is too long is shortened, as a whole.
void tt__federated_clip(const tt__federated *f, double length)
{
    const double most = f->params->clip;
    if (most > 0 && length > most)
        tt_vector_scale(&f->d->all, most / length, f->update);
}

// What its control variate changes by, behind its change of weights.
static void move_control(tt__federated *f, int32_t client)
{
    const tt_dynamic *d = f->d;
    const tt_vector_span *n = &f->weights;
    void *change = tt__federated_control(f);
    memcpy(change, f->update, (size_t)tt_vector_bytes(n));
    tt_vector_scale(
        n, -1 / ((double)d->job->local_steps * f->params->ps.local_lr), change);
    tt_vector_add(n, -1, f->control, change);
    tt_vector_add(n, 1, change, f->client[client].kept);
}

tt_status tt__federated_client(tt__federated *f, int32_t client,
                               tt__push_head *head)
{
    tt_dynamic *d = f->d;
    const size_t bytes = (size_t)tt_vector_bytes(&d->all);
    *head = (tt__push_head){0};
    d->job->worker = client;
    d->job->number = f->client[client].batches;
    d->job->local_steps = f->rules.steps[client];
    TT_TRY(tt__federated_keep(f, client));
    memcpy(d->local, f->begin, bytes);
    TT_TRY(train(f, client, head));
    memcpy(f->update, d->local, bytes);
    tt_vector_add(&d->all, -1, f->begin, f->update);
    judge(f, head);
    if (head->v[TT_HEAD_REFUSED] != 0)
        return TT_OK;
    tt__federated_clip(f, sqrt(head->v[TT_HEAD_SQUARES]));
    if (f->control != NULL)
        move_control(f, client);
    if (d->coder != NULL)
        return tt__federated_encode(f, client, head);
    head->v[TT_HEAD_BYTES] = (double)tt_vector_bytes(&f->update_span);
    return TT_OK;
}
