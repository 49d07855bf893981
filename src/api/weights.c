// weights - a model's parameters and buffers as a safetensors file.

#include "api/session.h"
#include "base/alloc.h"
#include "store/safetensors.h"

#include <string.h>

// Names of the element types that weights can have in a file.
static const struct {
    const char *name;
    tt_dtype dtype;
} in_file[] = {
    {"F64", TT_F64}, {"F32", TT_F32}, {"BF16", TT_BF16}, {"F16", TT_F16},
    {"I64", TT_I64}, {"I32", TT_I32}, {"U8", TT_U8},
};

enum { N_IN_FILE = sizeof(in_file) / sizeof(in_file[0]), MAX_NAMED = 3 };

static const char *file_dtype(tutti_dtype dtype)
{
    for (int i = 0; i < N_IN_FILE; i++)
        if (in_file[i].dtype == (tt_dtype)dtype)
            return in_file[i].name;
    return "";
}

static bool own_dtype(const char *name, tt_dtype *dtype_out)
{
    for (int i = 0; i < N_IN_FILE; i++)
        if (strcmp(in_file[i].name, name) == 0) {
            *dtype_out = in_file[i].dtype;
            return true;
        }
    return false;
}

static bool is_saved(const tt__api_tensor *tensor)
{
    return tensor->info.role == TUTTI_PARAMETER ||
           tensor->info.role == TUTTI_BUFFER;
}

static int64_t bytes_of(const tt__api_tensor *tensor)
{
    return tensor->info.type.count * tutti_dtype_bytes(tensor->info.type.dtype);
}

// ---- saving --------------------------------------------------------------

// Reads every tensor into one block and describes it.
static tt_status collect(tutti_session *session, char *block,
                         tt_safetensor *list, int64_t *n_out)
{
    int64_t n = 0;
    for (int64_t i = 0; i < session->n_tensors; i++) {
        const tt__api_tensor *tensor = &session->tensor[i];
        if (!is_saved(tensor))
            continue;
        TT_TRY(tt__api_read(session, tensor, block));
        list[n++] =
            (tt_safetensor){.name = tensor->info.name,
                            .dtype = file_dtype(tensor->info.type.dtype),
                            .ndim = tensor->info.type.ndim,
                            .shape = tensor->info.type.dim,
                            .data = block};
        block += (bytes_of(tensor) + 15) / 16 * 16;
    }
    *n_out = n;
    return TT_OK;
}

