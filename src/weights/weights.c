// weights - opens files of tensors and finds a model's tensors in them.
//
// The same weight has many names: "transformer.h.0.ln_1.weight" from one program,
// "h.0.ln_1.weight" from another, "_orig_mod.module.h.0..." from a compiled and
// wrapped model. So names are stripped of wrappers and of the base prefix, and
// sorted by what is left. A search finds all tensors with the same plain name and
// prefers the one whose full name is equal.
//
// Files may be single, or shards with an index; safetensors, or a torch.save
// archive; or a checkpoint of a run, in which case averaged weights (EMA) can be
// taken instead.

#include "weights/weights.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/json_read.h"
#include "base/str.h"
#include "store/checkpoint.h"
#include "store/torch_file.h"
#include "weights/model_folder.h"
#include "weights/model_path.h"
#include "weights/weights_stack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX_BYTES = 64 << 20 };

typedef struct entry {
    const char *plain; // the name without wrappers and prefix
    const tt_safetensor *tensor;
} entry;

struct tt_weights {
    tt_arena *arena;
    const char *path, *folder;
    int64_t n_files, n_torch;
    tt_safetensors **file; // what this owns
    tt_torch_file **torch; // likewise
    tt_checkpoint *checkpoint;
    int64_t n;
    const tt_safetensor **tensor; // in the files' order
    entry *by_name;               // sorted by plain name
    const tt_safetensors *ema;    // the file with averages; NULL: not wanted
    bool is_as_is;                // experts stay one by one
    const tt_globs *skip;
    tt__stacks stacks;
};

// ---- names ---------------------------------------------------------------

static const char *without(const char *name, const char *prefix)
{
    const size_t n = strlen(prefix);
    return strncmp(name, prefix, n) == 0 && name[n] != '\0' ? name + n : name;
}

static const char *without_wrapper(const char *name)
{
    return without(without(name, "_orig_mod."), "module.");
}

const char *tt_weights_plain_name(const char *name)
{
    const char *rest = without_wrapper(name);
    for (; rest != name; rest = without_wrapper(name))
        name = rest;
    const char *plain = without(name, "transformer.");
    return plain != name ? plain : without(name, "model.");
}

static int by_plain_name(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    const int order = strcmp(x->plain, y->plain);
    return order != 0 ? order : strcmp(x->tensor->name, y->tensor->name);
}

