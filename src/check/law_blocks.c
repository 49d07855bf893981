// law_blocks - exact mode: which ranks do the work changes no bit.
//
// Exact mode (docs/exact.md) partitions a graph for a fixed number of blocks and then
// gives each real rank the work of several. The order of every sum is that of the
// blocks, not of the ranks. The law takes it at its word:
//
//   4 blocks on 4 ranks   [0] [1] [2] [3]     the same bits
//   4 blocks on 2 ranks   [0   1] [2   3]     in losses, norms,
//   4 blocks on 1 rank    [0   1   2   3]     gradients and states
//
// Every model, small and in fp64, is trained for two steps on these, with every level
// of ZeRO. The result must also be that of the model without blocks, up to rounding:
// otherwise it would be the same wrong thing everywhere.
//
// Models differ in optimiser and in micro-batches. Batch norm takes the whole batch,
// or groups that lie in one block, in two, or across some.

#include "base/alloc.h"
#include "check/law.h"
#include "check/small.h"
#include "ops/optim/optim.h"
#include "pass/blocks.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS = 4, BATCH = 8, N_STEPS = 2, N_LEVELS = 4 };

typedef struct subject {
    tt_law_report *r;
    const tt_small *small;
    const char *name;
    int index; // of the model
    int n_micro;
    int64_t bn_group;
    tt_graph *plain; // not partitioned
    tt_graph *graph; // the first partitioned one: as many ranks as blocks
    tt_interp *interp;
} subject;

static tt_status build(subject *s)
{
    int n = 0;
    const tt_optim_def *optims = tt_optim_all(&n);
    const tt_optim_def *def = &optims[s->index % n];
    tt_train_recipe recipe = {.optim = {.def = def,
                                        .clip = 0.1,
                                        .exact = true,
                                        .guard = s->index % 2 == 1},
                              .dtype = TT_F64,
                              .master = TT_F64,
                              .bn_group = s->bn_group};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_status status =
        tt_opt_defaults(def->op->options, &recipe.optim.params, arena);
    recipe.optim.params.weight_decay = 0.1;
    if (status == TT_OK)
        status = tt_small_build_as(s->small, &recipe, BATCH, &s->plain);
    tt_arena_destroy(arena);
    return status;
}

static tt_status train(const subject *s, const tt_graph *g,
                       tt_interp **interp_out)
{
    const tt_small_steps steps = {
        .batch = BATCH, .n_micro = s->n_micro, .n_steps = N_STEPS};
    return tt_small_train(g, &steps, interp_out);
}

static tt_status rewrite(const subject *s, int level, int ranks,
                         tt_graph **graph_out)
{
    char mesh[32];
    snprintf(mesh, sizeof mesh, "data:%d", BLOCKS);
    const tt_partition_params cut = {.mesh = mesh,
                                     .layout = "batch:data",
                                     .zero = level,
                                     .zero_small = 0.02,
                                     .canonical = true};
    const tt_blocks_params share = {.ranks = ranks, .at_once = s->n_micro == 1};
    tt_graph *parts = NULL;
    TT_TRY(tt_pass_apply(tt_pass_find("partition"), &cut, s->plain, &parts));
    const tt_status status =
        tt_pass_apply(tt_pass_find("blocks"), &share, parts, graph_out);
    tt_graph_destroy(parts);
    return status;
}

// ---- comparison ----------------------------------------------------------

// What is compared of a value: a parameter's gradient, or a state itself.
static tt_val compared(const tt_graph *g, int32_t v, bool wants_grad)
{
    const tt_value *value = &g->value[v];
    const tt_val own = {v};
    if (wants_grad)
        return value->role == TT_ROLE_PARAM ? value->grad : TT_NONE;
    return tt_role_is_state(value->role) ? own : TT_NONE;
}

typedef struct other {
    const tt_graph *graph;
    tt_interp *interp;
    const char *what;
} other;

