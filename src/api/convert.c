// convert - copies between the public structs and the library's own.
//
// Enums are not translated: both sides use the same numbers, so a cast is enough. The
// assertions below hold them together at compile time.

#include "api/convert.h"

#include "model/model.h"

_Static_assert((int)TUTTI_ERR_ARG == TT_ERR_ARG &&
                   (int)TUTTI_ERR_NOMEM == TT_ERR_NOMEM &&
                   (int)TUTTI_ERR_UNSUPPORTED == TT_ERR_UNSUPPORTED &&
                   (int)TUTTI_ERR_IO == TT_ERR_IO &&
                   (int)TUTTI_ERR_PEER == TT_ERR_PEER &&
                   (int)TUTTI_ERR_TIMEOUT == TT_ERR_TIMEOUT &&
                   (int)TUTTI_ERR_STATE == TT_ERR_STATE,
               "statuses are the same numbers");
_Static_assert((int)TUTTI_F64 == TT_F64 && (int)TUTTI_F32 == TT_F32 &&
                   (int)TUTTI_BF16 == TT_BF16 && (int)TUTTI_F16 == TT_F16 &&
                   (int)TUTTI_I64 == TT_I64 && (int)TUTTI_I32 == TT_I32 &&
                   (int)TUTTI_U8 == TT_U8,
               "element types are the same numbers");
_Static_assert((int)TUTTI_OPTION_I64 == TT_OPT_I64 &&
                   (int)TUTTI_OPTION_F64 == TT_OPT_F64 &&
                   (int)TUTTI_OPTION_BOOL == TT_OPT_BOOL &&
                   (int)TUTTI_OPTION_CHOICE == TT_OPT_CHOICE &&
                   (int)TUTTI_OPTION_STR == TT_OPT_STR,
               "option types are the same numbers");
_Static_assert((int)TUTTI_INIT_CONST == TT_INIT_CONST &&
                   (int)TUTTI_INIT_NORMAL == TT_INIT_NORMAL &&
                   (int)TUTTI_INIT_UNIFORM == TT_INIT_UNIFORM,
               "initialisations are the same numbers");
_Static_assert((int)TUTTI_TOKENS == TT_TASK_TOKENS &&
                   (int)TUTTI_IMAGES == TT_TASK_IMAGES,
               "tasks are the same numbers");
_Static_assert((int)TUTTI_MAX_DIMS == TT_MAX_DIMS &&
                   (int)TUTTI_MAX_OUT == TT_MAX_OUT,
               "limits are the same");

tt_status tt__api_status(int status)
{
    return status <= TT_OK && status >= TT_ERR_STATE ? (tt_status)status
                                                     : TT_ERR_ARG;
}

tt_status tt__api_is_null(const char *function, const char *argument)
{
    return tt_fail(TT_ERR_ARG, "%s: %s is NULL", function, argument);
}

tt_status tt__api_type(tt_dtype dtype, const tt_shape *shape, tt_arena *arena,
                       tutti_type *type_out)
{
    tutti_type type = {.dtype = (tutti_dtype)dtype, .ndim = shape->ndim};
    tt_str text = {0};
    tt_shape_print(shape, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK) {
        type.shape = tt_arena_strdup(arena, tt_str_text(&text));
        status = type.shape == NULL ? TT_ERR_NOMEM : TT_OK;
    }
    tt_str_fini(&text);
    for (int d = 0; d < shape->ndim; d++)
        type.dim[d] = tt_shape_dim(shape, d);
    type.count = tt_shape_count(shape);
    if (status == TT_OK)
        *type_out = type;
    return status;
}

static int64_t option_bytes(tutti_option_type type)
{
    static const int64_t bytes[] = {
        [TUTTI_OPTION_I64] = sizeof(int64_t),
        [TUTTI_OPTION_F64] = sizeof(double),
        [TUTTI_OPTION_BOOL] = sizeof(bool),
        [TUTTI_OPTION_CHOICE] = sizeof(int),
        [TUTTI_OPTION_STR] = sizeof(const char *),
    };
    return (unsigned)type <= TUTTI_OPTION_STR ? bytes[type] : INT64_MAX;
}

// Copies one option. Its texts are copied too, since the caller's may be gone later.
static tt_status copy_option(const tutti_option *from, int64_t bytes,
                             tt_arena *arena, tt_opt *to)
{
    if (option_bytes(from->type) > bytes ||
        (int64_t)from->offset > bytes - option_bytes(from->type))
        return tt_fail(TT_ERR_ARG, "option %s lies outside of its %lld bytes",
                       from->name, (long long)bytes);
    if (from->type == TUTTI_OPTION_CHOICE && from->choices == NULL)
        return tt_fail(TT_ERR_ARG, "option %s has no choices", from->name);
    const char *text[4] = {from->name, from->fallback, from->doc,
                           from->choices};
    for (int i = 0; i < 4; i++)
        if (text[i] != NULL) {
            text[i] = tt_arena_strdup(arena, text[i]);
            if (text[i] == NULL)
                return TT_ERR_NOMEM;
        }
    *to = (tt_opt){.name = text[0],
                   .fallback = text[1],
                   .doc = text[2] != NULL ? text[2] : "",
                   .type = (tt_opt_type)from->type,
                   .offset = from->offset,
                   .choices = text[3],
                   .min = from->min,
                   .max = from->max};
    return TT_OK;
}

tt_status tt__api_options(const tutti_option *from, int64_t bytes,
                          tt_arena *arena, const tt_opt **table_out)
{
    int64_t n = 0;
    if (from == NULL) {
        *table_out = NULL;
        return TT_OK;
    }
    while (from[n].name != NULL)
        n++;
    tt_opt *table = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *table);
    void *trial = tt_arena_alloc(arena, bytes);
    if (table == NULL || trial == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        TT_TRY(copy_option(&from[i], bytes, arena, &table[i]));
    TT_TRY(
        tt_opt_defaults(table, trial, arena)); // a default that cannot be read
    *table_out = table;
    return TT_OK;
}
