// Random tables through the real executor, over messages that are late at random.
//
// A table is a random order of the work, half of the time changed in one place. The check
// of tables says whether it is valid. A valid one runs on ranks that are threads: plans,
// executor, wire and shared memory are the real ones, each message is late by a random
// time, and weights and loss after two steps are those of one rank. Some of them run as
// their messages come (bound), some have two copies of the model. A table that is not valid is refused by its row, or by the
// work that is not there. A valid one that no plan can run is refused by its row too.

#include "../test.h"
#include "base/alloc.h"
#include "base/rng.h"
#include "check/rank_threads.h"
#include "check/small.h"
#include "comm/transport/transport.h"
#include "exec/wire/wire.h"
#include "job/pipeline.h"
#include "pass/chain.h"
#include "pass/copies.h"
#include "pipe/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { RANKS = 4, CHUNKS = 8, MICRO = 5, STEPS = 2 };

static const double most_late = 0.001, tolerance = 1e-10;

typedef struct dice {
    uint64_t key, n;
} dice;

static int draw(dice *d, int n)
{
    return (int)(tt_rng_u32(d->key, d->n++) % (uint32_t)n);
}

// ---- tables --------------------------------------------------------------

typedef struct work {
    int n_ranks, n_chunks, n_micro, most; // micro-batches in flight
    int n_begun, n_back;
    bool is_split;
    int copy[MICRO]; // that each goes through
    bool has_copies;
    bool out[CHUNKS][MICRO], input[CHUNKS][MICRO], weight[CHUNKS][MICRO];
    int n_left;
    tt_str rows[RANKS];
} work;

// Does a random piece of work if it can be done now.
static void try_one(work *w, dice *d)
{
    const int c = draw(d, w->n_chunks), m = draw(d, w->n_micro);
    const int at = w->copy[m] == 0 ? c % w->n_ranks : w->n_ranks - 1 - c;
    const char *prime = w->copy[m] == 0 ? "" : "'";
    tt_str *row = &w->rows[at];
    if (!w->out[c][m]) {
        if (c > 0 ? !w->out[c - 1][m] : w->n_begun - w->n_back == w->most)
            return;
        w->n_begun += c == 0;
        w->out[c][m] = true;
        tt_str_addf(row, " F%d%s.%d", c, prime, m);
    } else if (!w->input[c][m]) {
        if (c + 1 < w->n_chunks ? !w->input[c + 1][m]
                                : !w->out[w->n_chunks - 1][m])
            return;
        w->n_back += c == 0;
        w->input[c][m] = true;
        w->weight[c][m] = !w->is_split;
        w->n_left -= !w->is_split;
        tt_str_addf(row, " %c%d%s.%d", w->is_split ? 'I' : 'B', c, prime, m);
    } else if (!w->weight[c][m]) {
        w->weight[c][m] = true;
        w->n_left--;
        tt_str_addf(row, " W%d%s.%d", c, prime, m);
    }
}

// The second copy lies the other way round; each copy has a micro-batch.
static void draw_copies(work *w, dice *d)
{
    w->has_copies = w->n_ranks % 2 == 0 && w->n_micro > 1 && draw(d, 3) == 0;
    if (!w->has_copies)
        return;
    w->n_chunks = w->n_ranks;
    for (int m = 0; m < w->n_micro; m++)
        w->copy[m] = m < 2 ? m : draw(d, 2);
}

static void write_ends(const work *w, tt_str *text)
{
    tt_str_addf(text, "fill\nranks %d\nchunks %d\ncopies %d\nmicro %d\nplace",
                w->n_ranks, w->n_chunks, w->has_copies ? 2 : 1, w->n_micro);
    for (int c = 0; c < w->n_chunks; c++)
        tt_str_addf(text, " %d", c % w->n_ranks);
    for (int c = 0; c < w->n_chunks && w->has_copies; c++)
        tt_str_addf(text, " %d", w->n_ranks - 1 - c);
}

