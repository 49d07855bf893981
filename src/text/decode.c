// decode - token by token with a key-value cache.
//
// To continue a text, a causal model needs the keys and values of all earlier
// tokens in each layer, not their activations. The decode form of a model keeps
// them as BUFFER states of its graph. So a plan for one token reads the states,
// adds its own keys and values, and gives the logits for the next token:
//
//   prompt of n tokens   chunk | chunk | chunk | last token     -> logits
//                        one plan for `size` tokens    plan for one token
//
// Reading a prompt token by token would be slow: each token reads all weights from
// memory for one row of work. So a second plan reads many tokens at once. It is
// made for the prompt's length, gets copies of the states, and is closed
// afterwards; the keys and values are copied back. Where there is no memory for it,
// the prompt is read token by token. The result is the same.
//
// A model without a decode form (can_decode) is run over a window of its whole
// context for each new token. That is right for any causal model, since later
// positions do not influence earlier ones, but it costs a whole forward pass per
// token.

#include "text/decode.h"

#include "base/alloc.h"
#include "ops/gradops.h"

#include <string.h>

enum {
    CHUNK = 64, // tokens at once: products are near their full rate
    FEWEST = 8, // tokens for which a plan of their own pays
};

typedef struct stage { // a plan for `seq` new tokens
    int64_t seq;
    tt_graph *graph;
    tt_plan *plan;
    tt_exec *exec;
} stage;

struct tt_decoder {
    tt_decoder_options options;
    stage one; // for a single token, or for the whole window
    int64_t vocab, context, position;
    double *logits;
    int32_t *window; // ids, for models without a decode form; else NULL
    void *raw;       // logits as the graph has them
};

static bool is_windowed(const tt_decoder *d)
{
    return !d->options.model->can_decode;
}

// ---- plans ---------------------------------------------------------------

static void stage_close(stage *s)
{
    tt_exec_destroy(s->exec);
    tt_plan_destroy(s->plan);
    tt_graph_destroy(s->graph);
    *s = (stage){0};
}

// Builds the decode form. The plan for a prompt wants no logits: it only fills the
// cache.
static tt_status build(const tt_decoder *d, bool wants_logits, tt_model_io *io,
                       tt_graph **graph_out)
{
    const tt_decoder_options *o = &d->options;
    tt_builder b;
    TT_TRY(tt_builder_init(&b, &tt_grad_ops_default));
    b.dtype = o->dtype;
    b.master = o->master;
    b.is_training = false;
    b.reads_only = true;
    io->def = o->model;
    tt_status status = o->model->build(&b, o->params, io);
    if (status == TT_OK && wants_logits)
        tt_output(&b, "logits", io->logits);
    if (status == TT_OK)
        status = tt_builder_take(&b, graph_out);
    tt_builder_fini(&b);
    return status;
}

static tt_status stage_make(const tt_decoder *d, bool wants_logits,
                            tt_model_io *io, stage *s)
{
    tt_target *target = &d->options.backend->target;
    TT_TRY(build(d, wants_logits, io, &s->graph));
    TT_TRY(tt_plan_lower(s->graph, target, &(tt_lower_options){0}, &s->plan));
    TT_TRY(tt_plan_check_fit(s->plan, target->memory_bytes, NULL, 0));
    s->seq = io->seq;
    return tt_exec_create(s->plan, d->options.backend, &(tt_exec_options){0},
                          &s->exec);
}

static tt_status stage_open(const tt_decoder *d, bool wants_logits,
                            tt_model_io *io, stage *stage_out)
{
    stage s = {0};
    const tt_status status = stage_make(d, wants_logits, io, &s);
    if (status == TT_OK)
        *stage_out = s;
    else
        stage_close(&s);
    return status;
}

static tt_status run(const stage *s, const int32_t *ids, int64_t position)
{
    if (tt_is(tt_graph_find(s->graph, "position")))
        TT_TRY(tt_exec_set_scalar(s->exec, "position", (double)position));
    TT_TRY(tt_exec_write(s->exec, tt_graph_find(s->graph, "x"), ids));
    return tt_exec_run(s->exec, NULL, NULL);
}

