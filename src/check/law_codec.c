// law_codec - every codec does what its def says. For each, between 1 and 3 replicas:
//
//   size        codes are as large as tt_codec_bytes says; a packet uses no more than its
//               capacity; of 70001 numbers codes are smaller than the numbers
//   agree       all replicas decode the same sum, in every bit
//   lossless    where the def says so, the sum is the sum (fp64, 1e-12)
//   feedback    what was sent and the new residual are together what was to be sent:
//               nothing is lost (fp64 1e-6 of the largest: codes are floats)
//   unbiased    where the def says so: the mean of 400 draws, projected on the numbers and
//               on their signs, is within 5 standard errors (one in a million is not)
//   converges   4 replicas with different quadratics, whose sum has its minimum in one
//               place: 400 steps with feedback come near it (see goals)
//   damage      a code with one changed bit, of another length, for another tensor or of
//               another codec is refused; random bodies with a right check are refused
//               or decoded, and no byte outside is touched
//   merged      lists that are added up on the way have the sum of gathered ones, in every
//               bit, in any number of parts
//   not finite  a NaN or an infinity makes the sum not finite, and no residual

#include "base/alloc.h"
#include "base/rng.h"
#include "check/codec_damage.h"
#include "check/codec_merge.h"
#include "check/codec_trial.h"
#include "check/law.h"
#include "ops/codec/packet.h"

#include <math.h>
#include <string.h>

enum { MOST = 70001, DRAWS = 400, STEPS = 400 };

static const char *const shapes[] = {
    "a:1", "a:7", "a:37 b:41", "a:3 b:5.c:4 d:70", "a:70001",
};

// Rows of room for numbers.
typedef struct room {
    double *row[6];
} room;

static double number(uint64_t key, int64_t i)
{
    return tt_rng_normal(key, (uint64_t)i) * (i % 50 == 3 ? 8 : 1);
}

static void fill(tt_trial *t, double *data, uint64_t key)
{
    for (int r = 0; r < t->asked.peers; r++) {
        for (int64_t i = 0; i < t->n; i++)
            data[i] = number(key + (uint64_t)r, i);
        tt_trial_write(t, t->x[r], data);
    }
}

static double largest(const double *x, int64_t n)
{
    double most = 0;
    for (int64_t i = 0; i < n; i++)
        most = tt_law_worse(most, fabs(x[i]));
    return most;
}

static const char *name_of(const tt_trial *t)
{
    return t->asked.codec->name;
}

// Bytes used of a packet; -1: the code is none.
static int64_t used(tt_trial *t, int r)
{
    const tt_type *type = &t->graph->value[t->code[r][0].id].type;
    int64_t bytes;
    if (type->dtype != TT_U8)
        return -1;
    memcpy(&bytes, (char *)tt_interp_data(t->interp, 0, t->code[r][0]) + 16,
           sizeof bytes);
    return bytes;
}

// ---- size, agree, lossless, feedback -------------------------------------

static tt_status check_size(tt_law_report *r, tt_trial *t)
{
    int64_t bytes = 0;
    const tt_type *x = &t->graph->value[t->x[0].id].type;
    TT_TRY(
        tt_codec_bytes(t->asked.codec, t->params, x, t->asked.peers, &bytes));
    tt_law_report_check(r, bytes == t->code_bytes,
                        "codec %s: %s has codes of %lld bytes, not %lld",
                        name_of(t), t->asked.shape, (long long)t->code_bytes,
                        (long long)bytes);
    tt_law_report_check(r,
                        t->n < MOST || t->asked.codec->is_lossless ||
                            x->shape.ndim < 2 ||
                            bytes < t->n * tt_dtype_bytes(x->dtype),
                        "codec %s: %lld bytes for %lld numbers", name_of(t),
                        (long long)bytes, (long long)t->n);
    for (int p = 0; p < t->asked.peers; p++)
        tt_law_report_check(r, used(t, p) <= bytes,
                            "codec %s: %s uses %lld bytes of %lld", name_of(t),
                            t->asked.shape, (long long)used(t, p),
                            (long long)bytes);
    return TT_OK;
}

