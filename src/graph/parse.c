// parse - reads what print wrote, by replaying it through the builder, so that a
// text is checked as a built graph is. See print.c for the form.

#include "graph/build.h"

#include <stdlib.h>
#include <string.h>

typedef struct reader {
    tt_builder b;
    tt_op_find_fn *find;
    const char *p;
    int line;
    tt_arena *scratch;
} reader;

static tt_status bad(const reader *r, const char *what)
{
    return tt_fail(TT_ERR_ARG, "line %d: expected %s at \"%.20s\"", r->line,
                   what, r->p);
}

static void blanks(reader *r)
{
    while (*r->p == ' ')
        r->p++;
}

static bool accept(reader *r, const char *token)
{
    blanks(r);
    const size_t n = strlen(token);
    if (strncmp(r->p, token, n) != 0)
        return false;
    r->p += n;
    return true;
}

static tt_status word(reader *r, char out[64])
{
    blanks(r);
    const size_t n = strcspn(r->p, " ()\n:[]{},;\"");
    if (n == 0 || n >= 64)
        return bad(r, "a word");
    memcpy(out, r->p, n);
    out[n] = '\0';
    r->p += n;
    return TT_OK;
}

static tt_status number(reader *r, int64_t *value_out)
{
    char *end = NULL;
    blanks(r);
    const long long value = strtoll(r->p, &end, 10);
    if (end == r->p)
        return bad(r, "a number");
    r->p = end;
    *value_out = value;
    return TT_OK;
}

static tt_status value_id(reader *r, tt_val *v_out)
{
    int64_t id = 0;
    if (accept(r, "_")) {
        *v_out = TT_NONE;
        return TT_OK;
    }
    if (!accept(r, "%"))
        return bad(r, "a value like %3");
    TT_TRY(number(r, &id));
    if (id < 0 || id >= r->b.graph->n_values)
        return bad(r, "a value that was defined before");
    *v_out = (tt_val){(int32_t)id};
    return TT_OK;
}

// Text up to the closing character, in the scratch arena.
static tt_status until(reader *r, const char *open, char close,
                       const char **text_out)
{
    if (!accept(r, open))
        return bad(r, open);
    const char *end = r->p;
    while (*end != '\0' && *end != '\n' && *end != close)
        end++;
    if (*end != close)
        return bad(r, "a closing bracket or quote");
    char *text = tt_arena_alloc(r->scratch, end - r->p + 1);
    if (text == NULL)
        return TT_ERR_NOMEM;
    memcpy(text, r->p, (size_t)(end - r->p));
    r->p = end + 1;
    *text_out = text;
    return TT_OK;
}

static tt_status window(reader *r, tt_window *w)
{
    int64_t v[5] = {0};
    for (int i = 0; i < 5; i++) {
        if (i > 0 && !accept(r, ","))
            return bad(r, "five numbers of a window");
        TT_TRY(number(r, &v[i]));
    }
    *w = (tt_window){.out = v[0],
                     .kernel = (int32_t)v[1],
                     .stride = (int32_t)v[2],
                     .pad = (int32_t)v[3],
                     .dilation = (int32_t)v[4]};
    return TT_OK;
}

static tt_status part(reader *r, tt_place *place)
{
    int64_t part = 0, parts = 0;
    TT_TRY(number(r, &part));
    if (!accept(r, ","))
        return bad(r, ", and the number of blocks");
    TT_TRY(number(r, &parts));
    if (part < 0 || part >= parts || parts > INT32_MAX)
        return bad(r, "a block that there is before");
    place->part = (int32_t)part;
    place->parts = (int32_t)parts;
    return TT_OK;
}

static tt_status split_place(reader *r, const tt_shape *shape, tt_place *place)
{
    char name[64];
    int64_t rotate = 0;
    blanks(r);
    const size_t n = strcspn(r->p, "~+#/) \n");
    if (n == 0 || n >= sizeof name)
        return bad(r, "a dimension");
    memcpy(name, r->p, n);
    name[n] = '\0';
    r->p += n;
    const int factor = tt_shape_find(shape, name);
    if (factor < 0)
        return bad(r, "a dimension of the value");
    *place = tt_place_split(factor);
    place->zigzag = accept(r, "~");
    if (accept(r, "+")) {
        TT_TRY(number(r, &rotate));
        place->rotate = (int32_t)rotate;
    }
    if (accept(r, "#"))
        TT_TRY(part(r, place));
    if (accept(r, "/"))
        TT_TRY(window(r, &place->window));
    return accept(r, ")") ? TT_OK : bad(r, ")");
}

// "@0+3", or nothing.
static tt_status at(reader *r, tt_place *place)
{
    for (bool is_there = accept(r, "@"); is_there; is_there = accept(r, "+")) {
        int64_t coord = 0;
        TT_TRY(number(r, &coord));
        if (coord < 0 || coord >= TT_MAX_AT)
            return bad(r, "a coordinate below 64 before");
        place->at |= (uint64_t)1 << coord;
    }
    return TT_OK;
}

