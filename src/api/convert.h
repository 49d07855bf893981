// convert - the library's own types and the public ones, one into the other.

#ifndef TT_API_CONVERT_H
#define TT_API_CONVERT_H

#include "base/arena.h"
#include "base/opt.h"
#include "graph/build.h"
#include "tutti/tutti.h"

// Whatever a callback returned as a status; any other number is TT_ERR_ARG.
tt_status tt__api_status(int status);

// The shape's text lives in the arena.
tt_status tt__api_type(tt_dtype dtype, const tt_shape *shape, tt_arena *arena,
                       tutti_type *type_out);

// The table in the arena; NULL stays NULL.
tt_status tt__api_options(const tutti_option *from, int64_t bytes,
                          tt_arena *arena, const tt_opt **table_out);

static inline tutti_status tt__api_result(tt_status status)
{
    return (tutti_status)status;
}
// First in a public function: a NULL is refused by the names of both.
#define TT_API_NEED(argument)                                                  \
    do {                                                                       \
        if ((argument) == NULL)                                                \
            return tt__api_result(tt__api_is_null(__func__, #argument));       \
    } while (0)
tt_status tt__api_is_null(const char *function, const char *argument);

static inline tt_val tt__api_in(tutti_value v)
{
    return (tt_val){v.id};
}
static inline tutti_value tt__api_out(tt_val v)
{
    return (tutti_value){v.id};
}

#endif