static tt_pipe *random_table(dice *d)
{
    work w = {.n_ranks = 2 + draw(d, RANKS - 1), .n_micro = 1 + draw(d, MICRO)};
    tt_str text = {0};
    tt_pipe *p = NULL;
    w.n_chunks = w.n_ranks * (1 + draw(d, 2));
    w.most = 1 + draw(d, w.n_micro);
    w.is_split = draw(d, 3) == 0;
    draw_copies(&w, d);
    w.n_left = w.n_chunks * w.n_micro;
    while (w.n_left > 0)
        try_one(&w, d);
    write_ends(&w, &text);
    for (int r = 0; r < w.n_ranks; r++) {
        tt_str_addf(&text, "\nrank %d\n%s", r, tt_str_text(&w.rows[r]));
        for (int c = r; c < w.n_chunks; c += w.n_ranks)
            tt_str_addf(&text, " U%d.%d", c, w.n_micro - 1);
        if (w.has_copies)
            tt_str_addf(&text, " U%d'.%d", w.n_ranks - 1 - r, w.n_micro - 1);
        tt_str_fini(&w.rows[r]);
    }
    if (tt_pipe_parse(tt_str_text(&text), text.n, "table", &p) != TT_OK)
        tt_test_fail(__FILE__, __LINE__, "%s\n%s", tt_error_message(),
                     tt_str_text(&text));
    tt_str_fini(&text);
    return p;
}

// Something that may be wrong, or another valid table.
static void change(tt_pipe *p, dice *d)
{
    tt_pipe_rank *rank = &p->rank[draw(d, p->n_ranks)];
    const int i = draw(d, rank->n), k = draw(d, rank->n);
    tt_pipe_row *row = &rank->row[i];
    const tt_pipe_row other = rank->row[k];
    switch (draw(d, 7)) {
    case 0: // somewhere else
    case 1:
        rank->row[k] = *row;
        *row = other;
        break;
    case 2:
        rank->n--;
        *row = rank->row[rank->n];
        break;
    case 3:
        row->micro = draw(d, p->n_micro);
        break;
    case 4:
        row->slot = draw(d, p->n_micro);
        break;
    case 5:
        row->is_first = !row->is_first;
        break;
    default:
        row->phase = (tt_pipe_phase)draw(d, TT_N_PIPE_PHASES);
        break;
    }
}

// ---- runs ----------------------------------------------------------------

typedef struct runner {
    tt_backend *backend;
    tt_plan *plan;
    tt_exec *exec;
} runner;

static void runner_fini(runner *run)
{
    tt_exec_destroy(run->exec);
    tt_plan_destroy(run->plan);
    tt_backend_close(run->backend);
}

static void write_leaf(tt_exec *exec, tt_val v, int64_t first)
{
    const tt_plan *plan = tt_exec_plan(exec);
    const tt_value *value = &plan->graph->value[v.id];
    const int64_t n = tt_shape_count(&value->type.shape);
    tt_local local;
    tt_local_of(&value->type, &plan->graph->mesh, plan->rank, &local);
    if (local.is_absent)
        return;
    double *data = tt_alloc(16 * n);
    tt_small_fill(plan->graph, v, first, data);
    for (int64_t i = 0; i < n; i++)
        tt_dtype_store(value->type.dtype, data + n, i, data[i]);
    CHECK_OK(tt_exec_write(exec, v, data + n));
    tt_free(data);
}

// Micro-batches of one sample.
static tt_status feed(void *user, tt_exec *exec, int32_t micro)
{
    const tt_graph *g = tt_exec_plan(exec)->graph;
    (void)user;
    if (tt_is(tt_graph_find(g, "first_sample")))
        TT_TRY(tt_exec_set_scalar(exec, "first_sample", micro));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].role == TT_ROLE_INPUT)
            write_leaf(exec, (tt_val){v}, micro);
    return TT_OK;
}