static void check_agree(tt_law_report *r, tt_trial *t, room *m)
{
    tt_trial_read(t, t->sum[0], m->row[0]);
    for (int p = 1; p < t->asked.peers; p++) {
        tt_trial_read(t, t->sum[p], m->row[1]);
        tt_law_report_check(
            r, memcmp(m->row[0], m->row[1], (size_t)t->n * sizeof(double)) == 0,
            "codec %s: replica %d decodes another sum", name_of(t), p);
    }
}

static void check_lossless(tt_law_report *r, tt_trial *t, room *m)
{
    double worst = 0;
    tt_trial_read(t, t->sum[0], m->row[0]);
    for (int64_t i = 0; i < t->n; i++) {
        double sum = 0;
        for (int p = 0; p < t->asked.peers; p++)
            sum += number(1 + (uint64_t)p, i);
        worst = tt_law_worse(worst, fabs(sum - m->row[0][i]));
    }
    tt_law_report_check(r, worst <= 1e-12 * 32,
                        "codec %s: the sum is off by %g, but nothing is lost",
                        name_of(t), worst);
}

// With one replica: sum + residual' = x + residual, which is 0 at first.
static void check_feedback(tt_law_report *r, tt_trial *t, room *m)
{
    double worst = 0;
    tt_trial_read(t, t->x[0], m->row[0]);
    tt_trial_read(t, t->sum[0], m->row[1]);
    if (tt_is(t->left[0]))
        tt_trial_read(t, t->left[0], m->row[2]);
    for (int64_t i = 0; i < t->n; i++)
        worst = tt_law_worse(
            worst, fabs(m->row[1][i] + (tt_is(t->left[0]) ? m->row[2][i] : 0) -
                        m->row[0][i]));
    tt_law_report_check(r, worst <= 1e-6 * largest(m->row[0], t->n),
                        "codec %s: %s: %g of what was to be sent is neither "
                        "sent nor kept",
                        name_of(t), t->asked.shape, worst);
}

static tt_status check_shape(tt_law_report *r, const tt_trial_options *o,
                             room *m)
{
    tt_trial t;
    TT_TRY(tt_trial_init(&t, o));
    fill(&t, m->row[0], 1);
    tt_status status = tt_trial_step(&t, 3);
    if (status == TT_OK)
        status = check_size(r, &t);
    if (status == TT_OK) {
        check_agree(r, &t, m);
        if (o->codec->is_lossless && o->dtype == TT_F64)
            check_lossless(r, &t, m);
        if (o->feeds_back && o->peers == 1)
            check_feedback(r, &t, m);
    }
    tt_trial_fini(&t);
    return status;
}

static tt_status check_shapes(tt_law_report *r, const tt_codec_def *codec,
                              room *m)
{
    static const tt_dtype dtypes[] = {TT_F64, TT_F32};
    for (int s = 0; s < 5; s++)
        for (int d = 0; d < 2; d++)
            for (int peers = 1; peers <= 3; peers++) {
                const tt_trial_options o = {
                    .codec = codec,
                    .shape = shapes[s],
                    .dtype = dtypes[d],
                    .peers = peers,
                    .feeds_back = !codec->is_lossless,
                };
                TT_TRY(check_shape(r, &o, m));
            }
    return TT_OK;
}

// ---- unbiased ------------------------------------------------------------

static double project(const double *d, const double *x, int64_t n, bool signs)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += d[i] * (signs ? (x[i] < 0 ? -1 : 1) : x[i]);
    return sum;
}

