// torch_file - see the header.
//
// A file of torch.save is a zip archive without compression. data.pkl is a pickle,
// a program for a stack machine, which builds the dictionary of tensors; the
// numbers are in data/0, data/1, ... (storages). A tensor is a view of a storage:
// offset, sizes and strides.
//
//   archive/data.pkl    {"fc.weight": tensor(storage 0, offset 0, (4, 3), (3, 1))}
//   archive/data/0      48 bytes
//
// Python's unpickler calls any function that the file names, so opening a file of a
// stranger can run code. torch_pickle.c calls nothing: it knows a few names and
// gives an empty value for all others. Tensors that lie in order are used in the
// map; others are copied into order, and the copies together may not be larger than
// the file.

#include "store/torch_file.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "store/torch_parts.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DIMS = 16, MAX_NAMED = 4 };

typedef struct reading {
    const char *name; // of the file
    tt_torch_file *file;
    tt__torch_zip zip;
    const char *prefix; // that all names in the archive begin with
    int64_t room;       // bytes that copies may take: no more than the file has
} reading;

// ---- what the archive has ------------------------------------------------

bool tt_torch_file_is(const char *path)
{
    static const unsigned char zip[] = {'P', 'K', 3, 4};
    static const unsigned char old[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc};
    unsigned char first[6] = {0};
    const int fd = tt_file_open_read(path); // a pipe is not waited for
    if (fd < 0)
        return false;
    const int64_t n = tt_file_read_some(fd, first, sizeof first, -1);
    (void)close(fd);
    return n == (int64_t)sizeof first && (memcmp(first, zip, sizeof zip) == 0 ||
                                          memcmp(first, old, sizeof old) == 0);
}

static tt_status find_pickle(reading *r, const tt__zip_entry **out)
{
    static const char end[] = "/data.pkl";
    for (int64_t i = 0; i < r->zip.n; i++) {
        const char *name = r->zip.entry[i].name;
        if (!tt_ends_with(name, end))
            continue;
        r->prefix = tt_arena_printf(r->file->arena, "%.*s",
                                    (int)(strlen(name) - strlen(end)), name);
        *out = &r->zip.entry[i];
        return r->prefix != NULL ? TT_OK : TT_ERR_NOMEM;
    }
    return tt_fail(TT_ERR_ARG,
                   "%s: a zip archive without data.pkl, so not one of "
                   "torch.save; unpack it and give the model that is in it",
                   r->name);
}

static const tt__zip_entry *find(const reading *r, const char *name)
{
    const char *whole =
        tt_arena_printf(r->file->arena, "%s/%s", r->prefix, name);
    return whole != NULL ? tt__torch_zip_find(&r->zip, whole) : NULL;
}

static tt_status check_order(const reading *r)
{
    const tt__zip_entry *order = find(r, "byteorder");
    if (order == NULL || order->bytes < 3 || memcmp(order->data, "big", 3) != 0)
        return TT_OK;
    return tt_fail(TT_ERR_UNSUPPORTED,
                   "%s: its numbers are big-endian, which is not supported",
                   r->name);
}

// ---- tensors -------------------------------------------------------------

typedef struct storage_type {
    const char *global, *dtype;
} storage_type;

static const char *dtype_of(const tt__pickle *storage)
{
    static const storage_type types[] = {
        {"torch FloatStorage", "F32"}, {"torch DoubleStorage", "F64"},
        {"torch HalfStorage", "F16"},  {"torch BFloat16Storage", "BF16"},
        {"torch LongStorage", "I64"},  {"torch IntStorage", "I32"},
        {"torch ShortStorage", "I16"}, {"torch CharStorage", "I8"},
        {"torch ByteStorage", "U8"},   {"torch BoolStorage", "BOOL"},
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(storage->item[0]->text, types[i].global) == 0)
            return types[i].dtype;
    return NULL;
}

typedef struct view { // of a storage
    int ndim;
    int64_t offset, count, span; // span: elements from the first to the last
    int64_t *size;               // in the arena
    int64_t stride[MAX_DIMS];
    bool is_dense;
} view;

static bool read_int(const tt__pickle *v, int64_t *out)
{
    *out = v->number;
    return v->type == TT__PICKLE_INT && v->number >= 0;
}

