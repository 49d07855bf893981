// batch_norm and its parts - reference kernels, in double, channel by channel.
//
// A lane is one channel of one group of samples: the values that share a mean and a
// variance. A rank may have only some samples of its first and last group, or none of a
// group whose statistics it has. ops/nn/batch_norm.h describes that as numbers.

#include "ops/nn/batch_norm.h"

#include "backend/ref/ref.h"
#include "ops/ops.h"

#include <math.h>

static double in_at(const tt_site *site, const tt_args *args, int i, int64_t at)
{
    return tt_dtype_load(site->in[i].dtype, args->in[i], at);
}

static void out_at(const tt_site *site, const tt_args *args, int i, int64_t at,
                   double value)
{
    tt_dtype_store(site->out[i].dtype, args->out[i], at, value);
}

// One channel of one group, by its row in the statistics. Its samples on this rank
// begin at `first`; there may be none.
typedef struct lane {
    const tt_site *site;
    const tt_args *args;
    const tt_batch_norm_params *p;
    tt_batch_norm_geometry g;
    int64_t row, channel;
    int64_t first, samples;
} lane;

static lane lane_of(const tt_site *site, const tt_args *args,
                    const tt_operand *stats)
{
    return (lane){
        .site = site,
        .args = args,
        .p = site->params,
        .g = tt_batch_norm_geometry_of(site->params, &site->in[0].local,
                                       stats == NULL ? NULL : &stats->local),
    };
}

static void set_row(lane *l, int64_t row)
{
    const int64_t group = row - l->g.first_row;
    l->row = row;
    l->samples = 0;
    if (group >= 0 && group < l->g.groups)
        l->samples = tt_batch_norm_span(&l->g, group, &l->first);
}

// Element of x: value i of the lane, below samples * points.
static int64_t at(const lane *l, int64_t i)
{
    const int64_t n = l->first + i / l->g.points;
    return (n * l->g.channels + l->channel) * l->g.points + i % l->g.points;
}

static int64_t count(const lane *l)
{
    return l->samples * l->g.points;
}

// Index of the lane's entry in a statistic.
static int64_t stat(const lane *l)
{
    return l->row * l->g.channels + l->channel;
}

// From a pair [2, groups, channels].
static int64_t second(const lane *l)
{
    return (l->g.rows + l->row) * l->g.channels + l->channel;
}

static double activate(const lane *l, double z)
{
    return l->p->activation == TT_BATCH_NORM_RELU && z <= 0 ? 0 : z;
}

typedef struct moments {
    double mean, var;
} moments;

static moments measure(const lane *l)
{
    moments m = {0};
    for (int64_t i = 0; i < count(l); i++)
        m.mean += in_at(l->site, l->args, 0, at(l, i));
    m.mean /= (double)count(l);
    for (int64_t i = 0; i < count(l); i++) {
        const double d = in_at(l->site, l->args, 0, at(l, i)) - m.mean;
        m.var += d * d;
    }
    m.var /= (double)count(l);
    return m;
}

// y of the lane; `residual` is the input that has it.
static void normalise(const lane *l, moments m, double rstd, int residual)
{
    const double gamma = in_at(l->site, l->args, 1, l->channel);
    const double beta = in_at(l->site, l->args, 2, l->channel);
    for (int64_t i = 0; i < count(l); i++) {
        const int64_t e = at(l, i);
        double z = (in_at(l->site, l->args, 0, e) - m.mean) * rstd;
        z = z * gamma + beta;
        if (tt_site_has(l->site, residual))
            z += in_at(l->site, l->args, residual, e);
        out_at(l->site, l->args, 0, e, activate(l, z));
    }
}