static tt_status save(tutti_session *session, const char *path)
{
    static const tt_safetensors_note note = {"format", "pt"};
    int64_t n = 0, bytes = 16;
    TT_TRY(tt__api_need_build(session));
    for (int64_t i = 0; i < session->n_tensors; i++)
        if (is_saved(&session->tensor[i]))
            bytes += (bytes_of(&session->tensor[i]) + 15) / 16 * 16;
    char *block = tt_alloc_aligned(bytes, 64);
    tt_safetensor *list =
        tt_alloc((session->n_tensors + 1) * (int64_t)sizeof *list);
    tt_status status = TT_OK;
    if (block == NULL || list == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to save %s", path);
    if (status == TT_OK)
        status = collect(session, block, list, &n);
    if (status == TT_OK)
        status = tt_safetensors_write(path, list, n, &note, 1);
    tt_free(list);
    tt_free_aligned(block);
    return status;
}

tutti_status tutti_save(tutti_session *session, const char *path)
{
    return tt__api_result(save(session, path));
}

// ---- loading -------------------------------------------------------------

// "a, b, c and 4 more"
static void add_name(tt_str *list, int64_t n, const char *name)
{
    if (n < MAX_NAMED)
        tt_str_addf(list, "%s%s", n == 0 ? "" : ", ", name);
}

static void add_rest(tt_str *list, int64_t n)
{
    if (n > MAX_NAMED)
        tt_str_addf(list, " and %lld more", (long long)(n - MAX_NAMED));
}

static tt_status check_names(const tutti_session *session,
                             const tt_safetensors *file, const char *path)
{
    tt_str missing = {0}, extra = {0};
    int64_t n_missing = 0, n_extra = 0;
    for (int64_t i = 0; i < session->n_tensors; i++)
        if (is_saved(&session->tensor[i]) &&
            tt_safetensors_find(file, session->tensor[i].info.name) == NULL)
            add_name(&missing, n_missing++, session->tensor[i].info.name);
    for (int64_t i = 0; i < tt_safetensors_count(file); i++) {
        const char *name = tt_safetensors_at(file, i)->name;
        bool is_known = false;
        for (int64_t k = 0; k < session->n_tensors && !is_known; k++)
            is_known = is_saved(&session->tensor[k]) &&
                       strcmp(session->tensor[k].info.name, name) == 0;
        if (!is_known)
            add_name(&extra, n_extra++, name);
    }
    add_rest(&missing, n_missing);
    add_rest(&extra, n_extra);
    tt_status status = TT_OK;
    if (n_missing > 0 || n_extra > 0)
        status = tt_fail(
            TT_ERR_ARG, "%s does not fit %s: %s%s%s%s%s", path,
            session->job->options.model, n_missing > 0 ? "it lacks " : "",
            tt_str_text(&missing), n_missing > 0 && n_extra > 0 ? "; " : "",
            n_extra > 0 ? "the model has no " : "", tt_str_text(&extra));
    tt_str_fini(&missing);
    tt_str_fini(&extra);
    return status;
}

static tt_status check_form(const tt__api_tensor *tensor,
                            const tt_safetensor *from, const char *path)
{
    const tutti_type *type = &tensor->info.type;
    tt_dtype dtype;
    bool is_same = from->ndim == type->ndim;
    for (int d = 0; is_same && d < type->ndim; d++)
        is_same = from->shape[d] == type->dim[d];
    if (!is_same)
        return tt_fail(TT_ERR_ARG, "%s: %s has another shape than [%s]", path,
                       from->name, type->shape);
    if (!own_dtype(from->dtype, &dtype) ||
        tt_dtype_is_float(dtype) != tt_dtype_is_float((tt_dtype)type->dtype))
        return tt_fail(TT_ERR_ARG,
                       "%s: %s has type %s, which does not become "
                       "%s",
                       path, from->name, from->dtype, file_dtype(type->dtype));
    return TT_OK;
}

static tt_status check_file(const tutti_session *session,
                            const tt_safetensors *file, const char *path)
{
    TT_TRY(check_names(session, file, path));
    for (int64_t i = 0; i < session->n_tensors; i++) {
        const tt__api_tensor *tensor = &session->tensor[i];
        if (is_saved(tensor))
            TT_TRY(check_form(
                tensor, tt_safetensors_find(file, tensor->info.name), path));
    }
    return TT_OK;
}

// Through a buffer: data in files of others may not be aligned.
static tt_status load_one(tutti_session *session, const tt__api_tensor *tensor,
                          const tt_safetensor *from, char *raw, char *data)
{
    const tutti_type *type = &tensor->info.type;
    tt_dtype dtype = TT_F32;
    (void)own_dtype(from->dtype, &dtype);
    memcpy(raw, from->data, (size_t)(type->count * tt_dtype_bytes(dtype)));
    if (dtype == (tt_dtype)type->dtype)
        return tt__api_write(session, tensor, raw);
    for (int64_t i = 0; i < type->count; i++)
        tt_dtype_store((tt_dtype)type->dtype, data, i,
                       tt_dtype_load(dtype, raw, i));
    return tt__api_write(session, tensor, data);
}

static tt_status load_all(tutti_session *session, const tt_safetensors *file)
{
    int64_t largest = 0;
    for (int64_t i = 0; i < session->n_tensors; i++)
        if (session->tensor[i].info.type.count > largest)
            largest = session->tensor[i].info.type.count;
    char *raw = tt_alloc_aligned(8 * largest, 64);
    char *data = tt_alloc_aligned(8 * largest, 64);
    tt_status status = TT_OK;
    if (raw == NULL || data == NULL)
        status = tt_fail(TT_ERR_NOMEM, "no memory to load weights");
    for (int64_t i = 0; i < session->n_tensors && status == TT_OK; i++) {
        const tt__api_tensor *tensor = &session->tensor[i];
        if (is_saved(tensor))
            status = load_one(session, tensor,
                              tt_safetensors_find(file, tensor->info.name), raw,
                              data);
    }
    tt_free_aligned(raw);
    tt_free_aligned(data);
    return status;
}

tutti_status tutti_load(tutti_session *session, const char *path)
{
    tt_safetensors *file = NULL;
    tt_status status = tt__api_need_build(session);
    if (status == TT_OK)
        status = tt_safetensors_open(path, &file);
    if (status == TT_OK)
        status = check_file(session, file, path);
    if (status == TT_OK)
        status = load_all(session, file);
    tt_safetensors_close(file);
    return tt__api_result(status);
}
