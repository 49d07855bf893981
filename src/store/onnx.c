// onnx - writes the fields of an ONNX ModelProto that a network needs.
//
// A protobuf message has its length before its content, and messages are nested:
// model, graph, tensor. Building the file in memory would copy all weights twice.
// So the lengths are computed first, from the sizes of the parts, and then
// everything is written in order; weights go to the file from where they are.

#include "store/onnx.h"

#include "base/file.h"

#include <string.h>

enum { VARINT = 0, BYTES = 2, FIXED32 = 5 };
enum { IR_VERSION = 8, OPSET = 17 };
enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_INTS = 7 };
static const int64_t most_bytes = INT32_MAX;

// ---- fields --------------------------------------------------------------

static void put_varint(tt_str *out, uint64_t value)
{
    do {
        const char byte = (char)((value & 127) | (value > 127 ? 128 : 0));
        tt_str_add_bytes(out, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void put_tag(tt_str *out, int field, int wire)
{
    put_varint(out, (uint64_t)(field << 3 | wire));
}

static void put_int(tt_str *out, int field, int64_t value)
{
    put_tag(out, field, VARINT);
    put_varint(out, (uint64_t)value);
}

static void put_bytes(tt_str *out, int field, const char *bytes, int64_t n)
{
    put_tag(out, field, BYTES);
    put_varint(out, (uint64_t)n);
    if (n > 0)
        tt_str_add_bytes(out, bytes, n);
}

static void put_text(tt_str *out, int field, const char *text)
{
    put_bytes(out, field, text, (int64_t)strlen(text));
}

// Appends the inner message as a field, and empties it.
static void put_message(tt_str *out, int field, tt_str *inner)
{
    put_bytes(out, field, tt_str_text(inner), inner->n);
    if (tt_str_status(inner) != TT_OK)
        out->status = tt_str_status(inner);
    tt_str_fini(inner);
}

// ---- attributes and nodes ------------------------------------------------

static void begin_attribute(tt_str *a, const char *name)
{
    put_text(a, 1, name);
}

static void end_attribute(tt_str *attributes, tt_str *a, int type)
{
    put_int(a, 20, type);
    put_message(attributes, 5, a);
}

void tt_onnx_int(tt_str *attributes, const char *name, int64_t value)
{
    tt_str a = {0};
    begin_attribute(&a, name);
    put_int(&a, 3, value);
    end_attribute(attributes, &a, ATTRIBUTE_INT);
}

void tt_onnx_float(tt_str *attributes, const char *name, double value)
{
    tt_str a = {0};
    const float single = (float)value;
    begin_attribute(&a, name);
    put_tag(&a, 2, FIXED32);
    tt_str_add_bytes(&a, (const char *)&single, sizeof single);
    end_attribute(attributes, &a, ATTRIBUTE_FLOAT);
}

void tt_onnx_ints(tt_str *attributes, const char *name, const int64_t *v,
                  int64_t n)
{
    tt_str a = {0};
    begin_attribute(&a, name);
    for (int64_t i = 0; i < n; i++)
        put_int(&a, 8, v[i]);
    end_attribute(attributes, &a, ATTRIBUTE_INTS);
}

void tt_onnx_node(tt_onnx *o, const char *type, const char *const *in,
                  const char *const *out, int n_out, tt_str *attributes)
{
    tt_str node = {0};
    for (; *in != NULL; in++)
        put_text(&node, 1, *in);
    for (int i = 0; i < n_out; i++)
        put_text(&node, 2, out[i]);
    put_text(&node, 3, out[0]);
    put_text(&node, 4, type);
    if (attributes != NULL)
        tt_str_inherit(&node,
                       attributes); // its failure, which clearing would forget
    if (attributes != NULL && attributes->n > 0) {
        tt_str_add_bytes(&node, tt_str_text(attributes), attributes->n);
        tt_str_clear(attributes);
    }
    put_message(&o->nodes, 1, &node);
}

// ---- tensors -------------------------------------------------------------

static void put_dims(tt_str *type, const tt_onnx_tensor *t)
{
    tt_str shape = {0}, tensor = {0};
    for (int64_t d = 0; d < t->ndim; d++) {
        tt_str dim = {0};
        if (t->dims[d] < 0)
            put_text(&dim, 2, "batch");
        else
            put_int(&dim, 1, t->dims[d]);
        put_message(&shape, 1, &dim);
    }
    put_int(&tensor, 1, t->type);
    put_message(&tensor, 2, &shape);
    put_message(type, 1, &tensor);
}

static void put_end(tt_onnx *o, int field, const tt_onnx_tensor *t)
{
    tt_str info = {0}, type = {0};
    put_text(&info, 1, t->name);
    put_dims(&type, t);
    put_message(&info, 2, &type);
    put_message(&o->ends, field, &info);
}

void tt_onnx_input(tt_onnx *o, const tt_onnx_tensor *tensor)
{
    put_end(o, 11, tensor);
}

void tt_onnx_output(tt_onnx *o, const tt_onnx_tensor *tensor)
{
    put_end(o, 12, tensor);
}

tt_status tt_onnx_add(tt_onnx *o, const tt_onnx_tensor *tensor)
{
    if (o->n == o->capacity) {
        const int64_t capacity = 2 * o->capacity + 64;
        tt_onnx_tensor *grown =
            tt_arena_alloc(o->arena, capacity * (int64_t)sizeof *grown);
        if (grown == NULL)
            return TT_ERR_NOMEM;
        if (o->n > 0)
            memcpy(grown, o->tensor, (size_t)o->n * sizeof *grown);
        o->tensor = grown;
        o->capacity = capacity;
    }
    o->tensor[o->n++] = *tensor;
    return TT_OK;
}

const char *tt_onnx_ints_tensor(tt_onnx *o, const char *name, const int64_t *v,
                                int64_t n)
{
    const int64_t bytes = n * (int64_t)sizeof *v;
    int64_t *dims = tt_arena_alloc(o->arena, sizeof *dims);
    const char *copy = tt_arena_strdup(o->arena, name);
    const void *data = tt_arena_copy(o->arena, v, bytes);
    if (dims == NULL || copy == NULL || data == NULL)
        return NULL;
    *dims = n;
    const tt_onnx_tensor t = {copy, TT_ONNX_I64, 1, dims, data, bytes};
    return tt_onnx_add(o, &t) == TT_OK ? copy : NULL;
}

// ---- the file ------------------------------------------------------------

static int64_t varint_bytes(int64_t value)
{
    int64_t n = 1;
    for (; value > 127; value >>= 7)
        n++;
    return n;
}

// A TensorProto without its raw data: dims, type, name, and the tag and length of
// the data that follow.
static void put_tensor_head(const tt_onnx_tensor *t, tt_str *out)
{
    for (int64_t d = 0; d < t->ndim; d++)
        put_int(out, 1, t->dims[d]);
    put_int(out, 2, t->type);
    put_text(out, 8, t->name);
    put_tag(out, 9, BYTES);
    put_varint(out, (uint64_t)t->bytes);
}

static int64_t field_bytes(int64_t inner)
{
    return 1 + varint_bytes(inner) + inner; // tags up to 15 are one byte
}

// The length of the graph message, which must be written before its content.
static tt_status graph_bytes(const tt_onnx *o, const char *name,
                             int64_t *bytes_out)
{
    int64_t bytes = o->nodes.n + o->ends.n + field_bytes((int64_t)strlen(name));
    for (int64_t i = 0; i < o->n; i++) {
        tt_str head = {0};
        put_tensor_head(&o->tensor[i], &head);
        bytes += field_bytes(head.n + o->tensor[i].bytes);
        const tt_status status = tt_str_status(&head);
        tt_str_fini(&head);
        TT_TRY(status);
    }
    *bytes_out = bytes;
    return TT_OK;
}

static void put_model_head(int64_t graph, tt_str *out)
{
    tt_str opset = {0};
    put_int(out, 1, IR_VERSION);
    put_text(out, 2, "tutti");
    put_text(&opset, 1, "");
    put_int(&opset, 2, OPSET);
    put_message(out, 8, &opset);
    put_tag(out, 7, BYTES);
    put_varint(out, (uint64_t)graph);
}

static tt_status write_text(tt_file *file, tt_str *text)
{
    tt_status status = tt_str_status(text);
    if (status == TT_OK)
        status = tt_file_write(file, tt_str_text(text), text->n);
    tt_str_fini(text);
    return status;
}

static tt_status write_tensor(tt_file *file, const tt_onnx_tensor *t)
{
    tt_str head = {0}, whole = {0};
    put_tensor_head(t, &head);
    put_tag(&whole, 5, BYTES);
    put_varint(&whole, (uint64_t)(head.n + t->bytes));
    tt_status status = write_text(file, &whole);
    if (status == TT_OK)
        status = write_text(file, &head);
    tt_str_fini(&head);
    return status == TT_OK ? tt_file_write(file, t->data, t->bytes) : status;
}

static tt_status write_model(const tt_onnx *o, const char *name, tt_file *file)
{
    int64_t graph = 0;
    tt_str head = {0}, label = {0};
    TT_TRY(tt_str_status(&o->nodes));
    TT_TRY(tt_str_status(&o->ends));
    TT_TRY(graph_bytes(o, name, &graph));
    if (graph > most_bytes)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: the model has %lld bytes, and files of this kind "
                       "end at 2 GiB",
                       file->path, (long long)graph);
    put_model_head(graph, &head);
    TT_TRY(write_text(file, &head));
    TT_TRY(tt_file_write(file, tt_str_text(&o->nodes), o->nodes.n));
    put_text(&label, 2, name);
    TT_TRY(write_text(file, &label));
    for (int64_t i = 0; i < o->n; i++)
        TT_TRY(write_tensor(file, &o->tensor[i]));
    return tt_file_write(file, tt_str_text(&o->ends), o->ends.n);
}

tt_status tt_onnx_write(const tt_onnx *o, const char *name, const char *path)
{
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    TT_TRY(tt_file_begin(&file, path, temporary));
    return tt_file_end(&file, temporary, write_model(o, name, &file));
}

void tt_onnx_fini(tt_onnx *o)
{
    tt_str_fini(&o->nodes);
    tt_str_fini(&o->ends);
}
