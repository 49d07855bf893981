// Pipelines as placements: where weights, states and gradients of stages lie, what is
// moved, how a model is cut, and what is refused.

#include "check/small.h"
#include "ops/comm/comm.h"
#include "ops/ops.h"
#include "pass/partition/partition.h"
#include "pass/pass.h"
#include "test.h"

#include <string.h>

static const tt_small gpt = {
    "gpt", "layers=6 width=16 heads=2 vocab=60 context=8", 8, 0, NULL, false};
static const tt_small resnet = {"resnet", "width=4", 0, 32, NULL, true};

static tt_status build(const tt_small *small, tt_layers_cut cut,
                       tt_graph **graph_out)
{
    tt_arena *arena = tt_arena_create();
    tt_train_recipe recipe = {
        .optim = {.def = tt_optim_find("adamw"), .clip = 1, .ema = 0.9},
        .dtype = TT_BF16,
        .master = TT_F32,
        .cut = cut};
    CHECK_OK(tt_opt_defaults(recipe.optim.def->op->options,
                             &recipe.optim.params, arena));
    const tt_status status = tt_small_build_as(small, &recipe, 4, graph_out);
    tt_arena_destroy(arena);
    return status;
}

static tt_graph *stages(const tt_small *small, tt_layers_cut cut,
                        const char *mesh)
{
    tt_graph *g = NULL, *parts = NULL;
    CHECK_OK(build(small, cut, &g));
    const tt_partition_params params = {.mesh = mesh, .layout = "batch:data"};
    CHECK_OK(tt_pass_apply(tt_pass_find("partition"), &params, g, &parts));
    tt_graph_destroy(g);
    return parts;
}

static int count(const tt_graph *g, const tt_op_def *op, tt_phase phase,
                 int64_t least)
{
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_value *out = &g->value[g->node[i].out[0].id];
        n += g->node[i].op == op && g->node[i].phase == phase &&
             tt_shape_count(&out->type.shape) >= least;
    }
    return n;
}

static uint64_t at(const tt_graph *g, const char *name)
{
    const tt_val v = tt_graph_find(g, name);
    CHECK(tt_is(v));
    return g->value[v.id].type.place[0].at;
}

TEST(a_boundary_is_crossed_once_in_each_direction)
{
    tt_graph *g = stages(&gpt, (tt_layers_cut){.n_chunks = 3}, "pipe:3");
    CHECK(count(g, &tt_op_move, TT_FORWARD, 1) == 2);
    CHECK(count(g, &tt_op_move, TT_BACKWARD, 1) == 2);
    CHECK(count(g, &tt_op_move, TT_WEIGHT_GRAD, 1) == 0);
    CHECK(count(g, &tt_op_move, TT_UPDATE, 1) == 0);
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        if (node->op != &tt_op_move)
            continue;
        const tt_comm_params *p = node->params;
        CHECK(p->to_coord - p->from_coord ==
              (node->phase == TT_FORWARD ? 1 : -1));
        CHECK(tt_shape_count(&g->value[node->out[0].id].type.shape) ==
              4 * 8 * 16); // batch, sequence, width: the residual stream
    }
    tt_graph_destroy(g);
}

TEST(a_weight_and_its_states_lie_where_it_is_read)
{
    tt_graph *g = stages(&gpt, (tt_layers_cut){.n_chunks = 3}, "pipe:3");
    CHECK(at(g, "transformer.h.0.ln_1.weight") == 1);
    CHECK(at(g, "transformer.h.5.ln_1.weight") == 4);
    CHECK(at(g, "transformer.ln_f.weight") == 4);
    CHECK(at(g, "transformer.wte.weight") == 1 + 4); // tied: read at both ends
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        const char *dot = strrchr(value->name, '.');
        char weight[128] = "";
        if (value->role != TT_ROLE_OPTIM && value->role != TT_ROLE_EMA)
            continue;
        memcpy(weight, value->name, (size_t)(dot - value->name));
        CHECK(value->type.place[0].at == at(g, weight));
    }
    tt_graph_destroy(g);
}

TEST(terms_of_a_shared_weight_meet_once_a_step_between_its_stages)
{
    tt_graph *g = stages(&gpt, (tt_layers_cut){.n_chunks = 3}, "pipe:3");
    int n = 0;
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        const tt_type *in = &g->value[node->in[0].id].type;
        if (node->op != &tt_op_all_reduce)
            continue;
        CHECK(node->phase == TT_UPDATE);
        if (tt_shape_count(&in->shape) <= 1)
            continue; // the norm, the loss
        CHECK(in->place[0].kind == TT_PARTIAL);
        CHECK(in->place[0].at == 1 + 4);
        CHECK(g->value[node->out[0].id].type.place[0].at == 1 + 4);
        n++;
    }
    CHECK(n == 1);
    tt_graph_destroy(g);
}

TEST(what_the_host_reads_is_everywhere)
{
    tt_graph *g = stages(&resnet, (tt_layers_cut){.n_chunks = 4}, "pipe:2");
    for (int32_t o = 0; o < g->n_outputs; o++) {
        const tt_place *place = &g->value[g->output[o].val.id].type.place[0];
        CHECK(place->kind == TT_REPLICATE);
        CHECK(place->at == 0);
    }
    CHECK(g->n_outputs >= 4);
    tt_graph_destroy(g);
}

