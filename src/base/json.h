// json - writes JSON into a tt_str; commas and escaping are looked after.

#ifndef TT_BASE_JSON_H
#define TT_BASE_JSON_H

#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct tt_json {
    tt_str *out;
    bool needs_comma;
    bool is_compact; // no blanks after commas and colons
} tt_json;

// `key` is NULL inside arrays and at the top.
void tt_json_open(tt_json *j, const char *key, char bracket); // '{' or '['
void tt_json_close(tt_json *j, char bracket);                 // '}' or ']'
void tt_json_str(tt_json *j, const char *key, const char *value);
void tt_json_i64(tt_json *j, const char *key, int64_t value);
void tt_json_f64(tt_json *j, const char *key, double value); // NaN, Inf: null
// The same with a point or an exponent always, for readers that tell 1.0 from 1.
void tt_json_real(tt_json *j, const char *key, double value);
void tt_json_bool(tt_json *j, const char *key, bool value);

#endif
