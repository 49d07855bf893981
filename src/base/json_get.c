// json_get - members and values of what json_read built.

#include "base/json_read.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

const tt_json_value *tt_json_get(const tt_json_value *object, const char *key)
{
    const tt_json_value *v = NULL;
    if (object != NULL && object->type == TT_JSON_OBJECT)
        v = object->first;
    while (v != NULL &&
           (v->key_n != (int64_t)strlen(key) || strcmp(v->key, key) != 0))
        v = v->next;
    return v;
}

static bool is_type(const tt_json_value *value, tt_json_type type)
{
    return value != NULL && value->type == type;
}

const char *tt_json_text(const tt_json_value *value, const char *fallback)
{
    return is_type(value, TT_JSON_STRING) ? value->text : fallback;
}

int64_t tt_json_int(const tt_json_value *value, int64_t fallback)
{
    int64_t result = 0;
    if (!is_type(value, TT_JSON_NUMBER))
        return fallback;
    const bool is_negative = value->text[0] == '-';
    for (const char *p = value->text + is_negative; *p != '\0'; p++) {
        if (*p < '0' || *p > '9' ||
            __builtin_mul_overflow(result, 10, &result) ||
            __builtin_add_overflow(result, is_negative ? '0' - *p : *p - '0',
                                   &result))
            return fallback;
    }
    return result;
}

double tt_json_number(const tt_json_value *value, double fallback)
{
    char copy[64];
    char *stop = NULL;
    if (!is_type(value, TT_JSON_NUMBER))
        return fallback;
    double result = strtod(value->text, &stop);
    if (*stop == '.' && value->n < (int64_t)sizeof copy) {
        memcpy(copy, value->text, (size_t)value->n + 1);
        copy[stop - value->text] = localeconv()->decimal_point[0];
        result = strtod(copy, NULL); // the host program's locale has a comma
    }
    return result;
}

bool tt_json_truth(const tt_json_value *value, bool fallback)
{
    return is_type(value, TT_JSON_BOOL) ? value->is_true : fallback;
}
