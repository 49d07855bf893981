// json_read - JSON text to a tree in an arena.
//
// Strict RFC 8259, UTF-8 checked, escapes resolved. Believes nothing: depth is
// limited, a key may stand only once in an object, and a text whose tree would
// need more memory than its own size and 64 MiB is refused. Numbers keep their
// text, so that whole numbers of 64 bits stay exact.

#ifndef TT_BASE_JSON_READ_H
#define TT_BASE_JSON_READ_H

#include "base/arena.h"
#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { TT_JSON_DEPTH_MAX = 64, TT_JSON_EXTRA = 64 << 20 };

typedef enum tt_json_type {
    TT_JSON_NULL,
    TT_JSON_BOOL,
    TT_JSON_NUMBER,
    TT_JSON_STRING,
    TT_JSON_ARRAY,
    TT_JSON_OBJECT,
} tt_json_type;

typedef struct tt_json_value tt_json_value;
struct tt_json_value {
    tt_json_type type : 8;
    bool is_true : 1;
    int32_t key_n;    // bytes of the key
    const char *key;  // in an object: terminated
    const char *text; // of a string (terminated, may hold \0) or a number
    int64_t n;        // bytes of text, or children
    const tt_json_value *first, *next; // children; the next sibling
};

// `name` is what errors call the text: "tokenizer.json:3:17: expected ...".
tt_status tt_json_read(const char *text, int64_t n, const char *name,
                       tt_arena *arena, const tt_json_value **root_out);

// A member of an object, or NULL (also when `object` is NULL or none).
const tt_json_value *tt_json_get(const tt_json_value *object, const char *key);

// Values with a type; the fallback when it is absent or of another type.
const char *tt_json_text(const tt_json_value *value, const char *fallback);
int64_t tt_json_int(const tt_json_value *value, int64_t fallback);
double tt_json_number(const tt_json_value *value, double fallback);
bool tt_json_truth(const tt_json_value *value, bool fallback);

#endif