static tt_status lower(const tt_graph *g, const tt_lower_options *options,
                       runner *run)
{
    const tt_backend_options backend = {.n_threads = 1, .number = -1};
    TT_TRY(tt_backend_open(tt_backend_find("ref"), &backend, &run->backend));
    return tt_plan_lower(g, &run->backend->target, options, &run->plan);
}

static tt_status run_steps(runner *run, const tt_wire *wire)
{
    const tt_graph *g = run->plan->graph;
    const tt_exec_options options = {
        .poison = true, .check_finite = true, .rows = true, .wire = wire};
    TT_TRY(tt_plan_verify(run->plan));
    TT_TRY(tt_exec_create(run->plan, run->backend, &options, &run->exec));
    for (int32_t v = 0; v < g->n_values; v++)
        if (g->value[v].node < 0 && g->value[v].role != TT_ROLE_INPUT)
            write_leaf(run->exec, (tt_val){v}, 0);
    for (int i = 0; i < STEPS; i++)
        TT_TRY(tt_exec_run(run->exec, feed, NULL));
    return TT_OK;
}

static double loss_of(const runner *run)
{
    double loss = 0;
    CHECK_OK(tt_exec_get_scalar(
        run->exec, tt_graph_output_find(run->plan->graph, "loss"), &loss));
    return loss;
}

// ---- one rank and many ---------------------------------------------------

static const tt_small models[] = {
    {.model = "mlp", .options = "layers=8 width=6 classes=5"},
    {.model = "gpt",
     .options = "layers=8 width=8 heads=2 vocab=10 context=4 dropout=0",
     .seq = 4},
};
enum { MODELS = sizeof models / sizeof models[0] };

static tt_graph *build(const tt_small *small, int32_t n_chunks)
{
    tt_graph *g = NULL;
    CHECK_OK(tt_small_build_as(
        small,
        &(tt_train_recipe){.optim = {.def = tt_optim_find("sgd")},
                           .dtype = TT_F64,
                           .master = TT_F64,
                           .cut = {.n_chunks = n_chunks}},
        1, &g));
    return g;
}

// A graph whose chunks lie on ranks.
static tt_graph *build_stages(const tt_small *small, const tt_pipe *p)
{
    const tt_pass_def *def = tt_pass_find("partition");
    tt_arena *arena = tt_arena_create();
    void *params = tt_arena_alloc(arena, def->params_bytes);
    tt_graph *whole = build(small, p->n_chunks), *g = NULL;
    tt_chain chain = {0};
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data:1 pipe:%d", p->n_ranks);
    if (p->n_copies > 1)
        tt_chain_add(&chain, &tt_pass_copies, &(tt_copies_params){p->n_chunks});
    CHECK_OK(tt_chain_apply(&chain, &whole));
    CHECK_OK(tt_opt_defaults(def->options, params, arena));
    CHECK_OK(tt_opt_set(def->options, params, "mesh", mesh, arena));
    CHECK_OK(tt_opt_set(def->options, params, "layout", "batch:data", arena));
    CHECK_OK(tt_pass_apply(def, params, whole, &g));
    tt_arena_destroy(arena);
    tt_graph_destroy(whole);
    return g;
}

typedef struct trial {
    const tt_small *small;
    const tt_pipe *pipe;
    tt_graph *graph;
    runner *alone;
    const char *late; // what happens to messages
    double error[RANKS];
    // Of rank 0, when each row began, by (phase, micro-batch).
    double began[2][2 * MICRO];
} trial;

static void compare(trial *t, const runner *run)
{
    const tt_graph *g = t->graph;
    double *error = &t->error[run->plan->rank];
    *error = fabs(loss_of(run) - loss_of(t->alone));
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_graph *whole = t->alone->plan->graph;
        const int64_t n = tt_small_elements(g, (tt_val){v});
        tt_local local;
        tt_local_of(&g->value[v].type, &g->mesh, run->plan->rank, &local);
        if (g->value[v].role != TT_ROLE_PARAM || local.is_absent)
            continue;
        double *got = tt_alloc(16 * n), *want = got + n;
        CHECK_OK(tt_exec_read(run->exec, (tt_val){v}, got));
        CHECK_OK(tt_exec_read(t->alone->exec,
                              tt_graph_find(whole, g->value[v].name), want));
        for (int64_t i = 0; i < n; i++)
            *error = tt_law_worse(*error, fabs(got[i] - want[i]));
        tt_free(got);
    }
}

