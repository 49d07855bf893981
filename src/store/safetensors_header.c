// safetensors_header - reads the JSON header into a table in which nothing
// overlaps, nothing is missing, and every size is what its shape says.
//
// Files come from anywhere. An offset outside the file would read foreign memory,
// overlapping tensors would hide data, and a header of a few kilobytes could ask
// for gigabytes of table. Each is refused, with the name of the tensor. The memory
// of the table is bounded before it is allocated.

#include "store/safetensors_header.h"

#include "base/json_read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct element {
    const char *dtype;
    int bits;
} element;

// In the order of the reference implementation, which writes types from its end.
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

// Bytes of a tensor by its type and shape. Computed in bits, since there are types
// of 4 and 6 bits, and every product is checked for overflow.
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

static tt_status read_numbers(const char *name, const char *what,
                              const tt_json_value *list, int64_t *v)
{
    int64_t n = 0;
    for (const tt_json_value *i = list->first; i != NULL; i = i->next) {
        v[n] = tt_json_int(i, -1);
        if (v[n++] < 0)
            return tt_fail(TT_ERR_ARG,
                           "tensor \"%s\": %s must be whole "
                           "numbers from 0 on",
                           name, what);
    }
    return TT_OK;
}

static tt_status read_shape(const tt_json_value *shape, tt_arena *arena,
                            tt_safetensor *tensor)
{
    int64_t *v = tt_arena_alloc(arena, shape->n * (int64_t)sizeof(*v));
    if (v == NULL)
        return TT_ERR_NOMEM;
    tensor->ndim = shape->n;
    tensor->shape = v;
    return read_numbers(tensor->name, "shape", shape, v);
}

static bool is_type(const tt_json_value *value, tt_json_type type)
{
    return value != NULL && value->type == type;
}

static tt_status read_tensor(const tt_json_value *info, tt_arena *arena,
                             tt_safetensor *tensor)
{
    const char *name = info->key;
    const tt_json_value *type = tt_json_get(info, "dtype");
    const tt_json_value *shape = tt_json_get(info, "shape");
    const tt_json_value *offsets = tt_json_get(info, "data_offsets");
    int64_t range[2] = {0}, bytes = 0;
    if (!is_type(type, TT_JSON_STRING) || !is_type(shape, TT_JSON_ARRAY) ||
        !is_type(offsets, TT_JSON_ARRAY) || offsets->n != 2 || info->n != 3)
        return tt_fail(TT_ERR_ARG,
                       "tensor \"%s\": must have dtype, shape and "
                       "two data_offsets, nothing else",
                       name);
    tensor->name = tt_arena_strdup(arena, name);
    tensor->dtype = tt_arena_strdup(arena, type->text);
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

static tt_status read_notes(const tt_json_value *metadata, tt_arena *arena,
                            tt_safetensors_table *table)
{
    const int64_t n = metadata->n;
    if (metadata->type != TT_JSON_OBJECT)
        return tt_fail(TT_ERR_ARG, "__metadata__ must map text to text");
    table->notes = tt_arena_alloc(arena, n * (int64_t)sizeof(*table->notes));
    if (table->notes == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *v = metadata->first; v != NULL; v = v->next) {
        if (v->type != TT_JSON_STRING)
            return tt_fail(TT_ERR_ARG, "__metadata__ \"%s\" must be text",
                           v->key);
        tt_safetensors_note *note = &table->notes[table->n_notes++];
        note->key = tt_arena_strdup(arena, v->key);
        note->value = tt_arena_strdup(arena, v->text);
        if (note->key == NULL || note->value == NULL)
            return TT_ERR_NOMEM;
    }
    return TT_OK;
}

// An upper bound on the memory of the table.
static int64_t table_bytes(const tt_json_value *root)
{
    enum { EACH = sizeof(tt_safetensor) + 80, NUMBER = 8 }; // 80: rounding up
    int64_t bytes = 0;
    for (const tt_json_value *v = root->first; v != NULL; v = v->next) {
        bytes += EACH + v->key_n;
        for (const tt_json_value *i = v->first; i != NULL; i = i->next)
            bytes += i->type == TT_JSON_ARRAY ? i->n * NUMBER
                                              : EACH + i->key_n + i->n;
    }
    return bytes;
}

static tt_status read_table(const tt_json_value *root, tt_arena *arena,
                            tt_safetensors_table *table)
{
    const int64_t n = root->n;
    table->v = tt_arena_alloc(arena, n * (int64_t)sizeof(*table->v));
    if (table->v == NULL)
        return TT_ERR_NOMEM;
    for (const tt_json_value *v = root->first; v != NULL; v = v->next) {
        if ((int64_t)strlen(v->key) != v->key_n)
            return tt_fail(TT_ERR_ARG, "a name holds a zero byte");
        if (strcmp(v->key, "__metadata__") == 0)
            TT_TRY(read_notes(v, arena, table));
        else
            TT_TRY(read_tensor(v, arena, &table->v[table->n++]));
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

// Each tensor must begin where the one before ends, and the last must end the file.
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
    const tt_json_value *root = NULL;
    tt_safetensors_table read = {0};
    tt_arena *tree = tt_arena_create();
    if (tree == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory");
    tt_status status = tt_json_read(json, n, "header", tree, &root);
    if (status == TT_OK && tt_arena_bytes(tree) + table_bytes(root) >
                               n + data_bytes + TT_SAFETENSORS_EXTRA)
        status = tt_fail(TT_ERR_ARG,
                         "the header would need more memory than the "
                         "file's size and %d MiB",
                         TT_SAFETENSORS_EXTRA >> 20);
    if (status == TT_OK)
        status = read_table(root, arena, &read);
    tt_arena_destroy(tree);
    if (status == TT_OK)
        status = check_offsets(&read, data_bytes);
    if (status == TT_OK)
        *table = read;
    return status;
}