// Computes the number of elements, the span from the first to the last, and whether
// the elements lie in order. False: a number overflows.
static bool measure(view *v)
{
    int64_t expected = 1;
    v->count = v->span = 1;
    v->is_dense = true;
    for (int d = v->ndim; d-- > 0;) {
        int64_t reach = 0;
        if (__builtin_mul_overflow(v->count, v->size[d], &v->count) ||
            (v->size[d] > 0 &&
             (__builtin_mul_overflow(v->size[d] - 1, v->stride[d], &reach) ||
              __builtin_add_overflow(v->span, reach, &v->span))))
            return false;
        v->is_dense &= v->size[d] <= 1 || v->stride[d] == expected;
        if (__builtin_mul_overflow(expected, v->size[d], &expected))
            return false;
    }
    if (v->count == 0)
        v->span = 0;
    return true;
}

static tt_status read_view(const reading *r, const tt__pickle *t, view *v)
{
    const tt__pickle *size = t->item[2], *stride = t->item[3];
    bool is_good = read_int(t->item[1], &v->offset) &&
                   size->type == TT__PICKLE_TUPLE &&
                   stride->type == TT__PICKLE_TUPLE && size->n == stride->n &&
                   size->n <= MAX_DIMS;
    v->ndim = is_good ? (int)size->n : 0;
    v->size = tt_arena_alloc(r->file->arena,
                             (v->ndim + 1) * (int64_t)sizeof *v->size);
    if (v->size == NULL)
        return TT_ERR_NOMEM;
    for (int d = 0; d < v->ndim && is_good; d++)
        is_good = read_int(size->item[d], &v->size[d]) &&
                  read_int(stride->item[d], &v->stride[d]);
    return is_good && measure(v)
               ? TT_OK
               : tt_fail(TT_ERR_ARG, "%s: damaged: a tensor has no shape",
                         r->name);
}

// Copies the elements into order. There are at most as many as the storage has.
static tt_status copy_dense(reading *r, const view *v, const char *from,
                            int64_t size, const void **out)
{
    r->room -= v->count * size;
    if (r->room < 0)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: its tensors are parts of each other; save "
                       "tensor.contiguous()",
                       r->name);
    char *data = tt_alloc_aligned(v->count * size + 1, 64);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for a tensor", r->name);
    r->file->copy[r->file->n_copies++] = data;
    int64_t index[MAX_DIMS] = {0};
    for (int64_t i = 0; i < v->count; i++) {
        int64_t at = 0;
        for (int d = 0; d < v->ndim; d++)
            at += index[d] * v->stride[d];
        memcpy(data + i * size, from + at * size, (size_t)size);
        for (int d = v->ndim; d-- > 0;) {
            if (++index[d] < v->size[d])
                break;
            index[d] = 0;
        }
    }
    *out = data;
    return TT_OK;
}

static tt_status add_tensor(reading *r, const char *key, const tt__pickle *t)
{
    const tt__pickle *storage = t->item[0];
    view v = {0};
    char name[160];
    if (storage->type != TT__PICKLE_STORAGE || dtype_of(storage) == NULL)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: %s has numbers of a type that is not supported",
                       r->name, key);
    const char *dtype = dtype_of(storage);
    const int64_t size = tt_safetensors_bits(dtype) / 8;
    TT_TRY(read_view(r, t, &v));
    snprintf(name, sizeof name, "data/%s", storage->text);
    const tt__zip_entry *entry = find(r, name);
    const int64_t have = entry != NULL ? entry->bytes / size : 0;
    if (entry == NULL || v.offset > have || v.span > have - v.offset)
        return tt_fail(TT_ERR_ARG, "%s: damaged: the data of %s are not there",
                       r->name, key);
    if (v.count > have)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: %s is a smaller tensor, repeated; save "
                       "tensor.contiguous()",
                       r->name, key);
    const char *first = entry->data + v.offset * size;
    tt_safetensor *out = &r->file->tensor[r->file->n];
    *out = (tt_safetensor){.name = key,
                           .dtype = dtype,
                           .ndim = v.ndim,
                           .shape = v.size,
                           .bytes = v.count * size,
                           .data = first};
    if (!v.is_dense)
        TT_TRY(copy_dense(r, &v, first, size, &out->data));
    r->file->n++;
    return TT_OK;
}

// ---- the dictionary ------------------------------------------------------

static int64_t count_tensors(const tt__pickle *dict)
{
    int64_t n = 0;
    for (int64_t i = 0; dict->type == TT__PICKLE_DICT && i + 1 < dict->n;
         i += 2)
        n += dict->item[i]->type == TT__PICKLE_TEXT &&
             dict->item[i + 1]->type == TT__PICKLE_TENSOR;
    return n;
}

