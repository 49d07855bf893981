// generate_text - prompts in, characters out.
//
// Tokens are not characters: with byte-level BPE one character may be spread over
// several tokens, and a token may end within one. So bytes are collected, and only
// whole characters are handed out (utf8.c). The detokenizer is shown the prompt
// first, without output, because how a token is spelled can depend on the one
// before it: a blank in front of the first word, for instance.

#include "base/alloc.h"
#include "data/tokenizer/detokenizer.h"
#include "job/internal.h"
#include "text/generator.h"

// ---- the model -----------------------------------------------------------

static tt_status make(tt_generator *g, const tt_job *job)
{
    tt_train_recipe recipe = {0};
    tt__recipe_precision(job->options.precision, &recipe);
    const tt_decoder_options options = {
        .backend = job->backend,
        .model = job->model,
        .params = job->model_params,
        .dtype = recipe.dtype,
        .master = recipe.master,
        .context = job->io.seq, // the model was trained for no longer ones
    };
    g->arena = tt_arena_create();
    if (g->arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    TT_TRY(tt_decoder_open(&options, &g->decoder));
    TT_TRY(tt_tensors_list(tt_decoder_graph(g->decoder), NULL, g->arena,
                           &g->weights));
    int64_t n = 0;
    for (int64_t i = 0; i < g->weights.n; i++)
        if (!tt_decoder_is_memory(g->decoder, g->weights.v[i].val))
            g->weights.v[n++] = g->weights.v[i];
    g->weights.n = n;
    return TT_OK;
}

tt_status tt_generator_open(const tt_job *job, const tt_tokenizer *tokenizer,
                            tt_generator **generator_out)
{
    tt_generator *g = tt_alloc(sizeof *g);
    if (g == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a model");
    g->tokenizer = tokenizer;
    g->begin = -1;
    g->end = tokenizer != NULL ? tt_tokenizer_end(tokenizer) : -1;
    const tt_status status = make(g, job);
    if (status == TT_OK)
        *generator_out = g;
    else
        tt_generator_close(g);
    return status;
}

void tt_generator_close(tt_generator *g)
{
    if (g == NULL)
        return;
    tt_decoder_close(g->decoder);
    tt_tokenizer_close(g->own_tokenizer);
    tt_job_close(g->own_job);
    if (g->arena != NULL)
        tt_arena_destroy(g->arena);
    tt_free(g);
}

tt_status tt_generator_sync(tt_generator *g, const tt_job *job, bool use_ema)
{
    if (job->exec == NULL)
        return tt_fail(TT_ERR_STATE, "there are no weights: start the job");
    return tt_tensors_copy(job->exec, &job->tensors,
                           tt_decoder_exec(g->decoder), &g->weights, use_ema);
}

tt_status tt_generator_load(tt_generator *g, const tt_weights *weights,
                            tt_str *notes)
{
    tt_weights_fit fit = {0};
    tt_str own = {0};
    tt_status status = tt_weights_load(weights, tt_decoder_exec(g->decoder),
                                       &g->weights, &own, &fit);
    if (status == TT_OK && fit.n_missing > 0)
        status = tt_fail(TT_ERR_ARG, "%s does not fit the model: %s",
                         tt_weights_folder(weights), tt_str_text(&own));
    if (status == TT_OK && notes != NULL && fit.n_extra > 0)
        tt_str_add(notes, tt_str_text(&own));
    tt_str_fini(&own);
    return status;
}

// ---- prompts -------------------------------------------------------------

static tt_status add_id(tt_ids *ids, int64_t id)
{
    TT_TRY(tt_ids_reserve(ids, 1));
    ids->v[ids->n++] = (int32_t)id;
    return TT_OK;
}

// Ids as text: "15 7 2" or "15,7,2".
static tt_status read_ids(const char *text, int64_t n, tt_ids *ids)
{
    int64_t i = 0;
    while (i < n) {
        if (text[i] == ' ' || text[i] == ',' || text[i] == '\n') {
            i++;
            continue;
        }
        int64_t id = 0, digits = 0;
        for (; i < n && text[i] >= '0' && text[i] <= '9' && digits < 10; i++) {
            id = 10 * id + (text[i] - '0');
            digits++;
        }
        if (digits == 0 || id > INT32_MAX)
            return tt_fail(TT_ERR_ARG,
                           "the model has no tokenizer, so the prompt must be "
                           "ids (\"15 7 2\"); byte %lld is in none",
                           (long long)i);
        TT_TRY(add_id(ids, id));
    }
    return TT_OK;
}

// Without a prompt a text begins with the token that ends texts, as documents in
// training data do. If there is none, with a new line.
static tt_status add_beginning(const tt_generator *g, tt_ids *ids)
{
    if (g->end >= 0 && g->end < tt_decoder_vocab(g->decoder))
        return add_id(ids, g->end);
    if (g->tokenizer != NULL)
        (void)tt_tokenizer_encode(g->tokenizer, "\n", 1, false, ids);
    return ids->n > 0 ? TT_OK : add_id(ids, 0);
}

static tt_status read_prompt(const tt_generator *g,
                             const tt_generate_request *r, tt_ids *ids)
{
    if (g->begin >= 0)
        TT_TRY(add_id(ids, g->begin));
    if (g->tokenizer == NULL)
        TT_TRY(read_ids(r->prompt, r->n_prompt, ids));
    else if (r->n_prompt > 0)
        TT_TRY(tt_tokenizer_encode(g->tokenizer, r->prompt, r->n_prompt, true,
                                   ids));
    return ids->n > 0 ? TT_OK : add_beginning(g, ids);
}

// ---- characters ----------------------------------------------------------

typedef struct stream {
    const tt_generator *g;
    const tt_generate_request *request;
    tt_detokenizer *detokenizer; // NULL: texts are ids
    tt_str pending, clean;
} stream;

// Hands out the first n pending bytes, with invalid UTF-8 replaced.
static tt_status flush(stream *s, int64_t n)
{
    if (n == 0)
        return TT_OK;
    tt_str_clear(&s->clean);
    tt__utf8_clean(s->pending.text, n, &s->clean);
    TT_TRY(tt_str_status(&s->clean));
    tt_str rest = {0};
    tt_str_add_bytes(&rest, s->pending.text + n, s->pending.n - n);
    const tt_status status = tt_str_status(&rest);
    tt_str_fini(&s->pending);
    s->pending = rest;
    TT_TRY(status);
    return s->request->write(s->request->user, tt_str_text(&s->clean),
                             s->clean.n);
}

static tt_status add_token(void *user, int32_t id)
{
    stream *s = user;
    if (s->g->tokenizer == NULL)
        tt_str_addf(&s->pending, " %ld", (long)id);
    else
        TT_TRY(tt_detokenizer_next(s->detokenizer, id, &s->pending));
    TT_TRY(tt_str_status(&s->pending));
    return flush(s, tt__utf8_whole(tt_str_text(&s->pending), s->pending.n));
}

// Shows the prompt to the detokenizer and drops its output. Special tokens are left
// out: they are no text that could be continued.
static tt_status begin_stream(stream *s, const tt_ids *prompt)
{
    tt_str unseen = {0};
    if (s->g->tokenizer == NULL)
        return TT_OK;
    TT_TRY(tt_detokenizer_open(s->g->tokenizer, &s->detokenizer));
    tt_status status = TT_OK;
    for (int64_t i = 0; i < prompt->n && status == TT_OK; i++)
        if (tt_tokenizer_token(s->g->tokenizer, prompt->v[i]) != NULL &&
            !tt_tokenizer_is_special(s->g->tokenizer, prompt->v[i]))
            status = tt_detokenizer_next(s->detokenizer, prompt->v[i], &unseen);
    if (status == TT_OK)
        status = tt_detokenizer_flush(s->detokenizer, &unseen);
    tt_str_fini(&unseen);
    return status;
}

static tt_status end_stream(stream *s)
{
    if (s->detokenizer != NULL)
        TT_TRY(tt_detokenizer_flush(s->detokenizer, &s->pending));
    return flush(s, s->pending.n);
}

tt_status tt_generate(tt_generator *g, const tt_generate_request *request,
                      tt_generate_result *result_out)
{
    stream s = {.g = g, .request = request};
    tt_ids prompt = {0};
    tt_status status = read_prompt(g, request, &prompt);
    const tt_generate_ids ids = {
        .prompt = prompt.v,
        .n_prompt = prompt.n,
        .tokens = request->tokens,
        .vocab = g->tokenizer != NULL ? tt_tokenizer_vocab(g->tokenizer) : 0,
        .end = g->end,
        .other_ends = g->other_ends,
        .n_other_ends = g->n_other_ends,
        .sampler = request->sampler,
        .number = request->number,
        .token = add_token,
        .user = &s,
        .stop = request->stop,
    };
    if (status == TT_OK)
        status = begin_stream(&s, &prompt);
    if (status == TT_OK)
        status = tt_decoder_generate(g->decoder, &ids, result_out);
    if (status == TT_OK)
        status = end_stream(&s);
    tt_detokenizer_close(s.detokenizer);
    tt_ids_fini(&prompt);
    tt_str_fini(&s.pending);
    tt_str_fini(&s.clean);
    return status;
}