// ---- states --------------------------------------------------------------

bool tt_decoder_is_memory(const tt_decoder *d, tt_val state)
{
    return !is_windowed(d) &&
           tt_graph_value(d->one.graph, state)->role == TT_ROLE_BUFFER;
}

static int64_t value_bytes(const tt_graph *g, int32_t v)
{
    const tt_type *type = &g->value[v].type;
    return tt_shape_count(&type->shape) * tt_dtype_bytes(type->dtype);
}

// Room for the largest state, zeroed.
static void *room_for_states(const tt_graph *g)
{
    int64_t most = 1;
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_role_is_state(g->value[v].role) && value_bytes(g, v) > most)
            most = value_bytes(g, v);
    return tt_alloc_aligned(most, 64);
}

static tt_status fail_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory to decode");
}

// Copies states between the two plans: the cache (`memory`), the weights, or both.
static tt_status copy_states(const stage *from, const stage *to, bool memory,
                             bool weights)
{
    const tt_graph *g = from->graph;
    void *room = room_for_states(g);
    tt_status status = room == NULL ? fail_memory() : TT_OK;
    for (int32_t v = 0; v < g->n_values && status == TT_OK; v++) {
        const bool is_memory = g->value[v].role == TT_ROLE_BUFFER;
        if (!tt_role_is_state(g->value[v].role) ||
            !(is_memory ? memory : weights))
            continue;
        status = tt_exec_read(from->exec, (tt_val){v}, room);
        if (status == TT_OK)
            status = tt_exec_write(
                to->exec, tt_graph_find(to->graph, g->value[v].name), room);
    }
    tt_free_aligned(room);
    return status;
}

tt_status tt_decoder_reset(tt_decoder *d)
{
    const tt_graph *g = d->one.graph;
    void *zeros = room_for_states(g);
    tt_status status = zeros == NULL ? fail_memory() : TT_OK;
    for (int32_t v = 0; v < g->n_values && status == TT_OK; v++)
        if (tt_decoder_is_memory(d, (tt_val){v}))
            status = tt_exec_write(d->one.exec, (tt_val){v}, zeros);
    tt_free_aligned(zeros);
    d->position = 0;
    return status;
}

// ---- opening -------------------------------------------------------------

static tt_status make(tt_decoder *d)
{
    tt_model_io io = {.batch = 1,
                      .seq = is_windowed(d) ? d->options.context : 1,
                      .decodes = !is_windowed(d),
                      .context = d->options.context};
    if (d->options.model->task != TT_TASK_TOKENS)
        return tt_fail(TT_ERR_ARG,
                       "%s is no language model: it has no text to "
                       "continue",
                       d->options.model->name);
    TT_TRY(stage_open(d, true, &io, &d->one));
    const tt_val logits = tt_graph_output_find(d->one.graph, "logits");
    const tt_shape *shape = &tt_graph_value(d->one.graph, logits)->type.shape;
    d->vocab = tt_shape_dim(shape, shape->ndim - 1);
    d->context = is_windowed(d) ? io.seq : io.context;
    d->logits = tt_alloc(d->vocab * (int64_t)sizeof *d->logits);
    d->raw = tt_alloc_aligned(value_bytes(d->one.graph, logits.id), 64);
    if (is_windowed(d))
        d->window = tt_alloc(io.seq * (int64_t)sizeof *d->window);
    if (d->logits == NULL || d->raw == NULL ||
        (is_windowed(d) && d->window == NULL))
        return fail_memory();
    return TT_OK;
}

tt_status tt_decoder_open(const tt_decoder_options *options,
                          tt_decoder **decoder_out)
{
    tt_decoder *d = tt_alloc(sizeof *d);
    if (d == NULL)
        return fail_memory();
    d->options = *options;
    const tt_status status = make(d);
    if (status == TT_OK)
        *decoder_out = d;
    else
        tt_decoder_close(d);
    return status;
}

void tt_decoder_close(tt_decoder *d)
{
    if (d == NULL)
        return;
    stage_close(&d->one);
    tt_free(d->logits);
    tt_free(d->window);
    tt_free_aligned(d->raw);
    tt_free(d);
}

