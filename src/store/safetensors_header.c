// safetensors_header - from JSON to a table in which nothing overlaps, nothing
// is missing and every size is what its shape says.

#include "store/safetensors_header.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

typedef struct element {
    const char *dtype;
    int bits;
} element;

// In the order of the format's own list; files are written from its end.
static const element elements[] = {
    {"BOOL", 8},    {"F4", 4},          {"F6_E2M3", 6},     {"F6_E3M2", 6},
    {"U8", 8},      {"I8", 8},          {"F8_E5M2", 8},     {"F8_E4M3", 8},
    {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},        {"BF16", 16},       {"I32", 32},
    {"U32", 32},    {"F32", 32},        {"C64", 64},        {"F64", 64},
    {"I64", 64},    {"U64", 64},
};

enum { N_ELEMENTS = sizeof(elements) / sizeof(elements[0]) };

static int element_index(const char *dtype)
{
    for (int i = 0; i < N_ELEMENTS; i++)
        if (strcmp(elements[i].dtype, dtype) == 0)
            return i;
    return -1;
}

int64_t tt_safetensors_bits(const char *dtype)
{
    const int i = element_index(dtype);
    return i >= 0 ? elements[i].bits : 0;
}

int tt_safetensors_rank(const char *dtype)
{
    return N_ELEMENTS - 1 - element_index(dtype);
}

tt_status tt_safetensors_size(const tt_safetensor *tensor, int64_t *bytes)
{
    const char *name = tensor->name;
    int64_t bits = tt_safetensors_bits(tensor->dtype);
    if (bits == 0)
        return tt_fail(TT_ERR_ARG, "tensor \"%s\": unknown dtype \"%s\"", name,
                       tensor->dtype);
    for (int64_t i = 0; i < tensor->ndim; i++) {
        if (tensor->shape[i] < 0)
            return tt_fail(TT_ERR_ARG, "tensor \"%s\": a negative extent",
                           name);
        if (__builtin_mul_overflow(bits, tensor->shape[i], &bits))
            return tt_fail(TT_ERR_ARG, "tensor \"%s\": the shape is too large",
                           name);
    }
    if (bits % 8 != 0)
        return tt_fail(TT_ERR_ARG, "tensor \"%s\": does not fill whole bytes",
                       name);
    *bytes = bits / 8;
    return TT_OK;
}

// An upper bound on what parsing needs: each bracket, colon and comma stands for
// an object, array, pair or element of jansson's, at most this large.
static int64_t parse_bytes(const char *json, int64_t n)
{
    int64_t bytes = 4 * n;
    for (int64_t i = 0; i < n; i++)
        switch (json[i]) {
        case '{':
            bytes += 480;
            break;
        case '[':
            bytes += 192;
            break;
        case ':':
            bytes += 256;
            break;
        case ',':
            bytes += 96;
            break;
        default:
            break;
        }
    return bytes;
}

static tt_status read_numbers(const char *name, const char *what,
                              const json_t *list, int64_t *v)
{
    const size_t n = json_array_size(list);
    for (size_t i = 0; i < n; i++) {
        const json_t *item = json_array_get(list, i);
        if (!json_is_integer(item) || json_integer_value(item) < 0)
            return tt_fail(TT_ERR_ARG,
                           "tensor \"%s\": %s must be whole "
                           "numbers from 0 on",
                           name, what);
        v[i] = json_integer_value(item);
    }
    return TT_OK;
}

static tt_status read_shape(const json_t *shape, tt_arena *arena,
                            tt_safetensor *tensor)
{
    const int64_t ndim = (int64_t)json_array_size(shape);
    int64_t *v = tt_arena_alloc(arena, ndim * (int64_t)sizeof(*v));
    if (v == NULL)
        return TT_ERR_NOMEM;
    tensor->ndim = ndim;
    tensor->shape = v;
    return read_numbers(tensor->name, "shape", shape, v);
}

