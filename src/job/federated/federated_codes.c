// federated_codes - clients' changes as codes: exchange.codec on the way to the server.
//
// Phones send slowly, so a client encodes what it has changed (Konecny 2016, FedPAQ). The
// coder is that of job/dynamic: a client is a worker with one shard, its round the number of
// its code. So a code at random is a function of (seed, client, round), whoever computes it.
//
//   client   change -> judged -> clipped -> + residual -> encode -> code
//   server   code -> decode -> judged -> clipped -> weighted sum
//
// What the server adds up is what it has decoded, and that may be longer than the change was:
// codes are rounded, some at random, and residuals come on top. So limit and clip hold for it
// once more. With noise the bound of what a client adds to the sum is then the clip, whatever
// its code and its residual are, which is all that the arithmetic of privacy asks for. What is
// clipped there is in no residual.
//
// A control variate's change goes behind the code as it is: a code of it would leave the
// client's variate and the server's apart.
//
// The cost: on each rank the plan of the coder and room for a code; with residuals (or states
// of the codec) a vector for each client that was ever asked, on the rank client % ranks, in
// memory and in checkpoints.

#include "base/alloc.h"
#include "job/dynamic/coder.h"
#include "job/federated/federated.h"

#include <math.h>
#include <string.h>

tt_status tt__federated_codes_check(const tt_job *job)
{
    const char *codec = tt_exchange_codec(&job->exchange)->name;
    if (!tt_exchange_is_coded(&job->exchange))
        return TT_OK;
    if (tt__federated_settings(job)->masks)
        return tt_fail(TT_ERR_ARG,
                       "exchange.masks adds up whole numbers that nobody can "
                       "read alone, and codes (exchange.codec=%s) are decoded "
                       "one by one; exchange.codec=none would do",
                       codec);
    if (strcmp(codec, "factors") == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.policy=federated: a client's change comes of "
                       "several steps and has no two factors, which "
                       "exchange.codec=factors sends; exchange.codec=powersgd "
                       "would do");
    if (strcmp(codec, "dgc") == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.codec=dgc is a code of gradients, with a "
                       "momentum of its own, and clients send changes of "
                       "weights; exchange.codec=topk would do");
    return TT_OK;
}

// Bytes of a client's change of its control variate.
static int64_t control_bytes(const tt__federated *f)
{
    return f->control != NULL ? tt_vector_bytes(&f->weights) : 0;
}

tt_status tt__federated_codes_open(tt__federated *f)
{
    tt_dynamic *d = f->d;
    TT_TRY(tt__coder_open(d));
    f->kept_bytes = control_bytes(f) + tt__coder_state_bytes(d);
    if (d->coder == NULL)
        return TT_OK;
    f->code = tt_alloc(tt__coder_most(d) + 8);
    f->code_at = tt_arena_alloc(d->arena, (d->job->peers.size + 1) *
                                              (int64_t)sizeof *f->code_at);
    return f->code != NULL && f->code_at != NULL
               ? TT_OK
               : tt_fail(TT_ERR_NOMEM, "no memory for codes of clients");
}

tt_status tt__federated_keep(tt__federated *f, int32_t client)
{
    tt__client *c = &f->client[client];
    const int64_t states = tt__coder_state_bytes(f->d);
    if (f->kept_bytes == 0 || c->kept != NULL)
        return TT_OK;
    c->kept = tt_alloc(f->kept_bytes + 8);
    if (c->kept == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no memory for what client %d keeps between rounds",
                       client);
    if (states > 0)
        memcpy((char *)c->kept + control_bytes(f), tt__coder_begin(f->d),
               (size_t)states);
    return TT_OK;
}

tt_status tt__federated_encode(tt__federated *f, int32_t client,
                               tt__push_head *head)
{
    tt_dynamic *d = f->d;
    char *kept = f->client[client].kept;
    char *states = kept != NULL ? kept + control_bytes(f) : NULL;
    const tt__coder_input in = {.worker = client,
                                .number = d->job->step,
                                .vector = f->update,
                                .before = states,
                                .after = states};
    TT_TRY(tt__coder_write(d, &in, f->code, f->code_at));
    head->v[TT_HEAD_BYTES] = (double)(f->code_at[1] + control_bytes(f));
    return TT_OK;
}

tt_status tt__federated_code_posts(tt__federated *f, int32_t rank,
                                   const tt__push_head *head, tt__post post[2])
{
    const int64_t control = control_bytes(f);
    const int64_t code = (int64_t)head->v[TT_HEAD_BYTES] - control;
    void *change = tt__federated_control(f);
    if (code > tt__coder_most(f->d))
        return tt_fail(TT_ERR_ARG, "the code of a client's change is too long");
    post[0] = (tt__post){rank, 0, f->code, f->code, code};
    post[1] = (tt__post){rank, 0, change, change, control};
    return TT_OK;
}

tt_status tt__federated_decode(tt__federated *f, int32_t client,
                               const tt__push_head *head, bool *is_good_out)
{
    tt_dynamic *d = f->d;
    const int64_t bytes = (int64_t)head->v[TT_HEAD_BYTES] - control_bytes(f);
    TT_TRY(
        tt__coder_decode(d, client, d->job->step, f->code, bytes, f->update));
    const double length = sqrt(tt_vector_squares(&d->all, f->update));
    *is_good_out = tt__federated_takes(f, length);
    if (*is_good_out)
        tt__federated_clip(f, length);
    return TT_OK;
}
