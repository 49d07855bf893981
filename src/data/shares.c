// shares - see shares.h. What labels and users decide is in shares_label.c and
// shares_user.c.

#include "data/shares.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "data/order.h"
#include "data/shares_label.h"
#include "data/shares_user.h"

enum { CLIENT_SHIFT = 40 };

struct tt_shares {
    tt_shares_options options;
    bool is_tokens;
    int64_t n, tokens; // samples and tokens in all
    // n + 1 each. Samples before those of a client; of stretches of tokens, where each
    // begins.
    int64_t *first, *token;
    int64_t *index; // samples by client; NULL: they are computed
};

static int64_t *make_list(int64_t n)
{
    return tt_alloc((n + 1) * (int64_t)sizeof(int64_t));
}

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "no memory for the data of clients");
}

// ---- stretches -----------------------------------------------------------

static int64_t even_cut(int64_t n, int64_t parts, int64_t i)
{
    return n / parts * i + n % parts * i / parts;
}

// The end of a document that is nearest to an even cut.
static int64_t document_cut(const tt_source *s, int64_t parts, int64_t i)
{
    const int64_t wanted = even_cut(s->n, parts, i);
    int64_t low = 0, high = s->n_documents;
    while (low < high) { // the first that ends at or after `wanted`
        const int64_t middle = (low + high) / 2;
        if (s->document_end[middle] < wanted)
            low = middle + 1;
        else
            high = middle;
    }
    const int64_t after = low < s->n_documents ? s->document_end[low] : s->n;
    const int64_t before = low > 0 ? s->document_end[low - 1] : 0;
    return wanted - before < after - wanted ? before : after;
}

static tt_status check_documents(const tt_source *s, int32_t clients)
{
    if (s->kind != TT_DATA_TOKENS || s->n_documents == 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.split=document: data=%s does not say where "
                       "documents end (lines of JSON do); exchange.split="
                       "contiguous would do",
                       s->def->name);
    if (s->n_documents < clients)
        return tt_fail(TT_ERR_ARG,
                       "exchange.split=document: %lld documents are too few "
                       "for %d clients; exchange.replicas=%lld would do",
                       (long long)s->n_documents, clients,
                       (long long)s->n_documents);
    return TT_OK;
}

static tt_status cut_tokens(tt_shares *s, const tt_source *source)
{
    const int32_t n = s->options.clients;
    const bool by_document = s->options.kind == TT_SHARE_DOCUMENT;
    s->token = make_list(n);
    if (s->token == NULL)
        return no_memory();
    for (int32_t k = 0; k <= n; k++)
        s->token[k] = k == n        ? source->n
                      : by_document ? document_cut(source, n, k)
                                    : even_cut(source->n, n, k);
    for (int32_t k = 0; k < n; k++)
        s->first[k + 1] =
            s->first[k] +
            tt_window_count(s->token[k + 1] - s->token[k], s->options.seq);
    return TT_OK;
}

static tt_status cut_stretches(tt_shares *s, const tt_source *source)
{
    if (s->options.kind == TT_SHARE_DOCUMENT)
        TT_TRY(check_documents(source, s->options.clients));
    if (s->is_tokens)
        return cut_tokens(s, source);
    for (int32_t k = 0; k <= s->options.clients; k++)
        s->first[k] = even_cut(s->n, s->options.clients, k);
    return TT_OK;
}

// ---- making --------------------------------------------------------------

static void deal(tt_shares *s)
{
    const int64_t n = s->options.clients;
    for (int64_t k = 0; k < n; k++)
        s->first[k + 1] = s->first[k] + (s->n + n - 1 - k) / n;
}

static tt_status by_label(tt_shares *s, const tt_source *source)
{
    const tt_shares_options *o = &s->options;
    if (s->is_tokens)
        return tt_fail(TT_ERR_ARG,
                       "exchange.split=%s goes by labels, and data=%s has "
                       "tokens, which have none; exchange.split=contiguous "
                       "would do",
                       o->kind == TT_SHARE_LABEL ? "label" : "dirichlet",
                       source->def->name);
    s->index = make_list(s->n);
    return s->index == NULL
               ? no_memory()
               : tt__shares_by_label(source, o, s->first, s->index);
}

static tt_status by_user(tt_shares *s, const tt_source *source)
{
    s->index = make_list(s->n);
    return s->index == NULL
               ? no_memory()
               : tt__shares_by_user(source, &s->options, s->first, s->index);
}