static tt_status places(reader *r, tt_type *type)
{
    if (r->b.graph->mesh.n_axes == 0)
        return TT_OK;
    if (!accept(r, "{"))
        return bad(r, "{placements}");
    for (int a = 0; a < r->b.graph->mesh.n_axes; a++) {
        if (accept(r, "R"))
            type->place[a] = tt_place_replicate();
        else if (accept(r, "P(sum)"))
            type->place[a] = tt_place_partial(TT_SUM);
        else if (accept(r, "O"))
            type->place[a] = tt_place_own();
        else if (accept(r, "P(max)"))
            type->place[a] = tt_place_partial(TT_MAX);
        else if (accept(r, "S("))
            TT_TRY(split_place(r, &type->shape, &type->place[a]));
        else
            return bad(r, "a placement");
        if (type->place[a].kind != TT_SPLIT)
            TT_TRY(at(r, &type->place[a]));
    }
    return accept(r, "}") ? TT_OK : bad(r, "}");
}

static tt_status read_type(reader *r, tt_type *type)
{
    char name[64];
    const char *shape = NULL;
    *type = (tt_type){0};
    TT_TRY(word(r, name));
    if (!tt_dtype_find(name, &type->dtype))
        return bad(r, "an element type");
    TT_TRY(until(r, "[", ']', &shape));
    TT_TRY(tt_shape_parse(shape, &type->shape));
    return places(r, type);
}

static tt_status read_init(reader *r, tt_init *init)
{
    static const char *const name[] = {"const", "normal", "uniform"};
    *init = (tt_init){.of = TT_NONE};
    if (accept(r, "copy")) {
        init->kind = TT_INIT_COPY;
        return value_id(r, &init->of);
    }
    for (int i = 0; i < 3; i++)
        if (accept(r, name[i])) {
            char *end = NULL;
            init->kind = (tt_init_kind)i;
            init->a = strtod(r->p, &end);
            r->p = end;
            return TT_OK;
        }
    return bad(r, "an initialisation");
}

static tt_status read_leaf(reader *r, tt_role role)
{
    tt_graph from = {0};
    tt_value value = {.role = role, .node = -1, .init = {.of = TT_NONE}};
    TT_TRY(until(r, "\"", '"', &value.name));
    TT_TRY(read_type(r, &value.type));
    if (tt_role_is_state(role))
        TT_TRY(read_init(r, &value.init));
    from.value = &value;
    (void)tt_leaf_copy(&r->b, &from, (tt_val){0});
    return r->b.status;
}

static tt_status read_params(reader *r, const tt_op_def *op, void *params)
{
    const char *end = strchr(r->p, '\n');
    const char *semicolon = strchr(r->p, ';');
    const char *quote = strstr(r->p, " \"");
    if (semicolon == NULL || (end != NULL && semicolon > end) ||
        (quote != NULL && semicolon > quote))
        return TT_OK;
    const char *text = NULL;
    TT_TRY(until(r, "", ';', &text));
    return tt_opt_parse(op->options, params, text, r->scratch);
}

static tt_status read_outputs(reader *r, const tt_val *out, int n_out)
{
    tt_type type;
    tt_val state;
    for (int i = 0; i < n_out; i++) {
        if (i > 0 && !accept(r, ","))
            return bad(r, ", and the next output");
        TT_TRY(read_type(r, &type));
        const tt_type *inferred = tt_type_of(&r->b, out[i]);
        if (inferred->dtype != type.dtype ||
            !tt_shape_equal(&inferred->shape, &type.shape))
            return bad(r, "the type that the operator gives before");
        for (int a = 0; a < TT_MAX_AXES; a++)
            tt_place_set(&r->b, out[i], a, type.place[a]);
        if (accept(r, "updates")) {
            TT_TRY(value_id(r, &state));
            tt_update(&r->b, state, out[i]);
        }
    }
    return TT_OK;
}

static tt_status read_phase(reader *r)
{
    int64_t stage = 0;
    char name[64];
    const char *origin = NULL;
    TT_TRY(word(r, name));
    int phase = 0;
    while (phase < TT_N_PHASES &&
           strcmp(tt_phase_name((tt_phase)phase), name) != 0)
        phase++;
    if (phase == TT_N_PHASES)
        return bad(r, "a phase before");
    TT_TRY(number(r, &stage));
    TT_TRY(until(r, "\"", '"', &origin));
    r->b.phase = (tt_phase)phase;
    r->b.stage = (int32_t)stage;
    r->b.origin = tt_arena_strdup(r->b.graph->arena, origin);
    return r->b.origin == NULL ? TT_ERR_NOMEM : TT_OK;
}