static void note_rows(trial *t, const runner *run)
{
    const tt_plan *plan = run->plan;
    for (int32_t i = 0; i < plan->n_order && plan->rank == 0; i++) {
        const tt_order *o = &plan->order[i];
        if (plan->segment[o->segment].phase != TT_UPDATE)
            t->began[plan->segment[o->segment].phase != TT_FORWARD][o->micro] =
                tt_exec_rows(run->exec)[i].start;
    }
}

static tt_status lower_rank(const trial *t, int32_t rank, runner *run)
{
    tt_lower_options options = {.rank = rank, .n_micro = t->pipe->n_micro};
    tt_lower_row *row = NULL;
    TT_TRY(tt__pipeline_rows(t->pipe, t->graph, rank, &options, &row));
    const tt_status status = lower(t->graph, &options, run);
    tt_free(row);
    return status;
}

static tt_status run_rank(tt_comm *comm, void *user)
{
    trial *t = user;
    runner run = {0};
    tt_comm_wire *wire = NULL;
    tt_status status = lower_rank(t, comm->rank, &run);
    if (status == TT_OK)
        status = tt_comm_wire_open(comm, NULL, &wire);
    if (status == TT_OK)
        status = run_steps(&run, tt_comm_wire_of(wire));
    if (status == TT_OK) {
        compare(t, &run);
        note_rows(t, &run);
    }
    runner_fini(&run);
    tt_comm_wire_close(wire);
    return status;
}

static const char *what_is_late; // of the trial that runs

static tt_status make_late(tt_comm *below, tt_comm **comm_out)
{
    return tt_fault_open(below, what_is_late, comm_out);
}

static void fail(const trial *t, const char *why)
{
    tt_str text = {0};
    tt_pipe_print(t->pipe, &text);
    tt_test_fail(__FILE__, __LINE__, "%s, %s, %s:\n%s", t->small->model,
                 t->late, why, tt_str_text(&text));
}

static void run_ranks(trial *t)
{
    const tt_comm_def late = {.wrap = make_late};
    what_is_late = t->late;
    const tt_status status =
        tt_rank_threads_run_over(&late, t->pipe->n_ranks, run_rank, t);
    if (status != TT_OK)
        fail(t, tt_error_message());
    for (int32_t r = 0; r < t->pipe->n_ranks; r++)
        if (!(t->error[r] <= tolerance))
            fail(t, "a rank has other weights or another loss");
}

static void run_alone(const tt_small *small, int32_t n_micro, tt_graph **graph,
                      runner *run)
{
    *graph = build(small, 0);
    CHECK_OK(lower(*graph, &(tt_lower_options){.n_micro = n_micro}, run));
    CHECK_OK(run_steps(run, NULL));
}

// ---- many tables ---------------------------------------------------------

typedef struct counts {
    int run, driven, copied, refused, not_planned;
} counts;

// A plan may still refuse a table: then it names the row.
static bool is_planned(const trial *t)
{
    tt_status status = TT_OK;
    for (int32_t r = 0; r < t->pipe->n_ranks && status == TT_OK; r++) {
        runner run = {0};
        status = lower_rank(t, r, &run);
        runner_fini(&run);
    }
    if (status == TT_OK)
        return true;
    CHECK_MSG(status == TT_ERR_ARG &&
                  strstr(tt_error_message(), "row ") != NULL,
              "refused without a row: %s", tt_error_message());
    return false;
}

// The row, or the work of which there is none.
static bool says_where(const char *why)
{
    static const char *const words[] = {"row ", "has no", "no rank has",
                                        "no micro-batch", "slots"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strstr(why, words[i]) != NULL)
            return true;
    return false;
}