static tt_status make(tt_shares *s, const tt_source *source)
{
    const tt_shares_options *o = &s->options;
    s->first = make_list(o->clients);
    if (s->first == NULL)
        return no_memory();
    if (s->n < o->clients)
        return tt_fail(TT_ERR_ARG,
                       "%lld samples of data are too few for %d clients; "
                       "exchange.replicas=%lld would do",
                       (long long)s->n, o->clients, (long long)s->n);
    switch (o->kind) {
    case TT_SHARE_IID:
        deal(s);
        return TT_OK;
    case TT_SHARE_CONTIGUOUS:
    case TT_SHARE_DOCUMENT:
        TT_TRY(cut_stretches(s, source));
        break;
    case TT_SHARE_USER:
        TT_TRY(by_user(s, source));
        break;
    default:
        TT_TRY(by_label(s, source));
    }
    return tt_shares_total(s) > 0
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "no client has a sample of %lld tokens; fewer "
                         "clients (exchange.replicas) would do",
                         (long long)o->seq);
}

tt_status tt_shares_create(const tt_source *source,
                           const tt_shares_options *options,
                           tt_shares **shares_out)
{
    tt_shares *s = tt_alloc(sizeof *s);
    if (s == NULL)
        return no_memory();
    s->options = *options;
    s->is_tokens = source->kind == TT_DATA_TOKENS;
    s->tokens = s->is_tokens ? source->n : 0;
    s->n = s->is_tokens ? tt_window_count(source->n, options->seq) : source->n;
    const tt_status status = make(s, source);
    if (status != TT_OK)
        tt_shares_close(s);
    else
        *shares_out = s;
    return status;
}

void tt_shares_close(tt_shares *shares)
{
    if (shares == NULL)
        return;
    tt_free(shares->first);
    tt_free(shares->token);
    tt_free(shares->index);
    tt_free(shares);
}

// ---- using ---------------------------------------------------------------

int32_t tt_shares_clients(const tt_shares *shares)
{
    return shares->options.clients;
}

int64_t tt_shares_size(const tt_shares *shares, int32_t client)
{
    return shares->first[client + 1] - shares->first[client];
}

int64_t tt_shares_total(const tt_shares *shares)
{
    return shares->first[shares->options.clients];
}

int64_t tt_shares_batches(const tt_shares *shares, int32_t client)
{
    const int64_t batch = shares->options.batch;
    return (tt_shares_size(shares, client) + batch - 1) / batch;
}

int64_t tt_shares_position(const tt_shares *shares, int32_t client,
                           int64_t number)
{
    return ((int64_t)client << CLIENT_SHIFT) + number * shares->options.batch;
}

// The order of a client's epoch. Cards that were dealt come as they were dealt the first
// time: together clients then have the samples of a plain run, step by step.
static int64_t in_epoch(const tt_shares *s, int32_t client, int64_t epoch,
                        int64_t i)
{
    const tt_order_of order = {
        .seed = tt_rng_key(s->options.seed, "share", (uint64_t)client),
        .n = tt_shares_size(s, client),
        .shuffle = s->options.shuffle};
    return s->options.kind == TT_SHARE_IID && epoch == 0
               ? i
               : tt_order_index(&order, epoch * order.n + i);
}

static int64_t dealt(const tt_shares *s, int32_t client, int64_t i)
{
    const tt_order_of order = {
        .seed = s->options.seed, .n = s->n, .shuffle = s->options.shuffle};
    const int64_t card = client + i * s->options.clients;
    return s->is_tokens
               ? tt_window_first(&order, s->tokens, s->options.seq, card)
               : tt_order_index(&order, card);
}

bool tt_shares_find(const tt_shares *shares, int64_t position,
                    int64_t *place_out)
{
    const int32_t client = (int32_t)(position >> CLIENT_SHIFT);
    const int64_t size = tt_shares_size(shares, client);
    const int64_t length =
        tt_shares_batches(shares, client) * shares->options.batch;
    const int64_t at = position & ((INT64_C(1) << CLIENT_SHIFT) - 1);
    const int64_t i = in_epoch(shares, client, at / length, at % length % size);
    if (shares->options.kind == TT_SHARE_IID)
        *place_out = dealt(shares, client, i);
    else if (shares->is_tokens)
        *place_out = shares->token[client] + i * shares->options.seq;
    else if (shares->index != NULL)
        *place_out = shares->index[shares->first[client] + i];
    else
        *place_out = shares->first[client] + i;
    return at % length < size;
}
