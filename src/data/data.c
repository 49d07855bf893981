// data - reads data.* and opens the splits.
//
// "data.path" is common to all sources, "data.noise" belongs to one. So the table of
// options is put together for the source that was named: common ones, those of images,
// the source's own. Their structs lie in one block of memory, one after another, and
// offsets are moved accordingly, so that one table reads them all and "did you mean"
// knows all names.

#include "data/data.h"

#include "base/alloc.h"

#include <stddef.h>
#include <string.h>

const tt_opt tt_data_option_table[] = {
    {"path", "", "file, folder, or pattern of files", TT_OPT_STR,
     offsetof(tt_data_options, path)},
    {"val", "", "validation data of its own, like data.path", TT_OPT_STR,
     offsetof(tt_data_options, val)},
    {"holdout", "0.1", "else this part of the end is for validation",
     TT_OPT_F64, offsetof(tt_data_options, holdout), NULL, 0, 0.999},
    {"tokenizer", "", "of text: bytes, chars, or a file or folder", TT_OPT_STR,
     offsetof(tt_data_options, tokenizer)},
    {"shuffle", "true", "a new order of the samples in every epoch",
     TT_OPT_BOOL, offsetof(tt_data_options, shuffle)},
    {"workers", "1", "threads that read and assemble batches", TT_OPT_I64,
     offsetof(tt_data_options, workers), NULL, 1, 256},
    {"ahead", "4", "micro-batches that are ready ahead of time", TT_OPT_I64,
     offsetof(tt_data_options, ahead), NULL, 1, 1024},
    {0},
};

// Where the parts of the block begin.
typedef struct layout {
    int64_t transform, params, bytes;
} layout;

static int64_t align(int64_t bytes)
{
    return (bytes + 15) / 16 * 16;
}

static layout layout_of(const tt_source_def *def)
{
    layout at = {.transform = align(sizeof(tt_data_options))};
    at.params = at.transform + align(sizeof(tt_transform));
    at.bytes = at.params + align(def->params_bytes) + 1;
    return at;
}

static tt_status make_table(const tt_source_def *def, tt_arena *arena,
                            const tt_opt **table_out)
{
    const layout at = layout_of(def);
    const tt_opt_part part[] = {
        {tt_data_option_table, 0},
        {tt_transform_options, (size_t)at.transform},
        {def->options, (size_t)at.params},
    };
    tt_opt *table = NULL;
    TT_TRY(tt_opt_join(part, 3, arena, &table));
    *table_out = table;
    return TT_OK;
}

tt_status tt_data_known(const char *source, tt_arena *arena,
                        const tt_opt **table_out)
{
    const tt_source_def *def = NULL;
    TT_TRY(tt_source_find(source, &def));
    return make_table(def, arena, table_out);
}

// The setting "data", and which source that is.
static tt_status find_source(tt_settings *settings, tt_data *data)
{
    const tt_setting *setting = tt_settings_find(settings, "data");
    const char *name = tt_settings_get(settings, "data");
    if (name == NULL)
        return tt_fail(TT_ERR_ARG,
                       "data is not set: where samples come from, as "
                       "data=text data.path=FILE; `tutti list sources` names "
                       "the kinds");
    const tt_status status = tt_source_find(name, &data->def);
    return status == TT_OK ? status
                           : tt_fail_context(status, "%s", setting->origin);
}

static tt_status read_options(tt_settings *settings, tt_data *data,
                              const void **params_out)
{
    const layout at = layout_of(data->def);
    const tt_opt *table = NULL;
    TT_TRY(make_table(data->def, data->arena, &table));
    char *block = tt_arena_alloc(data->arena, at.bytes);
    if (block == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_defaults(table, block, data->arena));
    TT_TRY(tt_settings_apply(settings, "data", table, block, data->arena));
    memcpy(&data->options, block, sizeof data->options);
    memcpy(&data->transform, block + at.transform, sizeof data->transform);
    data->options.source = data->def->name;
    *params_out = block + at.params;
    return TT_OK;
}

// A split that is too short for one window is better named here, where it is known
// which one that is.
static tt_status check_split(const tt_source *source,
                             const tt_source_request *request)
{
    if (source == NULL || source->kind != TT_DATA_TOKENS || request->seq < 1 ||
        source->n > request->seq)
        return TT_OK;
    const bool is_train = request->split == TT_SPLIT_TRAIN;
    return tt_fail(TT_ERR_ARG,
                   "the %s data have %lld tokens and seq=%lld needs %lld; set "
                   "seq to at most %lld%s",
                   is_train ? "training" : "validation", (long long)source->n,
                   (long long)request->seq, (long long)request->seq + 1,
                   (long long)(source->n > 1 ? source->n - 1 : 1),
                   is_train ? ", or use more data"
                            : ", or change data.holdout (0: no validation)");
}

static tt_status open_split(const tt_data *data, tt_data_split split,
                            const tt_source_request *like, const void *params,
                            tt_source **source_out)
{
    tt_source_request request = *like;
    request.split = split;
    request.path = data->options.path;
    request.val = data->options.val;
    request.holdout = data->options.holdout;
    request.tokenizer = data->options.tokenizer;
    tt_status status = tt_source_open(data->def, &request, params, source_out);
    if (status == TT_OK)
        status = check_split(*source_out, &request);
    return status == TT_OK
               ? status
               : tt_fail_context(status, "data=%s", data->def->name);
}

static void fill_transform(tt_data *data, const tt_source_request *request)
{
    const tt_source *s = data->train != NULL ? data->train : data->val;
    tt_transform *t = &data->transform;
    t->channels = request->channels > 0 ? request->channels : s->channels;
    t->image = request->image > 0      ? request->image
               : s->height == s->width ? s->height
                                       : 0;
    t->is_train = data->train != NULL;
}

static tt_status open_all(tt_settings *settings,
                          const tt_source_request *request, bool wants_train,
                          tt_data *data)
{
    const void *params = NULL;
    TT_TRY(find_source(settings, data));
    TT_TRY(read_options(settings, data, &params));
    if (wants_train)
        TT_TRY(open_split(data, TT_SPLIT_TRAIN, request, params, &data->train));
    TT_TRY(open_split(data, TT_SPLIT_VAL, request, params, &data->val));
    if (!wants_train && data->val == NULL)
        return tt_fail(TT_ERR_ARG,
                       "data=%s: there is no validation data; set data.val or "
                       "data.holdout",
                       data->def->name);
    fill_transform(data, request);
    return TT_OK;
}

tt_status tt_data_open(tt_settings *settings, const tt_source_request *request,
                       bool wants_train, tt_data **data_out)
{
    tt_data *data = tt_alloc(sizeof *data);
    tt_status status = TT_ERR_NOMEM;
    if (data != NULL)
        data->arena = tt_arena_create();
    if (data == NULL || data->arena == NULL)
        (void)tt_fail(status, "no memory for the data's settings");
    else
        status = open_all(settings, request, wants_train, data);
    if (status != TT_OK) {
        tt_data_close(data);
        return status;
    }
    *data_out = data;
    return TT_OK;
}

void tt_data_close(tt_data *data)
{
    if (data == NULL)
        return;
    tt_source_close(data->val);
    tt_source_close(data->train);
    tt_arena_destroy(data->arena);
    tt_free(data);
}