// The first entry whose plain name is not before `plain`.
static int64_t lower_bound(const tt_weights *w, const char *plain)
{
    int64_t first = 0, last = w->n;
    while (first < last) {
        const int64_t middle = first + (last - first) / 2;
        if (strcmp(w->by_name[middle].plain, plain) < 0)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

const tt_safetensor *tt_weights_find(const tt_weights *weights,
                                     const char *name)
{
    const char *plain = tt_weights_plain_name(name);
    const tt_safetensor *found = NULL;
    for (int64_t i = lower_bound(weights, plain);
         i < weights->n && strcmp(weights->by_name[i].plain, plain) == 0; i++) {
        const tt_safetensor *t = weights->by_name[i].tensor;
        if (found == NULL || strcmp(t->name, name) == 0)
            found = t; // the exact name is preferred
    }
    return found;
}

const tt_safetensor *tt_weights_average(const tt_weights *weights,
                                        const tt_safetensor *tensor)
{
    char name[512];
    if (weights->ema == NULL)
        return tensor;
    snprintf(name, sizeof name, "%s.ema", tensor->name);
    const tt_safetensor *average = tt_safetensors_find(weights->ema, name);
    return average != NULL ? average : tensor;
}

bool tt_weights_skips(const tt_weights *weights, const char *name)
{
    return weights->skip != NULL && tt_globs_find(weights->skip, name) != NULL;
}

int64_t tt_weights_count(const tt_weights *weights)
{
    return weights->n;
}

const tt_safetensor *tt_weights_at(const tt_weights *weights, int64_t i)
{
    return weights->tensor[i];
}

const char *tt_weights_path(const tt_weights *weights)
{
    return weights->path;
}

const char *tt_weights_folder(const tt_weights *weights)
{
    return weights->folder;
}

// ---- opening -------------------------------------------------------------

static tt_status sort_names(tt_weights *w, int64_t n)
{
    if (!w->is_as_is)
        TT_TRY(tt__weights_stack(w->tensor, &n, w->arena, &w->stacks));
    w->n = n;
    for (int64_t i = 0; i < n; i++)
        w->by_name[i] =
            (entry){tt_weights_plain_name(w->tensor[i]->name), w->tensor[i]};
    if (n > 0)
        qsort(w->by_name, (size_t)n, sizeof(*w->by_name), by_plain_name);
    return TT_OK;
}

static tt_status make_index(tt_weights *w, const tt_safetensors *const *file,
                            int64_t n_files)
{
    int64_t n = 0;
    for (int64_t f = 0; f < n_files; f++)
        n += tt_safetensors_count(file[f]);
    for (int64_t f = 0; f < w->n_torch; f++)
        n += w->torch[f]->n;
    w->tensor = tt_arena_alloc(w->arena, (n + 1) * (int64_t)sizeof(*w->tensor));
    w->by_name =
        tt_arena_alloc(w->arena, (n + 1) * (int64_t)sizeof(*w->by_name));
    if (w->tensor == NULL || w->by_name == NULL)
        return TT_ERR_NOMEM;
    n = 0;
    for (int64_t f = 0; f < n_files; f++)
        for (int64_t i = 0; i < tt_safetensors_count(file[f]); i++)
            w->tensor[n++] = tt_safetensors_at(file[f], i);
    for (int64_t f = 0; f < w->n_torch; f++)
        for (int64_t i = 0; i < w->torch[f]->n; i++)
            w->tensor[n++] = &w->torch[f]->tensor[i];
    return sort_names(w, n);
}

static tt_status open_files(tt_weights *w, const char *const *path, int64_t n)
{
    w->file = tt_arena_alloc(w->arena, (n + 1) * (int64_t)sizeof(*w->file));
    w->torch = tt_arena_alloc(w->arena, (n + 1) * (int64_t)sizeof(*w->torch));
    if (w->file == NULL || w->torch == NULL)
        return TT_ERR_NOMEM;
    for (int64_t i = 0; i < n; i++)
        if (tt_torch_file_is(path[i])) {
            TT_TRY(tt_torch_file_open(path[i], &w->torch[w->n_torch]));
            w->n_torch++;
        } else {
            TT_TRY(tt_safetensors_open(path[i], &w->file[w->n_files]));
            w->n_files++;
        }
    return make_index(w, (const tt_safetensors *const *)w->file, w->n_files);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

// The files that the index names, each once, in the order of names. A shard must be
// a file beside the index: a path could lead anywhere.
static tt_status find_shards(tt_weights *w, const char *index,
                             const tt_json_value *map, const char **path,
                             int64_t *n_out)
{
    int64_t n = 0, kept = 0;
    for (const tt_json_value *v = map->first; v != NULL; v = v->next) {
        const char *name = tt_json_text(v, "");
        if (name[0] == '\0' || strchr(name, '/') != NULL)
            return tt_fail(TT_ERR_ARG,
                           "%s: \"%s\" is not the name of a file in "
                           "its folder",
                           index, name);
        path[n++] = name;
    }
    qsort(path, (size_t)n, sizeof *path, by_text);
    for (int64_t i = 0; i < n; i++)
        if (i == 0 || strcmp(path[i], path[i - 1]) != 0)
            path[kept++] = path[i];
    for (int64_t i = 0; i < kept; i++) {
        path[i] = tt_arena_printf(w->arena, "%s/%s", w->folder, path[i]);
        if (path[i] == NULL)
            return TT_ERR_NOMEM;
    }
    *n_out = kept;
    return TT_OK;
}

// Refuses a tensor that is in two shards: which one is loaded would be chance.
static tt_status check_once(const tt_weights *w, const char *index)
{
    for (int64_t i = 1; i < w->n; i++)
        if (strcmp(w->by_name[i - 1].tensor->name,
                   w->by_name[i].tensor->name) == 0)
            return tt_fail(TT_ERR_ARG, "%s: %s is in two shards", index,
                           w->by_name[i].tensor->name);
    return TT_OK;
}

// Whether a tensor of that name exists, alone or as part of a stack of experts.
static bool has_name(const tt_weights *w, const char *name)
{
    const char *stack = tt__stack_name(name, w->arena);
    return tt_weights_find(w, name) != NULL ||
           (stack != NULL && tt_weights_find(w, stack) != NULL);
}

// Opens the shards of an index. Every name in the index must be in a shard, so that
// a missing or truncated shard is found here.
static tt_status open_index(tt_weights *w, const char *index)
{
    tt_str text = {0};
    const tt_json_value *root = NULL;
    tt_status status = tt_file_read(index, MAX_INDEX_BYTES, &text);
    if (status == TT_OK)
        status =
            tt_json_read(tt_str_text(&text), text.n, index, w->arena, &root);
    tt_str_fini(&text);
    TT_TRY(status);
    const tt_json_value *map = tt_json_get(root, "weight_map");
    if (map == NULL || map->type != TT_JSON_OBJECT || map->n == 0)
        return tt_fail(TT_ERR_ARG, "%s has no \"weight_map\"", index);
    const char **path =
        tt_arena_alloc(w->arena, map->n * (int64_t)sizeof *path);
    int64_t n = 0;
    if (path == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(find_shards(w, index, map, path, &n));
    TT_TRY(open_files(w, path, n));
    for (const tt_json_value *v = map->first; v != NULL; v = v->next)
        if (!has_name(w, v->key))
            return tt_fail(TT_ERR_ARG, "%s names %s, which no shard has", index,
                           v->key);
    return check_once(w, index);
}

static tt_status open_checkpoint(tt_weights *w, const char *path,
                                 const tt_weights_options *o, tt_str *notes)
{
    tt_str unused = {0};
    const tt_checkpoint_search search = {.wants_best = o->wants_best,
                                         .limit = INT64_MAX};
    const tt_status status = tt_checkpoint_read(
        path, &search, notes != NULL ? notes : &unused, &w->checkpoint);
    tt_str_fini(&unused);
    TT_TRY(status);
    if (w->checkpoint == NULL)
        return tt_fail(
            TT_ERR_ARG,
            "%s has neither model.safetensors, pytorch_model.bin nor "
            "a checkpoint",
            path);
    w->folder = w->checkpoint->folder;
    w->ema = o->wants_ema ? w->checkpoint->optim : NULL;
    const tt_safetensors *model = w->checkpoint->model;
    return make_index(w, &model, 1);
}

static tt_status open_folder(tt_weights *w, const char *path,
                             const tt_weights_options *o, tt_str *notes)
{
    static const char *const names[] = {
        "model.safetensors", "model.safetensors.index.json",
        "pytorch_model.bin", "pytorch_model.bin.index.json"};
    w->folder = w->path;
    // In the folder of a run the checkpoints count, whatever other files are beside
    // them.
    for (int i = 0; i < 4 && !tt_model_folder_is_run(path); i++) {
        const char *file = tt_arena_printf(w->arena, "%s/%s", path, names[i]);
        if (file == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(file))
            return tt_ends_with(file, ".json") ? open_index(w, file)
                                               : open_files(w, &file, 1);
    }
    return open_checkpoint(w, path, o, notes);
}

static tt_status open_path(tt_weights *w, const char *path,
                           const tt_weights_options *o, tt_str *notes)
{
    const char *slash = strrchr(path, '/');
    w->path = tt_arena_strdup(w->arena, path);
    w->folder =
        slash == NULL
            ? "."
            : tt_arena_printf(w->arena, "%.*s",
                              (int)(slash == path ? 1 : slash - path), path);
    if (w->path == NULL || w->folder == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_model_path_check(path, w->arena));
    if (tt_file_is_folder(path))
        return open_folder(w, path, o, notes);
    return tt_ends_with(path, ".json") ? open_index(w, path)
                                       : open_files(w, &path, 1);
}

tt_status tt_weights_open(const char *path, const tt_weights_options *options,
                          tt_str *notes, tt_weights **weights_out)
{
    tt_weights *w = tt_alloc(sizeof *w);
    tt_arena *arena = tt_arena_create();
    if (w == NULL || arena == NULL) {
        tt_free(w);
        tt_arena_destroy(arena);
        return tt_fail(TT_ERR_NOMEM, "no memory to open %s", path);
    }
    w->arena = arena;
    w->is_as_is = options->as_is;
    w->skip = options->skip;
    const tt_status status = open_path(w, path, options, notes);
    if (status != TT_OK)
        tt_weights_close(w);
    else
        *weights_out = w;
    return status;
}

void tt_weights_close(tt_weights *weights)
{
    if (weights == NULL)
        return;
    for (int64_t i = 0; i < weights->n_files; i++)
        tt_safetensors_close(weights->file[i]);
    tt_checkpoint_close(weights->checkpoint);
    for (int64_t i = 0; i < weights->n_torch; i++)
        tt_torch_file_close(weights->torch[i]);
    tt__stacks_free(&weights->stacks);
    tt_arena_destroy(weights->arena);
    tt_free(weights);
}
