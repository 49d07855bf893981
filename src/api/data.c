// data - a user's data source that looks like one of the tree's.
//
// The callbacks get an index over all samples. Which of them are for validation is
// decided here: the last `val_count`, or what data.holdout takes where the source does
// not say.

#include "data/data.h"

#include "api/convert.h"
#include "base/alloc.h"

typedef struct foreign_source {
    tt_source_def def; // must be first: the registry holds a pointer to it
    tutti_source from; // as it was given, with texts of our own
    tt_arena *arena;   // owns all of it, and is never freed
} foreign_source;

typedef struct opened {
    tt_source source;
    const tutti_source *from;
    int64_t first; // the split's first sample, of all samples
} opened;

static void close_source(tt_source *source)
{
    tt_free(source);
}

static tt_status check_request(const tutti_source *from,
                               const tt_source_request *request)
{
    if (request->path[0] != '\0' || request->val[0] != '\0')
        return tt_fail(TT_ERR_ARG,
                       "%s comes from the program itself: leave data.path and "
                       "data.val out",
                       from->name);
    return TT_OK;
}

static tt_status open_source(const tt_source_request *request,
                             const void *params, tt_source **source_out)
{
    const tutti_source *from = &((const foreign_source *)request->def)->from;
    (void)params;
    TT_TRY(check_request(from, request));
    opened *o = tt_alloc(sizeof *o);
    if (o == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for a source");
    o->from = from;
    o->source = (tt_source){
        .def = request->def,
        .kind = from->kind == TUTTI_TOKENS ? TT_DATA_TOKENS : TT_DATA_IMAGES,
        .n = from->count - from->val_count,
        .classes = from->classes,
        .channels = from->channels,
        .height = from->height,
        .width = from->width,
    };
    if (from->val_count == 0) {
        tt_source_part(request, from->count, &o->first, &o->source.n);
    } else if (request->split == TT_SPLIT_VAL) {
        o->first = o->source.n;
        o->source.n = from->val_count;
    }
    *source_out = &o->source;
    return TT_OK;
}

// Sets the message for a callback that fails without one of its own.
static void prepare_message(const opened *o, const char *what, int64_t at)
{
    (void)tt_fail(TT_ERR_IO, "%s could not give %s %lld", o->from->name, what,
                  (long long)at);
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const opened *o = (const opened *)source;
    prepare_message(o, "the tokens from", o->first + first);
    return tt__api_status(
        o->from->tokens(o->from->user, o->first + first, n, out));
}

static tt_status image(const tt_source *source, int64_t index, tt_image *out,
                       int32_t *label_out)
{
    const opened *o = (const opened *)source;
    const int64_t at = o->first + index;
    TT_TRY(tt_image_reserve(out, source->channels, source->height,
                            source->width, true));
    prepare_message(o, "image", at);
    return tt__api_status(
        o->from->image(o->from->user, at, out->f32, label_out));
}

static tt_status check_source(const tutti_source *from)
{
    const bool is_tokens = from->kind == TUTTI_TOKENS;
    if (from->name == NULL || from->name[0] == '\0')
        return tt_fail(TT_ERR_ARG, "a source needs a name");
    if (is_tokens ? from->tokens == NULL
                  : from->kind != TUTTI_IMAGES || from->image == NULL)
        return tt_fail(TT_ERR_ARG,
                       "source %s has no function that gives its %s",
                       from->name, is_tokens ? "tokens" : "images");
    if (from->count < 1 || from->val_count < 0 ||
        from->val_count >= from->count || from->classes < 0)
        return tt_fail(TT_ERR_ARG,
                       "source %s has %lld samples, %lld of them for "
                       "validation, and %lld classes",
                       from->name, (long long)from->count,
                       (long long)from->val_count, (long long)from->classes);
    if (!is_tokens &&
        (from->channels < 1 || from->height < 1 || from->width < 1))
        return tt_fail(TT_ERR_ARG, "source %s has images of %lld x %lld x %lld",
                       from->name, (long long)from->channels,
                       (long long)from->height, (long long)from->width);
    return TT_OK;
}

static tt_status fill(const tutti_source *from, tt_arena *arena,
                      foreign_source *own)
{
    TT_TRY(check_source(from));
    own->arena = arena;
    own->from = *from;
    own->from.name = tt_arena_strdup(arena, from->name);
    own->from.doc = tt_arena_strdup(arena, from->doc ? from->doc : "");
    if (own->from.name == NULL || own->from.doc == NULL)
        return TT_ERR_NOMEM;
    own->def = (tt_source_def){.name = own->from.name,
                               .doc = own->from.doc,
                               .open = open_source,
                               .close = close_source,
                               .tokens = tokens,
                               .image = image};
    return TT_OK;
}

tutti_status tutti_source_register(const tutti_source *source)
{
    TT_API_NEED(source);
    tt_arena *arena = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (arena == NULL)
        return tt__api_result(tt_fail(status, "no memory for a source"));
    foreign_source *own = tt_arena_alloc(arena, sizeof *own);
    if (own != NULL)
        status = fill(source, arena, own);
    if (status == TT_OK)
        status = tt_source_register(&own->def);
    if (status != TT_OK)
        tt_arena_destroy(arena);
    return tt__api_result(status);
}
