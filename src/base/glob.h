// glob - a pattern against a name: `*` any text, `?` one character, `[a-c]` one of a
// set (`[!a-c]`: none of it).

#ifndef TT_BASE_GLOB_H
#define TT_BASE_GLOB_H

#include <stdbool.h>

bool tt_glob_match(const char *pattern, const char *name);

#endif
