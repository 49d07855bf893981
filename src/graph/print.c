// print - a graph as text, one line per leaf, node, output and gradient:
//
//   tutti-graph 1
//   mesh data:2 tensor:4
//   %0 = param "wte.weight" f32 [vocab:96 embed:32] {R S(vocab)} normal 0.02
//   %2 = fetch(%0) forward 0 "wte" f32 [vocab:96 embed:32]
//   %7 %8 = attention(%3 %4 _) causal=true; forward 0 "h.0" f32 [...] , f32 [...]
//   output "loss" %9
//   grad %0 %41
//
// Values are numbered in the order of the lines, so reading is one pass.

#include "graph/graph.h"

static const char *const role_name[TT_N_ROLES] = {"node",  "input", "scalar",
                                                  "param", "work",  "buffer",
                                                  "optim", "ema",   "again"};
static const char *const init_name[] = {"const", "normal", "uniform", "copy"};

static void print_type(const tt_graph *g, const tt_type *type, tt_str *out)
{
    tt_str_addf(out, "%s [", tt_dtype_name(type->dtype));
    tt_shape_print(&type->shape, out);
    tt_str_add(out, "]");
    if (g->mesh.n_axes == 0)
        return;
    tt_str_add(out, " {");
    for (int a = 0; a < g->mesh.n_axes; a++) {
        tt_str_add(out, a > 0 ? " " : "");
        tt_place_print(&type->place[a], &type->shape, out);
    }
    tt_str_add(out, "}");
}

static void print_leaf(const tt_graph *g, int32_t id, tt_str *out)
{
    const tt_value *value = &g->value[id];
    tt_str_addf(out, "%%%d = %s \"%s\" ", id, role_name[value->role],
                value->name);
    print_type(g, &value->type, out);
    if (tt_role_is_state(value->role)) {
        if (value->init.kind == TT_INIT_COPY)
            tt_str_addf(out, " copy %%%d", value->init.of.id);
        else
            tt_str_addf(out, " %s %.17g", init_name[value->init.kind],
                        value->init.a);
    }
    tt_str_add(out, "\n");
}

static void print_node(const tt_graph *g, const tt_node *node, tt_str *out)
{
    for (int i = 0; i < node->n_out; i++)
        tt_str_addf(out, "%%%d ", node->out[i].id);
    tt_str_addf(out, "= %s(", node->op->name);
    for (int i = 0; i < node->n_in; i++) {
        tt_str_add(out, i > 0 ? " " : "");
        if (tt_is(node->in[i]))
            tt_str_addf(out, "%%%d", node->in[i].id);
        else
            tt_str_add(out, "_");
    }
    tt_str_add(out, ") ");
    const int64_t before = out->n;
    if (node->op->options != NULL)
        tt_opt_print(node->op->options, node->params, false, out);
    tt_str_addf(out, "%s%s %d \"%s\"", out->n > before ? "; " : "",
                tt_phase_name(node->phase), node->stage, node->origin);
    for (int i = 0; i < node->n_out; i++) {
        const tt_value *value = &g->value[node->out[i].id];
        tt_str_add(out, i > 0 ? ", " : " ");
        print_type(g, &value->type, out);
        if (tt_is(value->updates))
            tt_str_addf(out, " updates %%%d", value->updates.id);
    }
    tt_str_add(out, "\n");
}

void tt_graph_print(const tt_graph *g, tt_str *out)
{
    tt_str_add(out, "tutti-graph 1\n");
    if (g->mesh.n_axes > 0) {
        tt_str_add(out, "mesh");
        for (int a = 0; a < g->mesh.n_axes; a++)
            tt_str_addf(out, " %s:%d", g->mesh.axis[a].name,
                        g->mesh.axis[a].size);
        tt_str_add(out, "\n");
    }
    for (int32_t v = 0; v < g->n_values; v++) {
        const tt_value *value = &g->value[v];
        if (value->node < 0)
            print_leaf(g, v, out);
        else if (value->slot == 0)
            print_node(g, &g->node[value->node], out);
    }
    for (int32_t o = 0; o < g->n_outputs; o++)
        tt_str_addf(out, "output \"%s\" %%%d\n", g->output[o].name,
                    g->output[o].val.id);
    for (int32_t v = 0; v < g->n_values; v++)
        if (tt_is(g->value[v].grad))
            tt_str_addf(out, "grad %%%d %%%d\n", v, g->value[v].grad.id);
}
