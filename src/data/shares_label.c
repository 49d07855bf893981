// shares_label - label skew: clients that have much of some labels and little of others.
//
//   images sorted by label    |  0 0 0 0 0  |  1 1 1 1  |  2 2 2 2 2 2  |   each label
//   label: equal pieces       |     |     |     |     |     |     |          shuffled
//   dirichlet: drawn pieces   | 0's of client 2 |0| ... of each label
//
// Dirichlet. For each label a point of the simplex is drawn: n gamma variates of shape
// alpha, divided by their sum (Marsaglia and Tsang 2000; below 1 from the shape above,
// times U^(1/alpha)). They are kept as logarithms, since U^(1/alpha) of a small alpha is
// below the smallest number. A client has the samples between its cuts.

#include "data/shares_label.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "data/order.h"

#include <math.h>

enum { TRIES = 64 }; // of a gamma variate, one of which nearly always does

typedef struct sorting {
    const tt_source *source;
    const tt_shares_options *options;
    int32_t *label;  // of each image
    int64_t *sorted; // images by label
    int64_t *end;    // of each label in it
    int64_t classes;
    double *part; // of a label, of each client
    int64_t *place;
} sorting;

static tt_status read_labels(sorting *s)
{
    tt_image image = {0};
    tt_status status = TT_OK;
    for (int64_t i = 0; i < s->source->n && status == TT_OK; i++) {
        status = tt_source_read_label(s->source, i, &image, &s->label[i]);
        if (status == TT_OK && s->label[i] >= s->classes)
            s->classes = s->label[i] + 1;
    }
    tt_image_fini(&image);
    return status;
}

// Images that have no label (below 0) count as the first one's.
static int32_t label_of(const sorting *s, int64_t i)
{
    return s->label[i] > 0 ? s->label[i] : 0;
}

static tt_status sort(sorting *s)
{
    const int64_t n = s->source->n;
    s->end = tt_alloc((s->classes + 1) * (int64_t)sizeof *s->end);
    if (s->end == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to sort labels");
    for (int64_t i = 0; i < n; i++)
        s->end[label_of(s, i) + 1]++;
    for (int64_t c = 0; c < s->classes; c++)
        s->end[c + 1] += s->end[c];
    // In a shuffled order, so that a label's samples are dealt at random; end[c] is then
    // where label c ends.
    const tt_order_of order = {.seed = tt_rng_key(s->options->seed, "label", 0),
                               .n = n,
                               .shuffle = true};
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = tt_order_index(&order, i);
        s->sorted[s->end[label_of(s, at)]++] = at;
    }
    return TT_OK;
}

// ---- equal pieces --------------------------------------------------------

static void deal_pieces(const sorting *s, int64_t *first, int64_t *index)
{
    const int64_t each = s->options->labels, n = s->source->n;
    const int64_t pieces = s->options->clients * each;
    const tt_order_of order = {.seed =
                                   tt_rng_key(s->options->seed, "pieces", 0),
                               .n = pieces,
                               .shuffle = true};
    int64_t at = 0;
    for (int64_t p = 0; p < pieces; p++) {
        const int64_t piece = tt_order_index(&order, p);
        if (p % each == 0)
            first[p / each] = at;
        for (int64_t i = n * piece / pieces; i < n * (piece + 1) / pieces; i++)
            index[at++] = s->sorted[i];
    }
    first[s->options->clients] = at;
}

// ---- drawn pieces --------------------------------------------------------

// The logarithm of a gamma variate of shape `a`, at least 1.
static double log_gamma_draw(uint64_t key, double a)
{
    const double d = a - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (uint64_t i = 0; i < TRIES; i++) {
        const double x = tt_rng_normal(key, 2 * i);
        const double t = 1 + c * x, v = t * t * t;
        const double u = tt_rng_uniform(key, 4 * (2 * i + 1));
        if (v > 0 && log(u + 1e-300) < 0.5 * x * x + d - d * v + d * log(v))
            return log(d * v);
    }
    return log(d);
}

