// tidy.h - included before every file that clang-tidy reads: tells its analyzer
// that tt_fail returns the code it was given, which it cannot see from one file.

#include "base/status.h"

#define tt_fail(code, ...) ((void)(tt_fail)(code, __VA_ARGS__), (code))
#define tt_fail_context(code, ...)                                             \
    ((void)(tt_fail_context)(code, __VA_ARGS__), (code))
