// use - uses a model: logits, text, and the tokens of text.
//
// Inference has a graph and memory of its own, without gradients. It is made when it
// is first asked for, and takes the weights again after they have changed
// (tt__api_touch). So a program may train a step, generate a text, and train on.

#include "api/session.h"
#include "data/tokenizer/detokenizer.h"
#include "job/infer.h"
#include "text/generator.h"

#include <math.h>
#include <string.h>

void tt__api_forget_use(tutti_session *session)
{
    tt_inference_close(session->infer);
    tt_generator_close(session->generator);
    session->infer = NULL;
    session->generator = NULL;
}

// ---- logits --------------------------------------------------------------

// The model without gradients, with the current weights.
static tt_status need_infer(tutti_session *session)
{
    TT_TRY(tt__api_need_build(session));
    if (session->infer == NULL) {
        TT_TRY(tt_inference_open(session->job,
                                 &(tt_inference_options){.wants_logits = true},
                                 &session->infer));
        session->infer_is_old = true;
    }
    if (session->infer_is_old)
        TT_TRY(tt_inference_sync(session->infer, session->job, false));
    session->infer_is_old = false;
    return TT_OK;
}

static tt_status value_type(tutti_session *session, tt_val v,
                            tutti_type *type_out)
{
    const tt_type *type = &session->infer->graph->value[v.id].type;
    return tt__api_type(type->dtype, &type->shape, session->arena, type_out);
}

static tt_status get_types(tutti_session *session, tutti_types *types_out)
{
    tutti_types types = {0};
    TT_TRY(need_infer(session));
    const tt_graph *g = session->infer->graph;
    TT_TRY(value_type(session, tt_graph_find(g, "x"), &types.x));
    TT_TRY(value_type(session, tt_graph_find(g, "y"), &types.y));
    TT_TRY(value_type(session, session->infer->io.logits, &types.logits));
    types.logits.dtype = TUTTI_F32; // as tutti_forward gives them
    *types_out = types;
    return TT_OK;
}

tutti_status tutti_get_types(tutti_session *session, tutti_types *types_out)
{
    TT_API_NEED(session);
    TT_API_NEED(types_out);
    return tt__api_result(get_types(session, types_out));
}

static tt_status check_bytes(const char *what, const tutti_type *type,
                             int64_t bytes)
{
    const int64_t need = type->count * tutti_dtype_bytes(type->dtype);
    return bytes == need
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s [%s] has %lld bytes, not %lld", what,
                         type->shape, (long long)need, (long long)bytes);
}

static tt_status forward(tutti_session *session, const tutti_forward_args *args,
                         tutti_result *result_out)
{
    tutti_types types;
    tt_inference_result result = {0};
    TT_TRY(get_types(session, &types));
    TT_TRY(check_bytes("x", &types.x, args->x_bytes));
    if (args->y != NULL)
        TT_TRY(check_bytes("y", &types.y, args->y_bytes));
    if (args->logits != NULL)
        TT_TRY(check_bytes("logits", &types.logits, args->logits_bytes));
    TT_TRY(tt_inference_batch(session->infer, args->x, args->y, &result));
    if (args->logits != NULL)
        TT_TRY(tt_inference_logits(session->infer, args->logits));
    if (result_out != NULL)
        *result_out = (tutti_result){
            .loss = result.count > 0 ? result.loss / result.count : (double)NAN,
            .count = result.count,
            .correct = result.correct,
            .norm = (double)NAN};
    return TT_OK;
}

tutti_status tutti_forward(tutti_session *session,
                           const tutti_forward_args *args,
                           tutti_result *result_out)
{
    TT_API_NEED(session);
    TT_API_NEED(args);
    TT_API_NEED(args->x);
    return tt__api_result(forward(session, args, result_out));
}

// ---- tokens --------------------------------------------------------------

static tt_status need_tokenizer(const tutti_session *session)
{
    return session->tokenizer != NULL
               ? TT_OK
               : tt_fail(TT_ERR_STATE,
                         "the session has no tokenizer: call "
                         "tutti_set_tokenizer, or open a folder that has one");
}

static tt_status set_tokenizer(tutti_session *session, const char *spec)
{
    tt_tokenizer *tokenizer = NULL;
    if (strcmp(spec, "chars") == 0)
        return tt_fail(TT_ERR_ARG, "a tokenizer of characters is made from a "
                                   "text: name the tokenizer.json of a run");
    TT_TRY(tt_tokenizer_open(spec, NULL, 0, &tokenizer));
    tt_generator_close(session->generator); // it uses the old tokenizer
    session->generator = NULL;
    tt_tokenizer_close(session->tokenizer);
    session->tokenizer = tokenizer;
    return TT_OK;
}

tutti_status tutti_set_tokenizer(tutti_session *session, const char *spec)
{
    TT_API_NEED(session);
    TT_API_NEED(spec);
    return tt__api_result(set_tokenizer(session, spec));
}

