// generate - the loop over tokens: draw one from the logits, hand it out, feed it
// back.
//
// The cache has room for `context` tokens. When it is full, the text goes on with
// the last half of the context read again from the start. Keeping half means that
// this happens once per context/2 tokens, so its cost per token stays small;
// keeping all but one token would read the context anew for every token.
//
// A draw is a function of seed, text number and position in the text. The same
// request gives the same text on every machine that computes the same logits.

#include "text/generate.h"

#include "base/alloc.h"
#include "base/clock.h"

#include <string.h>

typedef struct text { // all tokens so far
    tt_ids ids;
    tt_decoder *decoder;
    const tt_generate_ids *request;
    tt_sampler *sampler;
    tt_generate_result result;
} text;

// How many tokens are kept when the context is full; see above.
static int64_t kept_of(int64_t context)
{
    return context > 1 ? context / 2 : 1;
}

static tt_status begin(text *t)
{
    const tt_generate_ids *r = t->request;
    const int64_t context = tt_decoder_context(t->decoder);
    const double start = tt_clock_seconds();
    TT_TRY(tt_ids_reserve(&t->ids, r->n_prompt + r->tokens));
    memcpy(t->ids.v, r->prompt, (size_t)r->n_prompt * sizeof *r->prompt);
    t->ids.n = t->result.n_prompt = r->n_prompt;
    if (context > 0 && r->n_prompt > context)
        t->result.n_cut = r->n_prompt - context;
    TT_TRY(tt_decoder_reset(t->decoder));
    TT_TRY(tt_decoder_feed(t->decoder, t->ids.v + t->result.n_cut,
                           t->ids.n - t->result.n_cut));
    t->result.prompt_seconds = tt_clock_seconds() - start;
    return TT_OK;
}

// Feeds the newest token. If the context is full, begins again with the tokens that
// are kept; the newest is the last of these.
static tt_status feed_newest(text *t)
{
    const int64_t context = tt_decoder_context(t->decoder);
    if (context == 0 || tt_decoder_position(t->decoder) < context)
        return tt_decoder_feed(t->decoder, t->ids.v + t->ids.n - 1, 1);
    const int64_t kept = kept_of(context);
    TT_TRY(tt_decoder_reset(t->decoder));
    return tt_decoder_feed(t->decoder, t->ids.v + t->ids.n - kept, kept);
}

static bool is_stopped(const text *t)
{
    return t->request->stop != NULL && *t->request->stop != 0;
}

static bool is_end(const tt_generate_ids *r, int32_t id)
{
    bool found = id == r->end;
    for (int64_t i = 0; i < r->n_other_ends && !found; i++)
        found = id == r->other_ends[i];
    return found;
}

static tt_status go_on(text *t)
{
    const tt_generate_ids *r = t->request;
    const int64_t all = tt_decoder_vocab(t->decoder);
    const int64_t vocab = r->vocab > 0 && r->vocab < all ? r->vocab : all;
    for (int64_t i = 0; i < r->tokens && !is_stopped(t); i++) {
        int32_t id = 0;
        TT_TRY(tt_sampler_draw(t->sampler, tt_decoder_logits(t->decoder), vocab,
                               (r->number << 32) + i, &id));
        t->result.is_end = is_end(r, id);
        if (t->result.is_end)
            break;
        t->ids.v[t->ids.n++] = id;
        t->result.n_tokens++;
        TT_TRY(r->token(r->user, id));
        if (i + 1 < r->tokens)
            TT_TRY(feed_newest(t));
    }
    return TT_OK;
}

tt_status tt_decoder_generate(tt_decoder *decoder, const tt_generate_ids *ids,
                              tt_generate_result *result_out)
{
    text t = {.decoder = decoder, .request = ids};
    tt_status status =
        tt_sampler_create(&ids->sampler, tt_decoder_vocab(decoder), &t.sampler);
    if (status == TT_OK)
        status = begin(&t);
    const double start = tt_clock_seconds();
    if (status == TT_OK)
        status = go_on(&t);
    t.result.token_seconds = tt_clock_seconds() - start;
    if (status == TT_OK && result_out != NULL)
        *result_out = t.result;
    tt_sampler_destroy(t.sampler);
    tt_ids_fini(&t.ids);
    return status;
}