// The outputs of training for one channel, over all its groups. With `known` the
// moments are given: those of x - shift, summed over all ranks. Else they are measured
// here.
static void train_channel(lane *l, bool known, int residual)
{
    const tt_site *site = l->site;
    const tt_args *args = l->args;
    const double old_mean = in_at(site, args, 3, l->channel);
    const double old_var = in_at(site, args, 4, l->channel);
    const double n = l->g.count;
    double mean = 0, var = 0;
    for (int64_t row = 0; row < l->g.rows; row++) {
        set_row(l, row);
        moments m;
        if (known) {
            const double shift = in_at(site, args, 5, stat(l)) / n;
            const double square = in_at(site, args, 5, second(l)) / n;
            m.mean = in_at(site, args, 6, l->channel) + shift;
            m.var = fmax(square - shift * shift, 0);
        } else {
            m = measure(l);
        }
        const double rstd = 1 / sqrt(m.var + l->p->eps);
        normalise(l, m, rstd, residual);
        out_at(site, args, 1, stat(l), m.mean);
        out_at(site, args, 2, stat(l), rstd);
        mean += m.mean / l->g.whole_groups;
        var += m.var * n / (n - 1) / l->g.whole_groups;
    }
    const double by = l->p->momentum;
    out_at(site, args, 3, l->channel, (1 - by) * old_mean + by * mean);
    out_at(site, args, 4, l->channel, (1 - by) * old_var + by * var);
}

static void frozen_channel(lane *l)
{
    const moments m = {in_at(l->site, l->args, 3, l->channel),
                       in_at(l->site, l->args, 4, l->channel)};
    set_row(l, 0);
    normalise(l, m, 1 / sqrt(m.var + l->p->eps), 5);
}

static tt_status run(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_batch_norm_params *p = site->params;
    lane l = lane_of(site, args, p->training ? &site->out[1] : NULL);
    for (l.channel = 0; l.channel < l.g.channels; l.channel++) {
        if (l.p->training)
            train_channel(&l, false, 5);
        else
            frozen_channel(&l);
    }
    return TT_OK;
}

static tt_status run_apply(void *state, const tt_site *site,
                           const tt_args *args)
{
    (void)state;
    lane l = lane_of(site, args, &site->out[1]);
    for (l.channel = 0; l.channel < l.g.channels; l.channel++)
        train_channel(&l, true, 7);
    return TT_OK;
}

static tt_status run_moments(void *state, const tt_site *site,
                             const tt_args *args)
{
    (void)state;
    lane l = lane_of(site, args, &site->out[0]);
    for (int64_t row = 0; row < l.g.rows; row++)
        for (l.channel = 0; l.channel < l.g.channels; l.channel++) {
            set_row(&l, row);
            const double shift = in_at(site, args, 1, l.channel);
            double sum = 0, squares = 0;
            for (int64_t i = 0; i < count(&l); i++) {
                const double d = in_at(site, args, 0, at(&l, i)) - shift;
                sum += d;
                squares += d * d;
            }
            out_at(site, args, 0, stat(&l), sum);
            out_at(site, args, 0, second(&l), squares);
        }
    return TT_OK;
}

// ---- backward ----

// dy where the activation let it through; `y` is the input that has the result.
static double masked(const lane *l, int64_t e, int y)
{
    if (l->p->activation == TT_BATCH_NORM_RELU &&
        !(in_at(l->site, l->args, y, e) > 0))
        return 0;
    return in_at(l->site, l->args, 1, e);
}

typedef struct sums {
    double dgamma, dbeta;
} sums;

static sums sum_lane(const lane *l, moments m, double rstd, int y)
{
    sums s = {0};
    for (int64_t i = 0; i < count(l); i++) {
        const int64_t e = at(l, i);
        const double dz = masked(l, e, y);
        s.dgamma += dz * (in_at(l->site, l->args, 0, e) - m.mean) * rstd;
        s.dbeta += dz;
    }
    return s;
}

