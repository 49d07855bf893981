// model - a user's model that looks like one of the tree's.
//
// The user's build function gets the public builder, which is the library's own under
// another name, and says which values are logits and labels.

#include "model/model.h"

#include "api/convert.h"

typedef struct foreign_model {
    tt_model_def def; // must be first: the registry holds a pointer to it
    tt_arena *arena;  // owns all of it, and is never freed
    tutti_model_build_fn *build;
    void *user;
} foreign_model;

// The training graph needs these four: a model that forgot one would fail later, and
// with a message about something else.
static tt_status check_built(const tt_builder *b, const tutti_model_io *io,
                             const char *name)
{
    const int32_t n = b->graph->n_values;
    if (io->logits.id < 0 || io->logits.id >= n || io->labels.id < 0 ||
        io->labels.id >= n)
        return tt_fail(TT_ERR_ARG, "model %s set no logits or no labels", name);
    if (!tt_is(tt_graph_find(b->graph, "x")) ||
        !tt_is(tt_graph_find(b->graph, "y")))
        return tt_fail(TT_ERR_ARG, "model %s has no input \"x\" or no \"y\"",
                       name);
    return TT_OK;
}

static tt_status build(tt_builder *b, const void *params, tt_model_io *io)
{
    const foreign_model *model = (const foreign_model *)io->def;
    const char *name = model->def.name;
    tutti_model_io seen = {.batch = io->batch,
                           .seq = io->seq,
                           .image = io->image,
                           .logits = TUTTI_NONE,
                           .labels = TUTTI_NONE};
    (void)tt_fail(TT_ERR_ARG, "model %s did not build", name);
    const tt_status status = tt__api_status(
        model->build((tutti_builder *)b, params, &seen, model->user));
    TT_TRY(tt_builder_status(b));
    TT_TRY(status);
    TT_TRY(check_built(b, &seen, name));
    io->seq = seen.seq;
    io->image = seen.image;
    io->logits = tt__api_in(seen.logits);
    io->labels = tt__api_in(seen.labels);
    return TT_OK;
}

static tt_status fill(const tutti_model *from, tt_arena *arena,
                      foreign_model *model)
{
    static const tt_opt no_options[] = {{0}};
    const tt_opt *options = NULL;
    if (from->name == NULL || from->name[0] == '\0' || from->build == NULL)
        return tt_fail(TT_ERR_ARG, "a model needs a name and a build function");
    TT_TRY(
        tt__api_options(from->options, from->options_bytes, arena, &options));
    model->def = (tt_model_def){
        .name = tt_arena_strdup(arena, from->name),
        .doc = tt_arena_strdup(arena, from->doc ? from->doc : ""),
        .options = options != NULL ? options : no_options,
        .params_bytes = options != NULL ? from->options_bytes : 1,
        .task = (tt_model_task)from->task,
        .is_foreign = true,
        .build = build};
    model->arena = arena;
    model->build = from->build;
    model->user = from->user;
    return model->def.name != NULL && model->def.doc != NULL ? TT_OK
                                                             : TT_ERR_NOMEM;
}

tutti_status tutti_model_register(const tutti_model *model)
{
    TT_API_NEED(model);
    tt_arena *arena = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (arena == NULL)
        return tt__api_result(tt_fail(status, "no memory for a model"));
    foreign_model *own = tt_arena_alloc(arena, sizeof *own);
    if (own != NULL)
        status = fill(model, arena, own);
    if (status == TT_OK)
        status = tt_model_register(&own->def);
    if (status != TT_OK)
        tt_arena_destroy(arena);
    return tt__api_result(status);
}