static tt_status check_unbiased(tt_law_report *r, const tt_codec_def *codec,
                                room *m)
{
    const tt_trial_options o = {
        .codec = codec, .shape = "a:3001", .dtype = TT_F32, .peers = 1};
    double sum[2] = {0}, squares[2] = {0}, *x = m->row[0], *d = m->row[1];
    tt_trial t;
    TT_TRY(tt_trial_init(&t, &o));
    fill(&t, x, 1);
    tt_trial_read(&t, t.x[0], x);
    tt_status status = TT_OK;
    for (int64_t draw = 0; draw < DRAWS && status == TT_OK; draw++) {
        status = tt_trial_step(&t, draw);
        tt_trial_read(&t, t.sum[0], d);
        for (int s = 0; s < 2; s++) {
            const double y = project(d, x, t.n, s) - project(x, x, t.n, s);
            sum[s] += y;
            squares[s] += y * y;
        }
    }
    for (int s = 0; s < 2 && status == TT_OK; s++) {
        const double mean = sum[s] / DRAWS;
        const double error =
            sqrt((squares[s] / DRAWS - mean * mean) / (DRAWS - 1));
        tt_law_report_check(r, fabs(mean) <= 5 * error,
                            "codec %s: the mean of %d draws is off by %.1f "
                            "standard errors",
                            codec->name, DRAWS, fabs(mean) / error);
    }
    tt_trial_fini(&t);
    return status;
}

// ---- converges -----------------------------------------------------------

// Replica p has the loss sum_i curve_i (w_i - target_i - shift_pi)^2 / 2, and the shifts of
// all replicas add up to 0.
static double curve(int64_t i)
{
    return 0.5 + 0.5 * tt_rng_uniform(11, (uint64_t)i);
}

static double shift(int p, int64_t i)
{
    const double s = 0.1 * tt_rng_normal(12, (uint64_t)i);
    return p % 2 == 0 ? s : -s;
}

static double far_off(const double *w, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = w[i] - tt_rng_normal(13, (uint64_t)i);
        sum += curve(i) * d * d;
    }
    return sum;
}

static tt_status descend(tt_trial *t, room *m, double rate)
{
    double *w = m->row[0], *g = m->row[1];
    const int peers = t->asked.peers;
    memset(w, 0, (size_t)t->n * sizeof *w);
    for (int64_t step = 0; step < STEPS; step++) {
        for (int p = 0; p < peers; p++) {
            for (int64_t i = 0; i < t->n; i++)
                g[i] = curve(i) *
                       (w[i] - tt_rng_normal(13, (uint64_t)i) - shift(p, i));
            tt_trial_write(t, t->x[p], g);
        }
        TT_TRY(tt_trial_step(t, step));
        tt_trial_read(t, t->sum[0], g);
        for (int64_t i = 0; i < t->n; i++)
            w[i] -= rate * g[i] / peers;
    }
    return TT_OK;
}

// How near, of the distance at first, and with which options and rate: a codec that
// sends one entry in a hundred has sent each of them four times in 400 steps.
static const struct goal {
    const char *codec, *options;
    double rate, least;
} goals[] = {
    {"qsgd", "levels=4 block=64", 0.1, 1e-3},
    {"ternary", "", 0.05, 1e-3},
    {"topk", "ratio=0.1", 0.1, 1e-3},
    {"randomk", "ratio=0.1", 0.05, 1e-4},
    {"threshold", "relative=1 ratio=0.5", 0.1, 1e-3},
    {"dgc", "ratio=0.1 warm_up=20", 0.01, 1e-4},
    {"sign", "", 0.02, 5e-2}, // a vote does not see how large shifts are
    {NULL, "", 0.1, 1e-3},
};

