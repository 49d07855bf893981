// small - the small models of the registry, and their data.
//
// All numbers come from a hash of (leaf's name, element). So the same weight has the
// same value in every graph, on every simulated rank and in every micro-batch.

#include "check/small.h"

#include "base/alloc.h"
#include "base/rng.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

bool tt_small_at(int index, tt_small *out)
{
    int n = 0, before = 0;
    const tt_model_def *const *models = tt_model_all(&n);
    for (int i = 0; i < n; i++)
        for (const tt_model_sample *s = models[i]->samples;
             s != NULL && s->options != NULL; s++)
            if (before++ == index) {
                *out = (tt_small){
                    models[i]->name, s->options,     s->seq, s->image,
                    s->tensor,       s->needs_batch, index};
                return true;
            }
    return false;
}

static tt_status read_options(const tt_small *small, tt_arena *arena,
                              tt_train_recipe *recipe)
{
    const tt_model_preset *preset = NULL;
    TT_TRY(tt_model_find(small->model, &recipe->model, &preset));
    const tt_opt *table = recipe->model->options;
    void *params = tt_arena_alloc(arena, recipe->model->params_bytes);
    if (params == NULL)
        return TT_ERR_NOMEM;
    recipe->model_params = params;
    TT_TRY(tt_opt_defaults(table, params, arena));
    return tt_opt_parse(table, params, small->options, arena);
}

tt_status tt_small_build_as(const tt_small *small,
                            const tt_train_recipe *recipe, int64_t batch,
                            tt_graph **graph_out)
{
    tt_train_recipe own = *recipe;
    tt_model_io io = {.batch = batch, .seq = small->seq, .image = small->image};
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a law");
    tt_status status = read_options(small, arena, &own);
    if (status == TT_OK)
        status = tt_train_graph(&own, &io, graph_out);
    tt_arena_destroy(arena);
    return status;
}

tt_status tt_small_build(const tt_small *small, int64_t batch,
                         tt_graph **graph_out)
{
    const tt_train_recipe recipe = {.optim = {.def = tt_optim_find("sgd")},
                                    .dtype = TT_F64,
                                    .master = TT_F64};
    return tt_small_build_as(small, &recipe, batch, graph_out);
}

int64_t tt_small_elements(const tt_graph *g, tt_val v)
{
    return tt_shape_count(&g->value[v.id].type.shape);
}

// Labels and tokens stay below 5, the smallest number of classes in any sample.
static void fill_input(const tt_value *value, int64_t first, double *out)
{
    const tt_shape *shape = &value->type.shape;
    const int64_t n = tt_shape_count(shape);
    const int64_t sample = n / tt_shape_dim(shape, 0);
    const uint64_t key = tt_rng_key(3, value->name, 0);
    for (int64_t i = 0; i < n; i++) {
        const double u = tt_rng_uniform(key, (uint64_t)(first * sample + i));
        out[i] =
            tt_dtype_is_float(value->type.dtype) ? 2 * u - 1 : floor(5 * u);
    }
}

// Near the initial value but nowhere constant: with constant weights some gradients
// would be zero, and a wrong factor in them would not show.
static void fill_state(const tt_value *value, int64_t n, double *out)
{
    const uint64_t key = tt_rng_key(5, value->name, 0);
    const bool is_const = value->init.kind == TT_INIT_CONST;
    const double size = is_const ? 0.2 : fmin(fmax(value->init.a, 0.3), 0.5);
    for (int64_t i = 0; i < n; i++) {
        const double u = 2 * tt_rng_uniform(key, (uint64_t)i) - 1;
        out[i] = (is_const ? value->init.a : 0) + size * u;
    }
}

static double scalar_of(const char *name)
{
    static const struct {
        const char *name;
        double value;
    } table[] = {{"skip", 0},
                 {"lr", 0.05},
                 {"first_sample", 0},
                 {"samples", TT_SMALL_BATCH}};
    for (int i = 0; i < 4; i++)
        if (strcmp(table[i].name, name) == 0)
            return table[i].value;
    return 1; // seed, step
}

void tt_small_fill(const tt_graph *g, tt_val v, int64_t first, double *out)
{
    const tt_value *value = &g->value[v.id];
    if (value->role == TT_ROLE_INPUT)
        fill_input(value, first, out);
    else if (value->role == TT_ROLE_SCALAR)
        *out = scalar_of(value->name);
    else
        fill_state(value, tt_shape_count(&value->type.shape), out);
}

tt_status tt_small_open(const tt_graph *g, tt_interp **interp_out)
{
    tt_interp *it = NULL;
    TT_TRY(tt_interp_create(g, &it));
    for (int32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].node >= 0)
            continue;
        double *data = tt_alloc(8 * tt_small_elements(g, (tt_val){v}));
        if (data == NULL) {
            tt_interp_destroy(it);
            return tt_fail(TT_ERR_NOMEM, "no memory for a law");
        }
        tt_small_fill(g, (tt_val){v}, 0, data);
        tt_interp_write(it, (tt_val){v}, data);
        tt_free(data);
    }
    *interp_out = it;
    return TT_OK;
}

double *tt_small_read(tt_interp *it, const tt_graph *g, tt_val v)
{
    double *data = tt_alloc(8 * tt_small_elements(g, v));
    if (data == NULL)
        (void)tt_fail(TT_ERR_NOMEM, "no memory for a law");
    else
        (void)tt_interp_read(it, v, data);
    return data;
}

double tt_small_loss(tt_interp *it, const tt_graph *g)
{
    double loss = 0;
    (void)tt_interp_read(it, tt_graph_output_find(g, "loss"), &loss);
    return loss;
}

void tt_small_each(tt_law_report *r, tt_small_check_fn *check)
{
    int n = 0;
    const tt_model_def *const *models = tt_model_all(&n);
    for (int i = 0; i < n; i++)
        if (tt_law_report_wants(r, models[i]->name) && !models[i]->is_foreign)
            tt_law_report_check(r, models[i]->samples != NULL,
                                "model %s has no samples: small configurations "
                                "(tt_model_sample) that the laws can train",
                                models[i]->name);
    tt_small s;
    for (int i = 0; tt_small_at(i, &s); i++) {
        char name[160];
        if (!tt_law_report_wants(r, s.model))
            continue;
        snprintf(name, sizeof name, "model %s %s", s.model, s.options);
        const tt_status status = check(r, &s, name);
        tt_law_report_check(r, status == TT_OK, "%s: %s", name,
                            tt_error_message());
    }
}
