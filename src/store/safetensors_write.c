// safetensors_write - the writer.
//
// Tensors are sorted: wide types first, then by name, and the header is padded to 8
// bytes. So every tensor is aligned to its type without gaps, which the format
// forbids. The same tensors always give the same bytes.
//
// Data go to a sink (a file, or a file with hashes), and may be fetched one tensor
// at a time, for models that do not fit into memory.

#include "base/arena.h"
#include "base/file.h"
#include "base/json.h"
#include "base/str.h"
#include "store/safetensors.h"
#include "store/safetensors_header.h"

#include <stdlib.h>
#include <string.h>

int tt_safetensors_order(const void *a, const void *b)
{
    const tt_safetensor *x = a, *y = b;
    const int difference =
        tt_safetensors_rank(x->dtype) - tt_safetensors_rank(y->dtype);
    return difference != 0 ? difference : strcmp(x->name, y->name);
}

// A sorted copy with bytes and offsets filled in.
static tt_status lay_out(const tt_safetensors_content *c, tt_arena *arena,
                         tt_safetensor **sorted_out)
{
    const int64_t n = c->n;
    tt_safetensor *v =
        tt_arena_copy(arena, c->tensors, n * (int64_t)sizeof(*v));
    int64_t offset = 0;
    if (v == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++) {
        TT_TRY(tt_safetensors_size(&v[i], &v[i].bytes));
        if (v[i].data == NULL && v[i].bytes > 0 && c->fetch == NULL)
            return tt_fail(TT_ERR_ARG, "tensor \"%s\": has no data", v[i].name);
    }
    qsort(v, (size_t)n, sizeof(*v), tt_safetensors_order);
    for (int64_t i = 0; i < n; i++) {
        v[i].offset = offset;
        if (__builtin_add_overflow(offset, v[i].bytes, &offset))
            return tt_fail(TT_ERR_ARG, "the tensors are too large together");
    }
    *sorted_out = v;
    return TT_OK;
}

static void print_tensor(tt_json *json, const tt_safetensor *t)
{
    tt_json_open(json, t->name, '{');
    tt_json_str(json, "dtype", t->dtype);
    tt_json_open(json, "shape", '[');
    for (int64_t i = 0; i < t->ndim; i++)
        tt_json_i64(json, NULL, t->shape[i]);
    tt_json_close(json, ']');
    tt_json_open(json, "data_offsets", '[');
    tt_json_i64(json, NULL, t->offset);
    tt_json_i64(json, NULL, t->offset + t->bytes);
    tt_json_close(json, ']');
    tt_json_close(json, '}');
}

static tt_status print_header(const tt_safetensors_content *content,
                              const tt_safetensor *v, tt_str *out)
{
    const int64_t n = content->n, n_notes = content->n_notes;
    const tt_safetensors_note *notes = content->notes;
    tt_json json = {.out = out, .is_compact = true};
    tt_json_open(&json, NULL, '{');
    if (n_notes > 0) {
        tt_json_open(&json, "__metadata__", '{');
        for (int64_t i = 0; i < n_notes; i++)
            tt_json_str(&json, notes[i].key, notes[i].value);
        tt_json_close(&json, '}');
    }
    for (int64_t i = 0; i < n; i++)
        print_tensor(&json, &v[i]);
    tt_json_close(&json, '}');
    while (out->n % 8 != 0 && tt_str_status(out) == TT_OK)
        tt_str_add(out, " ");
    return tt_str_status(out);
}

// Reads the header back as a reader will. Duplicate names, names that are not UTF-8
// and a header that is too long are found here, before anything is written.
static tt_status check_header(const tt_str *header, const tt_safetensor *v,
                              int64_t n, tt_arena *arena)
{
    tt_safetensors_table table = {0};
    const int64_t data_bytes = n > 0 ? v[n - 1].offset + v[n - 1].bytes : 0;
    if (header->n > TT_SAFETENSORS_HEADER_MAX)
        return tt_fail(TT_ERR_ARG, "the header would be longer than %d bytes",
                       TT_SAFETENSORS_HEADER_MAX);
    TT_TRY(tt_safetensors_header_read(header->text, header->n, data_bytes,
                                      arena, &table));
    if (table.n != n)
        return tt_fail(TT_ERR_ARG, "no tensor may be called __metadata__");
    return TT_OK;
}

static tt_status put_all(const tt_str *header, const tt_safetensor *v,
                         const tt_safetensors_content *c,
                         const tt_safetensors_sink *sink)
{
    unsigned char length[TT_SAFETENSORS_PREFIX];
    for (int i = 0; i < TT_SAFETENSORS_PREFIX; i++)
        length[i] = (unsigned char)((uint64_t)header->n >> (8 * i));
    TT_TRY(sink->put(sink->user, length, sizeof(length)));
    TT_TRY(sink->put(sink->user, header->text, header->n));
    for (int64_t i = 0; i < c->n; i++) {
        const void *data = v[i].data;
        if (c->fetch != NULL)
            TT_TRY(c->fetch(c->user, &v[i], &data));
        if (sink->begin != NULL)
            sink->begin(sink->user, &v[i]);
        TT_TRY(sink->put(sink->user, data, v[i].bytes));
    }
    return TT_OK;
}

tt_status tt_safetensors_stream(const char *path,
                                const tt_safetensors_content *content,
                                const tt_safetensors_sink *sink)
{
    tt_status status = TT_OK;
    tt_str header = {0};
    tt_safetensor *sorted = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    status = lay_out(content, arena, &sorted);
    if (status == TT_OK)
        status = print_header(content, sorted, &header);
    if (status == TT_OK)
        status = check_header(&header, sorted, content->n, arena);
    if (status == TT_OK)
        status = put_all(&header, sorted, content, sink);
    else
        (void)tt_fail_context(status, "%s", path);
    tt_str_fini(&header);
    tt_arena_destroy(arena);
    return status;
}

static tt_status put_file(void *user, const void *bytes, int64_t n)
{
    return tt_file_write(user, bytes, n);
}

tt_status tt_safetensors_write(const char *path, const tt_safetensor *tensors,
                               int64_t n, const tt_safetensors_note *notes,
                               int64_t n_notes)
{
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    const tt_safetensors_content content = {
        .tensors = tensors, .n = n, .notes = notes, .n_notes = n_notes};
    const tt_safetensors_sink sink = {.put = put_file, .user = &file};
    TT_TRY(tt_file_begin(&file, path, temporary));
    return tt_file_end(&file, temporary,
                       tt_safetensors_stream(path, &content, &sink));
}