static tt_status run_sums(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    lane l = lane_of(site, args, &site->in[2]);
    for (int64_t row = 0; row < l.g.rows; row++)
        for (l.channel = 0; l.channel < l.g.channels; l.channel++) {
            set_row(&l, row);
            const moments m = {.mean = in_at(site, args, 2, stat(&l))};
            const double rstd = in_at(site, args, 3, stat(&l));
            const sums s = sum_lane(&l, m, rstd, 4);
            out_at(site, args, 0, stat(&l), s.dgamma);
            out_at(site, args, 0, second(&l), s.dbeta);
        }
    return TT_OK;
}

// dx of one lane, and the residual's gradient as output `residual`. With running
// statistics, which do not depend on x, `s` is zero: nothing flows back through them.
typedef struct back {
    double mean, rstd;
    sums s;
    int y, residual;
} back;

static void send_back(const lane *l, const back *b)
{
    const double gamma = in_at(l->site, l->args, 2, l->channel);
    for (int64_t i = 0; i < count(l); i++) {
        const int64_t e = at(l, i);
        const double dz = masked(l, e, b->y);
        const double xhat = (in_at(l->site, l->args, 0, e) - b->mean) * b->rstd;
        const double d = dz - (b->s.dbeta + xhat * b->s.dgamma) / l->g.count;
        out_at(l->site, l->args, 0, e, gamma * b->rstd * d);
        if (l->p->has_residual)
            out_at(l->site, l->args, b->residual, e, dz);
    }
}

static void back_channel(lane *l)
{
    const tt_site *site = l->site;
    const tt_args *args = l->args;
    double dgamma = 0, dbeta = 0;
    for (int64_t row = 0; row < l->g.rows; row++) {
        set_row(l, row);
        back b = {.y = 5, .residual = 3};
        const int64_t i = l->p->training ? stat(l) : l->channel;
        b.mean = in_at(site, args, 3, i);
        b.rstd = in_at(site, args, 4, i);
        if (!l->p->training)
            b.rstd = 1 / sqrt(b.rstd + l->p->eps);
        const sums s = sum_lane(l, (moments){.mean = b.mean}, b.rstd, b.y);
        dgamma += s.dgamma;
        dbeta += s.dbeta;
        if (l->p->training)
            b.s = s;
        send_back(l, &b);
    }
    out_at(site, args, 1, l->channel, dgamma);
    out_at(site, args, 2, l->channel, dbeta);
}

static tt_status run_grad(void *state, const tt_site *site, const tt_args *args)
{
    (void)state;
    const tt_batch_norm_params *p = site->params;
    lane l = lane_of(site, args, p->training ? &site->in[3] : NULL);
    for (l.channel = 0; l.channel < l.g.channels; l.channel++)
        back_channel(&l);
    return TT_OK;
}

static tt_status run_grad_apply(void *state, const tt_site *site,
                                const tt_args *args)
{
    (void)state;
    lane l = lane_of(site, args, &site->in[3]);
    for (int64_t row = 0; row < l.g.rows; row++)
        for (l.channel = 0; l.channel < l.g.channels; l.channel++) {
            set_row(&l, row);
            const back b = {.mean = in_at(site, args, 3, stat(&l)),
                            .rstd = in_at(site, args, 4, stat(&l)),
                            .s = {in_at(site, args, 5, stat(&l)),
                                  in_at(site, args, 5, second(&l))},
                            .y = 6,
                            .residual = 1};
            send_back(&l, &b);
        }
    return TT_OK;
}

const tt_kernel_def tt__ref_batch_norm_kernels[] = {
    {TT_KERNEL(ref, batch_norm), .run = run},
    {TT_KERNEL(ref, batch_norm_grad), .run = run_grad},
    {TT_KERNEL(ref, batch_norm_moments), .run = run_moments},
    {TT_KERNEL(ref, batch_norm_apply), .run = run_apply},
    {TT_KERNEL(ref, batch_norm_grad_sums), .run = run_sums},
    {TT_KERNEL(ref, batch_norm_grad_apply), .run = run_grad_apply},
    {0},
};