static tt_status compare_value(const subject *s, const other *o, int32_t v,
                               bool wants_grad)
{
    const char *name = s->graph->value[v].name;
    const tt_val of = compared(s->graph, v, wants_grad);
    const tt_val as =
        compared(o->graph, tt_graph_find(o->graph, name).id, wants_grad);
    const int64_t n = tt_small_elements(s->graph, of);
    double *b = tt_small_read(s->interp, s->graph, of);
    double *a = tt_alloc(8 * n);
    const bool has_memory = a != NULL && b != NULL;
    const bool agree = has_memory && tt_interp_read(o->interp, as, a);
    tt_law_report_check(s->r, agree && memcmp(a, b, 8 * (size_t)n) == 0,
                        "%s: %s: %s%s has other bits", s->name, o->what,
                        wants_grad ? "the gradient of " : "", name);
    tt_free(a);
    tt_free(b);
    return has_memory ? TT_OK : tt_fail(TT_ERR_NOMEM, "no memory for a law");
}

static tt_status compare(const subject *s, const other *o)
{
    for (int32_t i = 0; i < s->graph->n_outputs; i++) {
        const char *name = s->graph->output[i].name;
        double a = (double)NAN, b = 0;
        (void)tt_interp_read(s->interp, s->graph->output[i].val, &b);
        (void)tt_interp_read(o->interp, tt_graph_output_find(o->graph, name),
                             &a);
        tt_law_report_check(s->r, a == b, "%s: %s: %s is %.17g, not %.17g",
                            s->name, o->what, name, a, b);
    }
    for (int32_t v = 0; v < s->graph->n_values; v++)
        for (int grad = 0; grad < 2; grad++)
            if (tt_is(compared(s->graph, v, grad == 1)))
                TT_TRY(compare_value(s, o, v, grad == 1));
    return TT_OK;
}

// ---- levels and ranks ----------------------------------------------------

static tt_status check_ranks(const subject *s, int level, int ranks)
{
    char what[64];
    tt_graph *g = NULL;
    tt_interp *it = NULL;
    snprintf(what, sizeof what, "zero %d, %d blocks on %d rank%s", level,
             BLOCKS, ranks, ranks == 1 ? "" : "s");
    tt_status status = rewrite(s, level, ranks, &g);
    if (status == TT_OK)
        status = train(s, g, &it);
    if (status == TT_OK)
        status = compare(s, &(other){g, it, what});
    if (status != TT_OK)
        status = tt_fail_context(status, "%s", what);
    tt_interp_destroy(it);
    tt_graph_destroy(g);
    return status;
}

static tt_status check_plain(const subject *s)
{
    tt_interp *it = NULL;
    TT_TRY(train(s, s->plain, &it));
    const double a = tt_small_loss(s->interp, s->graph);
    const double b = tt_small_loss(it, s->plain);
    tt_law_report_check(s->r, fabs(a - b) <= 1e-9 * fabs(b),
                        "%s: in blocks the loss is %.17g, not %.17g", s->name,
                        a, b);
    tt_interp_destroy(it);
    return TT_OK;
}

static tt_status check_all(subject *s)
{
    TT_TRY(build(s));
    TT_TRY(rewrite(s, 0, BLOCKS, &s->graph));
    TT_TRY(train(s, s->graph, &s->interp));
    TT_TRY(check_plain(s));
    for (int level = 0; level < N_LEVELS; level++)
        for (int ranks = BLOCKS; ranks > 0; ranks /= 2)
            TT_TRY(check_ranks(s, level, ranks));
    return TT_OK;
}

static tt_status check(tt_law_report *r, const tt_small *small,
                       const char *name)
{
    static const int64_t groups[] = {0, 2, 4, 8};
    const int index = small->index;
    subject s = {.r = r,
                 .small = small,
                 .name = name,
                 .index = index,
                 .n_micro = 1 + index % 2,
                 .bn_group = small->needs_batch ? groups[index % 4] : 0};
    const tt_status status = check_all(&s);
    tt_interp_destroy(s.interp);
    tt_graph_destroy(s.graph);
    tt_graph_destroy(s.plain);
    return status;
}

static tt_status run(tt_law_report *r)
{
    tt_small_each(r, check);
    return TT_OK;
}

const tt_law_def tt_law_blocks = {
    .name = "blocks",
    .doc = "Blocks have the same bits on any number of ranks.",
    .run = run,
};