// Chunk k lies at coordinate k mod 2: with 4 chunks each boundary is crossed.
TEST(chunks_go_round)
{
    tt_graph *g = stages(&gpt, (tt_layers_cut){.n_chunks = 4}, "pipe:2");
    CHECK(count(g, &tt_op_move, TT_FORWARD, 1) == 3);
    CHECK(count(g, &tt_op_move, TT_BACKWARD, 1) == 3);
    tt_graph_destroy(g);
}

static void chunk_seconds(const tt_graph *g, int n, double *seconds)
{
    memset(seconds, 0, (size_t)n * sizeof *seconds);
    for (int32_t i = 0; i < g->n_nodes; i++)
        if (g->node[i].phase == TT_FORWARD)
            seconds[g->node[i].stage] += tt_layers_seconds(g, &g->node[i]);
}

TEST(chunks_are_even)
{
    double s[3];
    tt_graph *g = NULL;
    CHECK_OK(build(&gpt, (tt_layers_cut){.n_chunks = 3}, &g));
    chunk_seconds(g, 3, s);
    // Places to cut are half a block apart at most; a sixth of the whole is a block.
    const double slack = (s[0] + s[1] + s[2]) / 6;
    for (int i = 0; i < 3; i++)
        CHECK(s[i] > (s[0] + s[1] + s[2]) / 3 - slack &&
              s[i] < (s[0] + s[1] + s[2]) / 3 + slack);
    tt_graph_destroy(g);
}

TEST(chunks_begin_at_the_named_layers)
{
    tt_graph *g = NULL;
    CHECK_OK(build(&gpt, (tt_layers_cut){3, "transformer.h.1, transformer.h.5"},
                   &g));
    for (int32_t i = 0; i < g->n_nodes; i++) {
        const tt_node *node = &g->node[i];
        static const char *const layer[] = {
            "transformer.h.0", "transformer.h.1", "transformer.h.4",
            "transformer.h.5"};
        static const int stage[] = {0, 1, 1, 2};
        for (int k = 0; k < 4 && node->phase != TT_UPDATE; k++)
            if (strcmp(node->origin, layer[k]) == 0)
                CHECK(node->stage == stage[k]);
    }
    tt_graph_destroy(g);
}

static void check_again(const tt_small *small, int32_t n, tt_arena *arena)
{
    enum { MOST = 16 };
    tt_layers_chunk first[MOST], again[MOST];
    tt_graph *a = NULL, *b = NULL;
    tt_str names = {0};
    CHECK_OK(build(
        small, (tt_layers_cut){.n_chunks = n, .chunk = first, .arena = arena},
        &a));
    for (int32_t c = 1; c < n; c++) {
        CHECK(first[c].bytes > 0);
        tt_str_addf(&names, "%s,", first[c].name);
    }
    CHECK_OK(build(small, (tt_layers_cut){n, tt_str_text(&names), again, arena},
                   &b));
    CHECK(a->n_nodes == b->n_nodes);
    for (int32_t i = 0; i < a->n_nodes; i++)
        CHECK_MSG(a->node[i].stage == b->node[i].stage, "%s cut at %s: %s",
                  small->model, tt_str_text(&names), a->node[i].origin);
    for (int32_t c = 1; c < n; c++)
        CHECK(strcmp(first[c].name, again[c].name) == 0 &&
              first[c].bytes == again[c].bytes);
    tt_str_fini(&names);
    tt_graph_destroy(a);
    tt_graph_destroy(b);
}

// What was chosen is told in names that make the same cut.
TEST(a_chosen_cut_can_be_made_by_its_names)
{
    tt_arena *arena = tt_arena_create();
    for (int32_t n = 2; n <= 16; n++) {
        check_again(&gpt, n, arena);
        check_again(&resnet, n, arena);
    }
    tt_arena_destroy(arena);
}

TEST(cuts_that_cannot_be_are_refused)
{
    tt_graph *g = NULL;
    CHECK(build(&gpt, (tt_layers_cut){.n_chunks = 60}, &g) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "not into 60") != NULL);
    CHECK(build(&gpt, (tt_layers_cut){2, "transformer.h.9"}, &g) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "\"transformer.h.9\" is not the name") !=
          NULL);
    CHECK(build(&gpt, (tt_layers_cut){3, "transformer.h.5 transformer.h.1"},
                &g) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "\"transformer.h.1\" is not the name") !=
          NULL);
    CHECK(build(&gpt, (tt_layers_cut){3, "transformer.h.1 transformer.h.1"},
                &g) == TT_ERR_ARG); // nothing would lie between
    CHECK(build(&gpt, (tt_layers_cut){2, "transformer.h.1+999"}, &g) ==
          TT_ERR_ARG);
    CHECK(build(&gpt, (tt_layers_cut){2, "transformer.h.1+x"}, &g) ==
          TT_ERR_ARG);
    CHECK(build(&gpt, (tt_layers_cut){3, "transformer.h.1"}, &g) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "names 1 layers, which makes 2 chunks") !=
          NULL);
}
