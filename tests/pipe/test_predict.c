// The schedule `predict` against its formulas, computed here for a net of two layers on two
// stages: forward and backward read w - ahead * lr * v, with an `ahead` for each stage and
// way, and updates go to w.

#include "test.h"
#include "train/jobs.h"

#include <math.h>
#include <string.h>

enum { IN = 49, WIDTH = 6, CLASSES = 10, BATCH = 5, STEPS = 7, STAGES = 2 };

static const double rate = 0.3, momentum = 0.9;

typedef struct layer {
    int in, out;
    double w[IN * WIDTH], b[CLASSES]; // w: out x in
    double vw[IN * WIDTH], vb[CLASSES];
    double gw[IN * WIDTH], gb[CLASSES];
} layer;

// What a micro-batch leaves between forward and backward.
typedef struct passing {
    double x[BATCH * IN], h[BATCH * WIDTH], logits[BATCH * CLASSES];
    int32_t y[BATCH];
} passing;

static layer ahead_of(const layer *l, int ahead)
{
    layer to = *l;
    for (int i = 0; i < l->in * l->out; i++)
        to.w[i] -= ahead * rate * l->vw[i];
    for (int i = 0; i < l->out; i++)
        to.b[i] -= ahead * rate * l->vb[i];
    return to;
}

static void apply(const layer *l, const double *x, double *y)
{
    for (int n = 0; n < BATCH; n++)
        for (int o = 0; o < l->out; o++) {
            double sum = l->b[o];
            for (int i = 0; i < l->in; i++)
                sum += l->w[o * l->in + i] * x[n * l->in + i];
            y[n * l->out + o] = sum;
        }
}

// Gradients of the weights, and of the input if `dx` is not NULL.
static void apply_back(layer *to, const layer *read, const double *x,
                       const double *dy, double *dx)
{
    memset(to->gw, 0, sizeof to->gw);
    memset(to->gb, 0, sizeof to->gb);
    for (int n = 0; n < BATCH; n++)
        for (int o = 0; o < to->out; o++) {
            const double d = dy[n * to->out + o];
            to->gb[o] += d;
            for (int i = 0; i < to->in; i++) {
                to->gw[o * to->in + i] += d * x[n * to->in + i];
                if (dx != NULL)
                    dx[n * to->in + i] += d * read->w[o * to->in + i];
            }
        }
}

static void update(layer *l)
{
    for (int i = 0; i < l->in * l->out; i++) {
        l->vw[i] = momentum * l->vw[i] + l->gw[i];
        l->w[i] -= rate * l->vw[i];
    }
    for (int i = 0; i < l->out; i++) {
        l->vb[i] = momentum * l->vb[i] + l->gb[i];
        l->b[i] -= rate * l->vb[i];
    }
}

static void forward_0(const layer *l, passing *p)
{
    apply(l, p->x, p->h);
    for (int i = 0; i < BATCH * WIDTH; i++)
        p->h[i] = fmax(0, p->h[i]);
}

// The mean of the cross entropy: softmax minus the label, divided by the count.
static void loss_back(const passing *p, double *dlogits)
{
    for (int n = 0; n < BATCH; n++) {
        double sum = 0;
        for (int c = 0; c < CLASSES; c++)
            sum += exp(p->logits[n * CLASSES + c]);
        for (int c = 0; c < CLASSES; c++)
            dlogits[n * CLASSES + c] =
                (exp(p->logits[n * CLASSES + c]) / sum - (p->y[n] == c)) /
                BATCH;
    }
}

static void backward_1(layer *l, const layer *read, const passing *p,
                       double *dh)
{
    double dlogits[BATCH * CLASSES];
    loss_back(p, dlogits);
    memset(dh, 0, BATCH * WIDTH * sizeof *dh);
    apply_back(l, read, p->h, dlogits, dh);
    for (int i = 0; i < BATCH * WIDTH; i++)
        dh[i] *= p->h[i] > 0;
}

// Rank k of P looks k/2 + P - k - 1 updates ahead in forward, once the pipe is full, and
// k/2 in backward: rank 0 1 and 0, rank 1 0 and 0. Rank 0 goes two micro-batches forward
// before the first comes back.
static void run(layer l[STAGES], passing *p)
{
    double dh[STEPS][BATCH * WIDTH];
    int f = 0;
    for (int m = 0; m < STEPS; m++) {
        for (; f < STEPS && f < m + STAGES; f++) {
            const layer read = ahead_of(&l[0], f - m);
            forward_0(&read, &p[f]);
        }
        const layer read = ahead_of(&l[1], 0);
        apply(&read, p[m].h, p[m].logits);
        backward_1(&l[1], &read, &p[m], dh[m]);
        update(&l[1]);
        apply_back(&l[0], &l[0], p[m].x, dh[m], NULL);
        update(&l[0]);
    }
}

static void read_value(const tt_job *job, const char *name, double *to)
{
    const tt_val v = tt_graph_find(job->graph, name);
    CHECK_MSG(tt_is(v), "no %s", name);
    CHECK_OK(tt_exec_read(job->exec, v, to));
}

static double distance(const tt_job *job, const char *name, const double *want,
                       int n)
{
    double got[IN * WIDTH], worst = 0;
    read_value(job, name, got);
    for (int i = 0; i < n; i++)
        worst = fmax(worst, fabs(got[i] - want[i]));
    return worst;
}

static made make(void)
{
    const char *const more[] = {"precision=fp64",
                                "model.layers=1",
                                "model.width=6",
                                "optim=momentum",
                                "optim.lr=0.3",
                                "optim.clip=0",
                                "optim.weight_decay=0",
                                "pipe.schedule=predict",
                                "threads=1",
                                NULL};
    made m = make_job(family_named("mlp"), more);
    m.job->fold = STAGES;
    m.job->until = STEPS;
    CHECK_OK(tt_job_start(m.job, NULL));
    return m;
}

TEST(predicted_weights_follow_from_the_formulas_of_the_paper)
{
    static layer l[STAGES] = {{IN, WIDTH}, {WIDTH, CLASSES}};
    static passing p[STEPS];
    made m = make();
    read_value(m.job, "layers.0.weight", l[0].w);
    read_value(m.job, "layers.0.bias", l[0].b);
    read_value(m.job, "layers.2.weight", l[1].w);
    read_value(m.job, "layers.2.bias", l[1].b);
    for (int i = 0; i < STEPS; i++)
        CHECK_OK(tt_job_feed_random(NULL, m.job, i, p[i].x, p[i].y));
    run(l, p);
    for (int i = 0; i < STEPS; i++)
        (void)step_job(&m);
    CHECK(distance(m.job, "layers.0.weight", l[0].w, IN * WIDTH) < 1e-12);
    CHECK(distance(m.job, "layers.0.bias", l[0].b, WIDTH) < 1e-12);
    CHECK(distance(m.job, "layers.2.weight", l[1].w, WIDTH * CLASSES) < 1e-12);
    CHECK(distance(m.job, "layers.2.bias", l[1].b, CLASSES) < 1e-12);
    close_job(&m);
}