static tt_status read_inputs(reader *r, tt_val **in_out, int *n_out)
{
    int n = 0, capacity = 8;
    tt_val *in = tt_arena_alloc(r->scratch, (int64_t)sizeof *in * capacity);
    if (in == NULL)
        return TT_ERR_NOMEM;
    if (!accept(r, "("))
        return bad(r, "(");
    while (!accept(r, ")")) {
        if (n == capacity) {
            tt_val *more =
                tt_arena_alloc(r->scratch, (int64_t)sizeof *in * 2 * capacity);
            if (more == NULL)
                return TT_ERR_NOMEM;
            memcpy(more, in, sizeof *in * (size_t)n);
            in = more;
            capacity *= 2;
        }
        TT_TRY(value_id(r, &in[n++]));
    }
    *in_out = in;
    *n_out = n;
    return TT_OK;
}

static tt_status read_node(reader *r, const char *name, int n_out)
{
    const tt_op_def *op = r->find(name);
    tt_val *in = NULL, out[TT_MAX_OUT];
    void *params = NULL;
    int n_in = 0;
    if (op == NULL)
        return tt_fail(TT_ERR_ARG, "line %d: unknown operator %s", r->line,
                       name);
    TT_TRY(read_inputs(r, &in, &n_in));
    if (op->options != NULL) {
        params = tt_arena_alloc(r->scratch, op->params_bytes);
        if (params == NULL)
            return TT_ERR_NOMEM;
        TT_TRY(tt_opt_defaults(op->options, params, r->scratch));
        TT_TRY(read_params(r, op, params));
    }
    TT_TRY(read_phase(r));
    (void)tt_call(&r->b, op, params, in, n_in, out);
    r->b.origin = NULL;
    TT_TRY(r->b.status);
    if (n_out > TT_MAX_OUT || !tt_is(out[n_out - 1]))
        return bad(r, "as many outputs as the operator has");
    return read_outputs(r, out, n_out);
}

static tt_status read_definition(reader *r)
{
    static const char *const role[TT_N_ROLES] = {"",      "input", "scalar",
                                                 "param", "work",  "buffer",
                                                 "optim", "ema",   "again"};
    int64_t id = 0;
    char name[64];
    int n_out = 0;
    while (accept(r, "%")) {
        TT_TRY(number(r, &id));
        if (id != r->b.graph->n_values + n_out)
            return bad(r, "values numbered in order before");
        n_out++;
    }
    if (n_out == 0 || !accept(r, "="))
        return bad(r, "=");
    TT_TRY(word(r, name));
    blanks(r);
    for (int i = TT_ROLE_INPUT; i < TT_N_ROLES; i++)
        if (strcmp(name, role[i]) == 0 && n_out == 1 && *r->p == '"')
            return read_leaf(r, (tt_role)i);
    return read_node(r, name, n_out);
}

static tt_status read_mesh(reader *r)
{
    tt_mesh *mesh = &r->b.graph->mesh;
    tt_shape shape;
    const char *text = NULL;
    TT_TRY(until(r, "", '\n', &text));
    r->p--; // the line's end is the caller's
    TT_TRY(tt_shape_parse(text, &shape));
    if (shape.ndim > TT_MAX_AXES || shape.ndim != shape.n_factors)
        return bad(r, "a mesh before");
    mesh->n_axes = shape.ndim;
    for (int a = 0; a < shape.ndim; a++) {
        memcpy(mesh->axis[a].name, shape.factor[a].name, TT_NAME_BYTES);
        mesh->axis[a].size = (int32_t)shape.factor[a].size;
    }
    return TT_OK;
}

static tt_status read_line(reader *r)
{
    const char *name = NULL;
    tt_val v, grad;
    if (accept(r, "mesh"))
        return read_mesh(r);
    if (accept(r, "output")) {
        TT_TRY(until(r, "\"", '"', &name));
        TT_TRY(value_id(r, &v));
        tt_output(&r->b, name, v);
        return r->b.status;
    }
    if (accept(r, "grad")) {
        TT_TRY(value_id(r, &v));
        TT_TRY(value_id(r, &grad));
        if (tt_is(v))
            r->b.graph->value[v.id].grad = grad;
        return TT_OK;
    }
    return read_definition(r);
}

static tt_status read_all(reader *r)
{
    if (!accept(r, "tutti-graph 1\n"))
        return bad(r, "\"tutti-graph 1\"");
    for (r->line = 2; *r->p != '\0'; r->line++) {
        TT_TRY(read_line(r));
        blanks(r);
        if (*r->p != '\n')
            return bad(r, "the end of the line");
        r->p++;
    }
    return TT_OK;
}

tt_status tt_graph_parse(const char *text, tt_op_find_fn *find,
                         tt_graph **graph_out)
{
    static const tt_grad_ops none = {0};
    reader r = {.find = find, .p = text, .line = 1};
    TT_TRY(tt_builder_init(&r.b, &none));
    r.scratch = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (r.scratch == NULL)
        (void)tt_fail(status, "no memory to read a graph");
    else
        status = read_all(&r);
    if (status == TT_OK)
        status = tt_builder_take(&r.b, graph_out);
    tt_arena_destroy(r.scratch);
    tt_builder_fini(&r.b);
    return status;
}