static tt_status check_converges(tt_law_report *r, const tt_codec_def *codec,
                                 room *m)
{
    const struct goal *f = goals;
    while (f->codec != NULL && strcmp(f->codec, codec->name) != 0)
        f++;
    const tt_trial_options o = {.codec = codec,
                                .options = f->options,
                                .shape = "a:20 b:30",
                                .dtype = TT_F32,
                                .peers = TT_TRIAL_PEERS,
                                .feeds_back = !codec->is_lossless};
    tt_trial t;
    TT_TRY(tt_trial_init(&t, &o));
    const tt_status status = descend(&t, m, f->rate);
    const double end = far_off(m->row[0], t.n);
    memset(m->row[1], 0, (size_t)t.n * sizeof(double));
    const double begin = far_off(m->row[1], t.n);
    tt_law_report_check(r, status != TT_OK || end <= f->least * begin,
                        "codec %s: after %d steps %.3g of the distance to the "
                        "minimum is left, not %g",
                        codec->name, STEPS, end / begin, f->least);
    tt_trial_fini(&t);
    return status;
}

// ---- not finite ----------------------------------------------------------

static bool all_finite(const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (!isfinite(x[i]))
            return false;
    return true;
}

// Random entries may not be those; of products of matrices everything is NaN, and whoever
// runs them must skip the step.
static tt_status check_not_finite(tt_law_report *r, const tt_codec_def *codec,
                                  room *m, double bad)
{
    const tt_trial_options o = {.codec = codec,
                                .shape = "a:37 b:41",
                                .dtype = TT_F32,
                                .peers = 2,
                                .feeds_back = !codec->is_lossless};
    tt_trial t;
    TT_TRY(tt_trial_init(&t, &o));
    fill(&t, m->row[0], 1);
    m->row[0][700] = bad;
    tt_trial_write(&t, t.x[0], m->row[0]);
    const tt_status status = tt_trial_step(&t, 0);
    tt_trial_read(&t, t.sum[0], m->row[0]);
    if (strcmp(codec->name, "randomk") != 0)
        tt_law_report_check(r, !all_finite(m->row[0], t.n),
                            "codec %s: a number that is %g is not noticed",
                            codec->name, bad);
    if (tt_is(t.left[0]) && !codec->is_linear) {
        tt_trial_read(&t, t.left[0], m->row[1]);
        tt_law_report_check(r, all_finite(m->row[1], t.n),
                            "codec %s: a number that is %g stays in the "
                            "residual",
                            codec->name, bad);
    }
    tt_trial_fini(&t);
    return status;
}

static tt_status check_codec(tt_law_report *r, const tt_codec_def *codec,
                             room *m)
{
    tt_law_report_check(r, codec->encode != NULL || codec->encode_op != NULL,
                        "codec %s: it cannot encode", codec->name);
    TT_TRY(check_shapes(r, codec, m));
    if (codec->is_unbiased && !codec->is_lossless)
        TT_TRY(check_unbiased(r, codec, m));
    TT_TRY(check_converges(r, codec, m));
    TT_TRY(tt__codec_damage(r, codec));
    TT_TRY(tt__trial_merge(r, codec));
    TT_TRY(check_not_finite(r, codec, m, (double)NAN));
    return check_not_finite(r, codec, m, (double)INFINITY);
}

static tt_status run(tt_law_report *r)
{
    int n = 0;
    room m = {0};
    const tt_codec_def *const *all = tt_codec_all(&n);
    tt_status status = TT_OK;
    for (int i = 0; i < 6; i++) {
        m.row[i] = tt_alloc((MOST + 16) * (int64_t)sizeof(double));
        if (m.row[i] == NULL)
            status = tt_fail(TT_ERR_NOMEM, "no memory for a law");
    }
    for (int i = 0; i < n && status == TT_OK; i++)
        if (tt_law_report_wants(r, all[i]->name)) {
            status = check_codec(r, all[i], &m);
            if (status != TT_OK)
                (void)tt_fail_context(status, "codec %s", all[i]->name);
        }
    for (int i = 0; i < 6; i++)
        tt_free(m.row[i]);
    return status;
}

const tt_law_def tt_law_codec = {
    .name = "codec",
    .doc = "Every codec loses no more than it says.",
    .run = run,
};
