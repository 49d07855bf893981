// source - the way into every source.

#include "data/source/source.h"

#include <math.h>

tt_status tt_source_open(const tt_source_def *def,
                         const tt_source_request *request, const void *params,
                         tt_source **source_out)
{
    tt_source *source = NULL;
    tt_source_request own = *request;
    own.def = def;
    TT_TRY(def->open(&own, params, &source));
    if (source != NULL && source->n < 1) {
        tt_source_close(source);
        source = NULL;
    }
    if (source == NULL && request->split == TT_SPLIT_TRAIN)
        return tt_fail(TT_ERR_ARG, "%s: there is nothing to train on",
                       request->path);
    *source_out = source;
    return TT_OK;
}

void tt_source_close(tt_source *source)
{
    if (source != NULL)
        source->def->close(source);
}

tt_status tt_source_read_tokens(const tt_source *source, int64_t first,
                                int64_t n, int32_t *out)
{
    if (source->kind != TT_DATA_TOKENS)
        return tt_fail(TT_ERR_STATE, "%s has images, not tokens",
                       source->def->name);
    if (first < 0 || n < 0 || n > source->n || first > source->n - n)
        return tt_fail(TT_ERR_STATE,
                       "%s: tokens %lld to %lld are not among %lld",
                       source->def->name, (long long)first,
                       (long long)(first + n), (long long)source->n);
    return source->def->tokens(source, first, n, out);
}

tt_status tt_source_read_image(const tt_source *source, int64_t index,
                               tt_image *out, int32_t *label_out)
{
    if (source->kind != TT_DATA_IMAGES)
        return tt_fail(TT_ERR_STATE, "%s has tokens, not images",
                       source->def->name);
    if (index < 0 || index >= source->n)
        return tt_fail(TT_ERR_STATE, "%s: image %lld is not among %lld",
                       source->def->name, (long long)index,
                       (long long)source->n);
    return source->def->image(source, index, out, label_out);
}

tt_status tt_source_read_label(const tt_source *source, int64_t index,
                               tt_image *room, int32_t *label_out)
{
    if (source->def->label == NULL || source->kind != TT_DATA_IMAGES ||
        index < 0 || index >= source->n)
        return tt_source_read_image(source, index, room, label_out);
    return source->def->label(source, index, label_out);
}

tt_status tt_source_blame(const tt_source *source, int64_t index,
                          tt_status status)
{
    if (source->def->blame != NULL)
        return source->def->blame(source, index, status);
    return tt_fail_context(status, "%s: image %lld", source->def->name,
                           (long long)index);
}

tt_status tt_source_files(const tt_source *source, tt_file_list *list)
{
    return source == NULL || source->def->files == NULL
               ? TT_OK
               : source->def->files(source, list);
}

void tt_source_part(const tt_source_request *request, int64_t n,
                    int64_t *first_out, int64_t *n_out)
{
    int64_t n_train = (int64_t)floor((1 - request->holdout) * (double)n);
    if (n_train == 0 && n > 0)
        n_train = 1; // of one sample nothing is left to hold out
    const bool is_train = request->split == TT_SPLIT_TRAIN;
    *first_out = is_train ? 0 : n_train;
    *n_out = is_train ? n_train : n - n_train;
}