static tt_status encode(const tutti_session *session, const tt_text *text,
                        int32_t *ids, int64_t room, int64_t *n_out)
{
    tt_ids own = {0};
    TT_TRY(need_tokenizer(session));
    if (text->n < 0 || room < 0)
        return tt_fail(TT_ERR_ARG, "a negative number of bytes or ids");
    tt_status status = tt_tokenizer_encode(session->tokenizer, text->bytes,
                                           text->n, true, &own);
    if (status == TT_OK && ids != NULL && own.n > room)
        status = tt_fail(TT_ERR_ARG,
                         "the text has %lld tokens, but there is "
                         "room for %lld",
                         (long long)own.n, (long long)room);
    if (status == TT_OK) {
        if (ids != NULL && own.n > 0)
            memcpy(ids, own.v, (size_t)own.n * sizeof *ids);
        *n_out = own.n;
    }
    tt_ids_fini(&own);
    return status;
}

tutti_status tutti_encode(const tutti_session *session, const char *text,
                          int64_t bytes, int32_t *ids, int64_t room,
                          int64_t *n_out)
{
    TT_API_NEED(session);
    TT_API_NEED(text);
    TT_API_NEED(n_out);
    const tt_text own = {text, bytes < 0 ? (int64_t)strlen(text) : bytes};
    return tt__api_result(encode(session, &own, ids, room, n_out));
}

static tt_status decode(const tutti_session *session, const int32_t *ids,
                        int64_t n, tutti_write_fn *write, void *user)
{
    tt_str text = {0}, clean = {0};
    TT_TRY(need_tokenizer(session));
    tt_status status = tt_tokenizer_decode(session->tokenizer, ids, n, &text);
    if (status == TT_OK) {
        tt__utf8_clean(tt_str_text(&text), text.n, &clean);
        status = tt_str_status(&clean);
    }
    if (status == TT_OK)
        write(user, tt_str_text(&clean));
    tt_str_fini(&text);
    tt_str_fini(&clean);
    return status;
}

tutti_status tutti_decode(const tutti_session *session, const int32_t *ids,
                          int64_t n, tutti_write_fn *write, void *user)
{
    TT_API_NEED(session);
    TT_API_NEED(write);
    if (n != 0)
        TT_API_NEED(ids);
    return tt__api_result(decode(session, ids, n, write, user));
}

// ---- text ----------------------------------------------------------------

typedef struct passing {
    tutti_write_fn *write;
    void *user;
} passing;

static tt_status pass_on(void *user, const char *text, int64_t n)
{
    const passing *p = user;
    (void)n; // it is terminated
    p->write(p->user, text);
    return TT_OK;
}

static tt_status need_generator(tutti_session *session)
{
    TT_TRY(tt__api_need_build(session));
    if (session->generator == NULL) {
        TT_TRY(tt_generator_open(session->job, session->tokenizer,
                                 &session->generator));
        if (session->folder != NULL)
            TT_TRY(tt_generator_describe(session->generator, session->folder));
        session->generator_is_old = true;
    }
    if (session->generator_is_old)
        TT_TRY(tt_generator_sync(session->generator, session->job, false));
    session->generator_is_old = false;
    return TT_OK;
}

static tt_status generate(tutti_session *session,
                          const tutti_generate_options *o, passing *to,
                          tutti_generated *result_out)
{
    tt_generate_result result = {0};
    const char *prompt = o->prompt != NULL ? o->prompt : "";
    TT_TRY(need_generator(session));
    if (o->tokens < 1 || !(o->temperature >= 0) || o->top_k < 0 ||
        !(o->top_p >= 0 && o->top_p <= 1))
        return tt_fail(TT_ERR_ARG, "text needs tokens from 1 on, a temperature "
                                   "and a top_k from 0 on, and a top_p from 0 "
                                   "to 1");
    const tt_generate_request request = {
        .prompt = prompt,
        .n_prompt = (int64_t)strlen(prompt),
        .tokens = o->tokens,
        .sampler = {.temperature = o->temperature,
                    .top_k = o->top_k,
                    .top_p = o->top_p > 0 ? o->top_p : 1,
                    .seed = o->seed},
        .number = o->number,
        .write = pass_on,
        .user = to,
        .stop = o->stop,
    };
    TT_TRY(tt_generate(session->generator, &request, &result));
    if (result_out != NULL)
        *result_out = (tutti_generated){.prompt_tokens = result.n_prompt,
                                        .tokens = result.n_tokens,
                                        .is_end = result.is_end};
    return TT_OK;
}

tutti_status tutti_generate(tutti_session *session,
                            const tutti_generate_options *options,
                            tutti_write_fn *write, void *user,
                            tutti_generated *result_out)
{
    passing to = {write, user};
    TT_API_NEED(session);
    TT_API_NEED(options);
    TT_API_NEED(write);
    return tt__api_result(generate(session, options, &to, result_out));
}