static double log_variate(const sorting *s, int64_t label, int32_t client)
{
    const double alpha = s->options->alpha;
    const uint64_t key = tt_rng_key_step(
        tt_rng_key(s->options->seed, "dirichlet", (uint64_t)label),
        (uint64_t)client, 0);
    const double u =
        (tt_rng_u32(key, 8 * (uint64_t)TRIES) + 0.5) / 4294967296.0;
    return alpha >= 1 ? log_gamma_draw(key, alpha)
                      : log_gamma_draw(key, alpha + 1) + log(u) / alpha;
}

static void draw_parts(const sorting *s, int64_t label)
{
    const int32_t n = s->options->clients;
    double most = -HUGE_VAL, sum = 0;
    for (int32_t k = 0; k < n; k++) {
        s->part[k] = log_variate(s, label, k);
        most = s->part[k] > most ? s->part[k] : most;
    }
    for (int32_t k = 0; k < n; k++)
        sum += s->part[k] = exp(s->part[k] - most);
    for (int32_t k = 0; k < n; k++)
        s->part[k] /= sum;
}

// Cuts of every label at the sums of parts: place[label * (n + 1) + client].
static void cut_labels(const sorting *s)
{
    const int32_t n = s->options->clients;
    for (int64_t c = 0; c < s->classes; c++) {
        const int64_t begin = c > 0 ? s->end[c - 1] : 0;
        const int64_t count = s->end[c] - begin;
        int64_t *place = s->place + c * (n + 1);
        double sum = 0;
        draw_parts(s, c);
        for (int32_t k = 0; k <= n; k++) {
            place[k] = begin + (int64_t)floor(sum * (double)count + 0.5);
            if (place[k] > s->end[c] || k == n)
                place[k] = s->end[c];
            sum += k < n ? s->part[k] : 0;
        }
    }
}

static tt_status draw_pieces(sorting *s, int64_t *first, int64_t *index)
{
    const int32_t n = s->options->clients;
    int64_t at = 0;
    s->part = tt_alloc(n * (int64_t)sizeof *s->part);
    s->place = tt_alloc(s->classes * (n + 1) * (int64_t)sizeof *s->place);
    if (s->part == NULL || s->place == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory to draw parts of labels");
    cut_labels(s);
    for (int32_t k = 0; k < n; k++) {
        first[k] = at;
        for (int64_t c = 0; c < s->classes; c++) {
            const int64_t *place = s->place + c * (n + 1) + k;
            for (int64_t i = place[0]; i < place[1]; i++)
                index[at++] = s->sorted[i];
        }
    }
    first[n] = at;
    return TT_OK;
}

static tt_status divide(sorting *s, int64_t *first, int64_t *index)
{
    const int64_t n = s->source->n;
    s->label = tt_alloc(n * (int64_t)sizeof *s->label);
    s->sorted = tt_alloc(n * (int64_t)sizeof *s->sorted);
    if (s->label == NULL || s->sorted == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for %lld labels", (long long)n);
    TT_TRY(read_labels(s));
    TT_TRY(sort(s));
    if (s->options->kind == TT_SHARE_DIRICHLET)
        return draw_pieces(s, first, index);
    if (n < s->options->clients * s->options->labels)
        return tt_fail(TT_ERR_ARG,
                       "exchange.labels=%lld: %lld images are too few for %d "
                       "clients with as many pieces each; exchange.labels=%lld "
                       "would do",
                       (long long)s->options->labels, (long long)n,
                       s->options->clients,
                       (long long)(n / s->options->clients));
    deal_pieces(s, first, index);
    return TT_OK;
}

tt_status tt__shares_by_label(const tt_source *source,
                              const tt_shares_options *options, int64_t *first,
                              int64_t *index)
{
    sorting s = {.source = source, .options = options, .classes = 1};
    const tt_status status = divide(&s, first, index);
    tt_free(s.label);
    tt_free(s.sorted);
    tt_free(s.end);
    tt_free(s.part);
    tt_free(s.place);
    return status;
}