// Finds the dictionary of tensors: at the top, or under one of the usual names.
static const tt__pickle *find_weights(const tt__pickle *root)
{
    static const char *const usual[] = {"state_dict", "model_state_dict",
                                        "model", "module", "params"};
    if (count_tensors(root) > 0)
        return root;
    for (size_t k = 0; k < sizeof usual / sizeof *usual; k++)
        for (int64_t i = 0; root->type == TT__PICKLE_DICT && i + 1 < root->n;
             i += 2)
            if (root->item[i]->type == TT__PICKLE_TEXT &&
                strcmp(root->item[i]->text, usual[k]) == 0 &&
                count_tensors(root->item[i + 1]) > 0)
                return root->item[i + 1];
    return NULL;
}

static tt_status fail_without(const reading *r, const tt__pickle *root)
{
    tt_str keys = {0};
    int64_t n = 0;
    for (int64_t i = 0; root->type == TT__PICKLE_DICT && i + 1 < root->n;
         i += 2)
        if (root->item[i]->type == TT__PICKLE_TEXT && n < MAX_NAMED)
            tt_str_addf(&keys, "%s%.80s", n++ > 0 ? ", " : "",
                        root->item[i]->text);
    const tt_status status =
        tt_fail(TT_ERR_UNSUPPORTED,
                "%s: there is no dictionary of tensors in it (%s%s); save "
                "model.state_dict(), not the model, or write safetensors",
                r->name, n > 0 ? "at the top: " : "it holds an object",
                tt_str_text(&keys));
    tt_str_fini(&keys);
    return status;
}

static tt_status add_all(reading *r, const tt__pickle *dict)
{
    const int64_t n = count_tensors(dict);
    tt_torch_file *f = r->file;
    f->tensor = tt_arena_alloc(f->arena, (n + 1) * (int64_t)sizeof *f->tensor);
    f->copy = tt_arena_alloc(f->arena, (n + 1) * (int64_t)sizeof *f->copy);
    if (f->tensor == NULL || f->copy == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i + 1 < dict->n; i += 2)
        if (dict->item[i]->type == TT__PICKLE_TEXT &&
            dict->item[i + 1]->type == TT__PICKLE_TENSOR)
            TT_TRY(add_tensor(r, dict->item[i]->text, dict->item[i + 1]));
    return TT_OK;
}

static tt_status read_all(reading *r, const char *bytes, int64_t n)
{
    const tt__zip_entry *pickle = NULL;
    tt__pickle *root = NULL;
    if (n > 0 && (unsigned char)bytes[0] == 0x80)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: this is the format of PyTorch before 1.6; convert "
                       "it: python3 -c 'import torch; torch.save(torch.load("
                       "\"OLD\", weights_only=True), \"NEW\")'",
                       r->name);
    TT_TRY(tt__torch_zip_read(bytes, n, r->name, r->file->arena, &r->zip));
    TT_TRY(find_pickle(r, &pickle));
    TT_TRY(check_order(r));
    TT_TRY(tt__pickle_read(pickle->data, pickle->bytes, r->name, r->file->arena,
                           &root));
    const tt__pickle *dict = find_weights(root);
    return dict != NULL ? add_all(r, dict) : fail_without(r, root);
}

tt_status tt_torch_file_read(const char *bytes, int64_t n, const char *name,
                             tt_torch_file **file_out)
{
    tt_torch_file *file = tt_alloc(sizeof *file);
    tt_status status = TT_ERR_NOMEM;
    if (file != NULL)
        file->arena = tt_arena_create();
    if (file == NULL || file->arena == NULL) {
        (void)tt_fail(status, "%s: no memory to read it", name);
    } else {
        reading r = {.name = name, .file = file, .room = n};
        status = read_all(&r, bytes, n);
    }
    if (status == TT_OK)
        *file_out = file;
    else
        tt_torch_file_close(file);
    return status;
}

tt_status tt_torch_file_open(const char *path, tt_torch_file **file_out)
{
    tt_map map = {0};
    tt_torch_file *file = NULL;
    TT_TRY(tt_map_open(path, &map));
    const tt_status status =
        tt_torch_file_read(map.data, map.bytes, path, &file);
    if (status != TT_OK) {
        tt_map_close(&map);
        return status;
    }
    file->map = map;
    *file_out = file;
    return TT_OK;
}

void tt_torch_file_close(tt_torch_file *file)
{
    if (file == NULL)
        return;
    for (int64_t i = 0; i < file->n_copies; i++)
        tt_free_aligned(file->copy[i]);
    tt_map_close(&file->map);
    if (file->arena != NULL)
        tt_arena_destroy(file->arena);
    tt_free(file);
}