static void check_table(int i, runner alone[MODELS][MICRO + 1], counts *n)
{
    dice d = {tt_rng_key(16, "tables", (uint64_t)i), 0};
    char late[80];
    tt_pipe *p = random_table(&d);
    CHECK_OK(tt_pipe_check(p, 0));
    if (draw(&d, 2) == 0)
        change(p, &d);
    const int model = draw(&d, MODELS);
    trial t = {.small = &models[model],
               .pipe = p,
               .alone = &alone[model][p->n_micro],
               .late = late};
    snprintf(late, sizeof late, "jitter:seconds=%g,seed=%d", most_late, i);
    if (tt_pipe_check(p, 0) != TT_OK) {
        CHECK_MSG(says_where(tt_error_message()),
                  "table %d is refused without a row: %s", i,
                  tt_error_message());
        n->refused++;
        tt_pipe_destroy(p);
        return;
    }
    if (p->n_chunks == p->n_ranks && p->n_copies == 1 && draw(&d, 2) == 0)
        p->bound = 1 + draw(&d, p->n_micro);
    t.graph = build_stages(t.small, p);
    if (is_planned(&t)) {
        run_ranks(&t);
        n->run++;
        n->driven += p->bound > 0;
        n->copied += p->n_copies > 1;
    } else {
        n->not_planned++;
    }
    tt_graph_destroy(t.graph);
    tt_pipe_destroy(p);
}

static void check_tables(int n_tables, int least)
{
    tt_graph *whole[MODELS][MICRO + 1];
    runner alone[MODELS][MICRO + 1] = {0};
    counts n = {0};
    for (int k = 0; k < MODELS; k++)
        for (int m = 1; m <= MICRO; m++)
            run_alone(&models[k], m, &whole[k][m], &alone[k][m]);
    for (int i = 0; i < n_tables; i++)
        check_table(i, alone, &n);
    for (int k = 0; k < MODELS; k++)
        for (int m = 1; m <= MICRO; m++) {
            runner_fini(&alone[k][m]);
            tt_graph_destroy(whole[k][m]);
        }
    CHECK_MSG(n.run >= least && n.refused >= least / 2 && n.driven > 0 &&
                  n.copied > 0,
              "%d run, %d of them as messages come, %d in two copies; %d are "
              "refused, %d fit no plan",
              n.run, n.driven, n.copied, n.refused, n.not_planned);
}

TEST(random_tables_run_like_one_rank_or_are_refused)
{
    check_tables(TT_TEST_SANITIZED ? 20 : 60, 8);
}

TEST_ALL(a_thousand_random_tables_run_like_one_rank_or_are_refused)
{
    check_tables(1000, 400);
}

// ---- messages that are late ----------------------------------------------

// Whether rank 0 runs all forward rows before the first gradient.
static bool goes_ahead(const char *late)
{
    const tt_pipe_shape shape = {.ranks = 2, .micro = 2 * MICRO};
    tt_graph *whole = NULL;
    tt_pipe *p = NULL;
    runner alone = {0};
    CHECK_OK(
        tt_pipe_create(tt_pipe_find("message-driven"), &shape, "slots=10", &p));
    trial t = {.small = &models[0], .pipe = p, .alone = &alone, .late = late};
    run_alone(t.small, p->n_micro, &whole, &alone);
    t.graph = build_stages(t.small, p);
    run_ranks(&t);
    const bool is_ahead = t.began[0][p->n_micro - 1] < t.began[1][0];
    tt_graph_destroy(t.graph);
    runner_fini(&alone);
    tt_graph_destroy(whole);
    tt_pipe_destroy(p);
    return is_ahead;
}

// Rank 0 does not wait for gradients while it has other work.

TEST(a_rank_whose_message_is_late_does_other_work)
{
    CHECK(goes_ahead("delay:rank=1,seconds=0.2"));
}
