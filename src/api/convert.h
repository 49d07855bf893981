// convert - between the library's own types and the public ones of tutti.h.
//
// The folder api puts the C interface of tutti.h on top of the library. It contains
// three kinds of code: checks of arguments, copies between public and own structs, and
// "foreign" defs, which make a user's operator, model or data source look like one of
// the tree's. It trains nothing itself. It never prints; what went wrong is in
// tutti_error().
//
// A public function has the same form everywhere:
//
//   tutti_status tutti_x(...)     TT_API_NEED for each pointer, then
//                                 return tt__api_result(x(...));
//   static tt_status x(...)       the work, with TT_TRY

#ifndef TT_API_CONVERT_H
#define TT_API_CONVERT_H

#include "base/arena.h"
#include "base/settings/opt.h"
#include "graph/build.h"
#include "tutti/tutti.h"

// The status that a user's callback returned. A number that is no status is
// TT_ERR_ARG.
tt_status tt__api_status(int status);

// The text of the shape lives in the arena.
tt_status tt__api_type(tt_dtype dtype, const tt_shape *shape, tt_arena *arena,
                       tutti_type *type_out);

// A copy of the user's option table, in the arena, checked against the size of the
// struct that it fills. NULL stays NULL.
tt_status tt__api_options(const tutti_option *from, int64_t bytes,
                          tt_arena *arena, const tt_opt **table_out);

static inline tutti_status tt__api_result(tt_status status)
{
    return (tutti_status)status;
}
// Stands first in a public function. A NULL is refused with the names of the function
// and of the argument.
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
