// report_curves - which metrics become which charts. Known metrics have a title, a
// unit and a fixed place; every other metric that a run has logged gets a small
// chart of its own, so that a new metric is shown without a change here.

#include "store/report/report_parts.h"

#include <math.h>
#include <string.h>

typedef struct known { // metrics that have a place of their own
    const char *title, *y_name;
    const char *name[2], *label[2], *color[2];
    double log_above;
    int best; // of the second
    bool is_percent, is_noisy;
    bool is_trouble; // nothing is shown while all of it is 0
} known;

// A colour always means the same: training, validation, waiting for the network. A
// metric that stands alone in its chart has the colour of text.
static const known known_charts[] = {
    {"Loss",
     "loss",
     {"train/loss", "val/loss"},
     {"training", "validation"},
     {"train", "val"},
     4,
     -1,
     false,
     true},
    {"Accuracy",
     "accuracy",
     {"train/accuracy", "val/accuracy"},
     {"training", "validation"},
     {"train", "val"},
     0,
     1,
     true,
     true},
    {"Learning rate", "learning rate", {"lr"}, {0}, {"ink"}},
    {"Norm of the gradient",
     "norm",
     {"grad_norm"},
     {0},
     {"ink"},
     15,
     0,
     false,
     true},
    {"Tokens per second",
     "tokens/s",
     {"tokens_per_second"},
     {0},
     {"ink"},
     0,
     0,
     false,
     true},
    {"Images per second",
     "images/s",
     {"images_per_second"},
     {0},
     {"ink"},
     0,
     0,
     false,
     true},
    {"Model FLOP utilisation",
     "of the device's peak",
     {"mfu"},
     {0},
     {"ink"},
     0,
     0,
     true,
     true},
    {"Communication per step",
     "seconds",
     {"comm/exposed_seconds", "comm/hidden_seconds"},
     {"waiting for the network", "hidden by computing"},
     {"t-net", "t-hidden"},
     0,
     0,
     false,
     true},
    {"Bytes of codes per step",
     "bytes",
     {"codec/bytes", "codec/raw_bytes"},
     {"codes", "the gradients"},
     {"t-net", "t-hidden"},
     20,
     0,
     false,
     true},
    {"Norm of what codes have not said yet",
     "norm",
     {"codec/residual"},
     {0},
     {"ink"},
     15,
     0,
     false,
     true},
    {"Staleness of gradients",
     "updates",
     {"workers/staleness"},
     {0},
     {"ink"},
     0,
     0,
     false,
     true},
    {"Gradients that were not used",
     "so far",
     {"workers/dropped", "workers/refused"},
     {"dropped", "refused"},
     {"ink", "t-waste"},
     .is_trouble = true},
    {"Spread of arrivals at collectives",
     "seconds",
     {"comm/spread_seconds"},
     {0},
     {"ink"},
     20,
     0,
     false,
     true},
};
enum { N_KNOWN = sizeof known_charts / sizeof known_charts[0] };

// Whether the metric has a chart already, or adds nothing to one that has.
static bool is_shown(const char *name)
{
    static const char *const implied[] = {
        "epoch",          "step_seconds",    "comm/bytes",  "train/perplexity",
        "val/perplexity", "workers/updates", "workers/time"};
    for (size_t i = 0; i < sizeof implied / sizeof implied[0]; i++)
        if (strcmp(name, implied[i]) == 0)
            return true;
    for (int i = 0; i < N_KNOWN; i++)
        for (int k = 0; k < 2; k++)
            if (known_charts[i].name[k] != NULL &&
                strcmp(name, known_charts[i].name[k]) == 0)
                return true;
    return false;
}

static double units_of(const tt_json_value *facts)
{
    const double units = tt_json_number(tt_json_get(facts, "units"), 0);
    return isfinite(units) && units > 0 ? units : 0;
}

// The curve of the run that this one was forked from, in grey.
static tt_curve parent_curve(const tt_report_data *d, const char *name,
                             const char *label)
{
    return (tt_curve){.label = label,
                      .color = "parent",
                      .series = tt_metrics_find(&d->parent_metrics, name),
                      .units = units_of(d->before),
                      .is_noisy = name[0] == 't',
                      .is_quiet = true,
                      .stroke =
                          strncmp(name, "val/", 4) == 0 ? TT_DASHED : TT_SOLID};
}

static bool is_quiet(const tt_report_data *d, const known *k)
{
    for (int i = 0; i < 2; i++)
        if (k->name[i] != NULL && tt_metrics_last(&d->metrics, k->name[i]) > 0)
            return false;
    return k->is_trouble;
}

static tt_status add_known(const tt_report_data *d, const known *k,
                           const char *parent[2], const tt_sent *sent,
                           tt_str *out)
{
    const bool is_wide = k == known_charts;
    const char *units = tt_json_text(tt_json_get(d->facts, "unit"), NULL);
    tt_curve curve[4];
    int n = 0;
    for (int i = 0; i < 2 && d->parent != NULL; i++)
        if (k->best != 0) // of training and validation
            curve[n++] = parent_curve(d, k->name[i], parent[i]);
    for (int i = 0; i < 2; i++)
        if (k->name[i] != NULL)
            curve[n++] =
                (tt_curve){.label = k->label[i],
                           .color = k->color[i],
                           .series = tt_metrics_find(&d->metrics, k->name[i]),
                           .units = units_of(d->facts),
                           .is_noisy = k->is_noisy && k->color[i][0] != 'v',
                           .best = i == 1 ? k->best : 0,
                           .sent = sent};
    const tt_chart chart = {.title = k->title,
                            .y_name = k->y_name,
                            .id = "loss",
                            .units = units,
                            .curve = curve,
                            .n = n,
                            .is_percent = k->is_percent,
                            .is_wide = is_wide,
                            .log_above = k->log_above};
    return tt__chart_add(&chart, out);
}

static tt_status add_other(const tt_metric_series *s, tt_str *out)
{
    const tt_curve curve = {.color = "ink", .series = s};
    const tt_chart chart = {
        .title = s->name, .y_name = s->name, .curve = &curve, .n = 1};
    return tt__chart_add(&chart, out);
}

tt_status tt__report_curves(const tt_report_data *d, tt_str *out)
{
    tt_str label[2] = {{0}};
    tt_sent sent;
    tt_status status = tt__sent_make(&d->metrics, &sent);
    const char *parent[2] = {NULL, NULL};
    for (int i = 0; i < 2; i++) {
        tt_str_addf(&label[i], "%s, %s", d->parent != NULL ? d->parent : "",
                    i == 0 ? "training" : "validation");
        parent[i] = tt_str_text(&label[i]);
    }
    tt_str_add(out, "<section class=\"charts\" aria-label=\"curves\">\n");
    for (int i = 0; i < N_KNOWN && status == TT_OK; i++)
        if (!is_quiet(d, &known_charts[i]))
            status = add_known(d, &known_charts[i], parent, &sent, out);
    for (int i = 0; i < d->metrics.n && status == TT_OK; i++)
        if (!is_shown(d->metrics.v[i].name))
            status = add_other(&d->metrics.v[i], out);
    tt_str_add(out, "</section>\n");
    tt__sent_free(&sent);
    for (int i = 0; i < 2; i++) {
        if (status == TT_OK)
            status = tt_str_status(&label[i]);
        tt_str_fini(&label[i]);
    }
    return status == TT_OK ? tt_str_status(out) : status;
}