static tt_status read_tensor(const char *name, const json_t *info,
                             tt_arena *arena, tt_safetensor *tensor)
{
    const json_t *type = json_object_get(info, "dtype");
    const json_t *shape = json_object_get(info, "shape");
    const json_t *offsets = json_object_get(info, "data_offsets");
    int64_t range[2] = {0}, bytes = 0;
    if (!json_is_string(type) || !json_is_array(shape) ||
        json_array_size(offsets) != 2 || json_object_size(info) != 3)
        return tt_fail(TT_ERR_ARG,
                       "tensor \"%s\": must have dtype, shape and "
                       "two data_offsets, nothing else",
                       name);
    tensor->name = tt_arena_strdup(arena, name);
    tensor->dtype = tt_arena_strdup(arena, json_string_value(type));
    if (tensor->name == NULL || tensor->dtype == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(read_shape(shape, arena, tensor));
    TT_TRY(read_numbers(name, "data_offsets", offsets, range));
    TT_TRY(tt_safetensors_size(tensor, &bytes));
    if (range[1] < range[0] || range[1] - range[0] != bytes)
        return tt_fail(TT_ERR_ARG,
                       "tensor \"%s\": has %lld bytes by its shape "
                       "but data_offsets [%lld, %lld]",
                       name, (long long)bytes, (long long)range[0],
                       (long long)range[1]);
    tensor->offset = range[0];
    tensor->bytes = bytes;
    return TT_OK;
}

static tt_status read_notes(json_t *metadata, tt_arena *arena,
                            tt_safetensors_table *table)
{
    const char *key = NULL;
    json_t *value = NULL;
    if (!json_is_object(metadata))
        return tt_fail(TT_ERR_ARG, "__metadata__ must map text to text");
    const int64_t n = (int64_t)json_object_size(metadata);
    table->notes = tt_arena_alloc(arena, n * (int64_t)sizeof(*table->notes));
    if (table->notes == NULL)
        return TT_ERR_NOMEM;
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return tt_fail(TT_ERR_ARG, "__metadata__ \"%s\" must be text", key);
        tt_safetensors_note *note = &table->notes[table->n_notes++];
        note->key = tt_arena_strdup(arena, key);
        note->value = tt_arena_strdup(arena, json_string_value(value));
        if (note->key == NULL || note->value == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

static tt_status read_table(json_t *root, tt_arena *arena,
                            tt_safetensors_table *table)
{
    const char *name = NULL;
    json_t *info = NULL;
    const int64_t n = (int64_t)json_object_size(root);
    table->v = tt_arena_alloc(arena, n * (int64_t)sizeof(*table->v));
    if (table->v == NULL)
        return TT_ERR_NOMEM;
    json_object_foreach(root, name, info)
    {
        if (strcmp(name, "__metadata__") == 0)
            TT_TRY(read_notes(info, arena, table));
        else
            TT_TRY(read_tensor(name, info, arena, &table->v[table->n++]));
    }
    return TT_OK;
}

static int by_offset(const void *a, const void *b)
{
    const tt_safetensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

// Each tensor begins where the one before it ends; the last ends the file.
static tt_status check_offsets(tt_safetensors_table *table, int64_t data_bytes)
{
    int64_t end = 0;
    if (table->n > 1)
        qsort(table->v, (size_t)table->n, sizeof(*table->v), by_offset);
    for (int64_t i = 0; i < table->n; i++) {
        const tt_safetensor *t = &table->v[i];
        if (t->offset != end)
            return tt_fail(TT_ERR_ARG,
                           "tensor \"%s\": begins at %lld, but the "
                           "one before it ends at %lld",
                           t->name, (long long)t->offset, (long long)end);
        end += t->bytes;
    }
    if (end != data_bytes)
        return tt_fail(TT_ERR_ARG,
                       "the tensors need %lld bytes but the file "
                       "has %lld for them",
                       (long long)end, (long long)data_bytes);
    return TT_OK;
}

tt_status tt_safetensors_header_read(const char *json, int64_t n,
                                     int64_t data_bytes, tt_arena *arena,
                                     tt_safetensors_table *table)
{
    if (n < 1 || json[0] != '{')
        return tt_fail(TT_ERR_ARG, "not a safetensors file: the header does "
                                   "not begin with {");
    if (parse_bytes(json, n) > n + data_bytes + TT_SAFETENSORS_EXTRA)
        return tt_fail(TT_ERR_ARG,
                       "the header would need more memory than the "
                       "file's size and %d MiB",
                       TT_SAFETENSORS_EXTRA >> 20);
    json_error_t error;
    json_t *root = json_loadb(json, (size_t)n, JSON_REJECT_DUPLICATES, &error);
    if (root == NULL)
        return tt_fail(TT_ERR_ARG,
                       "the header is not valid JSON: %s at byte "
                       "%d",
                       error.text, error.position);
    tt_safetensors_table read = {0};
    tt_status status = read_table(root, arena, &read);
    json_decref(root);
    if (status == TT_OK)
        status = check_offsets(&read, data_bytes);
    if (status == TT_OK)
        *table = read;
    return status;
}