tt_exec *tt_decoder_exec(tt_decoder *d)
{
    return d->one.exec;
}

const tt_graph *tt_decoder_graph(const tt_decoder *d)
{
    return d->one.graph;
}

int64_t tt_decoder_vocab(const tt_decoder *d)
{
    return d->vocab;
}

int64_t tt_decoder_context(const tt_decoder *d)
{
    return d->context;
}

int64_t tt_decoder_position(const tt_decoder *d)
{
    return d->position;
}

const double *tt_decoder_logits(const tt_decoder *d)
{
    return d->logits;
}

// ---- reading tokens ------------------------------------------------------

// Row `row` of the logits.
static tt_status take_logits(tt_decoder *d, int64_t row)
{
    const tt_val v = tt_graph_output_find(d->one.graph, "logits");
    const tt_dtype dtype = tt_graph_value(d->one.graph, v)->type.dtype;
    TT_TRY(tt_exec_read(d->one.exec, v, d->raw));
    for (int64_t i = 0; i < d->vocab; i++)
        d->logits[i] = tt_dtype_load(dtype, d->raw, row * d->vocab + i);
    return TT_OK;
}

// What the window holds after the last token does not matter to a causal model.
static tt_status feed_window(tt_decoder *d, const int32_t *ids, int64_t n)
{
    memcpy(d->window + d->position, ids, (size_t)n * sizeof *ids);
    TT_TRY(run(&d->one, d->window, 0));
    d->position += n;
    return take_logits(d, d->position - 1);
}

// Reads most of the tokens in chunks of equal size, so that one plan serves them
// all. A few tokens may be left over for the plan of one token.
static tt_status feed_chunks(tt_decoder *d, const int32_t *ids, int64_t n,
                             int64_t *done_out)
{
    const int64_t most = d->options.chunk > 0 ? d->options.chunk : CHUNK;
    const int64_t chunks = (n + most - 1) / most, size = n / chunks;
    tt_model_io io = {
        .batch = 1, .seq = size, .decodes = true, .context = d->context};
    stage many = {0};
    TT_TRY(stage_open(d, false, &io, &many));
    tt_status status = copy_states(&d->one, &many, d->position > 0, true);
    for (int64_t i = 0; i < chunks && status == TT_OK; i++)
        status = run(&many, ids + i * size, d->position + i * size);
    if (status == TT_OK)
        status = copy_states(&many, &d->one, true, false);
    stage_close(&many);
    TT_TRY(status);
    d->position += chunks * size;
    *done_out = chunks * size;
    return TT_OK;
}

static tt_status check_feed(const tt_decoder *d, const int32_t *ids, int64_t n)
{
    if (n < 1)
        return tt_fail(TT_ERR_ARG, "there is no token to read");
    if (d->context > 0 && n > d->context - d->position)
        return tt_fail(TT_ERR_ARG,
                       "%lld tokens after %lld are more than the context of "
                       "%lld",
                       (long long)n, (long long)d->position,
                       (long long)d->context);
    for (int64_t i = 0; i < n; i++)
        if (ids[i] < 0 || ids[i] >= d->vocab)
            return tt_fail(TT_ERR_ARG,
                           "token %ld is not among the model's %lld; is this "
                           "its tokenizer?",
                           (long)ids[i], (long long)d->vocab);
    return TT_OK;
}

tt_status tt_decoder_feed(tt_decoder *d, const int32_t *ids, int64_t n)
{
    TT_TRY(check_feed(d, ids, n));
    if (is_windowed(d))
        return feed_window(d, ids, n);
    int64_t done = 0;
    // The last token gives the logits, so it is always read by the plan of one
    // token. A chunk plan that does not fit into memory is no error.
    if (n > (d->options.chunk > 0 ? d->options.chunk : FEWEST)) {
        const tt_status status = feed_chunks(d, ids, n - 1, &done);
        if (status != TT_OK && status != TT_ERR_NOMEM)
            return status;
    }
    for (; done < n; done++) {
        TT_TRY(run(&d->one, &ids[done], d->position));
        d->position++;
    }
    return take_logits(d, 0);
}
