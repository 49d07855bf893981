// model_path - see the header. People give a PDF, an empty file, the parent of a
// run. Each gets a sentence that says what it is and what to give instead, which is
// more useful than the first parse error of a reader.

#include "weights/model_path.h"

#include "base/file.h"
#include "data/files.h"
#include "data/format.h"
#include "store/torch_file.h"
#include "weights/model_folder.h"

#include <string.h>
#include <sys/stat.h>

enum { LOOK = 4096 }; // bytes

#define WANTED                                                                 \
    "give the folder of a run or of Hugging Face's, or a file of weights "     \
    "(.safetensors, .pt)"

// ---- folders -------------------------------------------------------------

typedef struct search {
    tt_arena *arena;
    const char *folder;
    const char *run; // the first of them by name
    bool has_model;
} search;

static tt_status look_for_run(void *user, const char *name)
{
    search *s = user;
    const char *path = tt_path_join(s->arena, s->folder, name);
    if (path == NULL)
        return TT_ERR_NOMEM;
    if (name[0] != '.' && strcmp(name, "checkpoints") != 0 &&
        strncmp(name, "step-", 5) != 0 && tt_file_is_folder(path) &&
        tt_model_folder_is_run(path) &&
        (s->run == NULL || strcmp(path, s->run) < 0))
        s->run = path;
    return TT_OK;
}

const char *tt_model_path_find_run(const char *folder, tt_arena *arena)
{
    search s = {.arena = arena, .folder = folder};
    (void)tt_file_each(folder, look_for_run, &s);
    if (s.run != NULL)
        return s.run;
    s.folder = tt_path_join(arena, folder, "runs");
    if (s.folder != NULL && tt_file_is_folder(s.folder))
        (void)tt_file_each(s.folder, look_for_run, &s);
    return s.run;
}

static tt_status look_for_model(void *user, const char *name)
{
    search *s = user;
    s->has_model |= strncmp(name, "step-", 5) == 0 ||
                    strncmp(name, "pytorch_model", 13) == 0 ||
                    tt_ends_with(name, ".safetensors") ||
                    tt_ends_with(name, ".index.json");
    return TT_OK;
}

static tt_status check_folder(const char *path, tt_arena *arena)
{
    search s = {0};
    if (tt_model_folder_is_run(path) || tt_model_folder_is(path))
        return TT_OK;
    TT_TRY(tt_file_each(path, look_for_model, &s));
    if (s.has_model)
        return TT_OK;
    const char *run = tt_model_path_find_run(path, arena);
    if (run != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s is a folder with runs in it and no model itself; "
                       "name one of them, as %s",
                       path, run);
    return tt_fail(TT_ERR_ARG,
                   "%s is a folder without a model: it has no checkpoints, no "
                   "config.json and no weights; `tutti runs` lists the runs "
                   "that there are",
                   path);
}

// ---- files ---------------------------------------------------------------

bool tt_model_path_is_file(const char *path)
{
    tt_blob blob = {0};
    if (tt_file_oddity(path) != NULL || tt_file_is_folder(path))
        return false;
    if (tt_blob_open(path, &blob) != TT_OK)
        return false;
    const char *name = tt_format_name(blob.p, blob.n);
    const int64_t look = blob.n < LOOK ? blob.n : LOOK;
    // The first file in an archive of torch.save is ARCHIVE/data.pkl.
    const bool is_torch =
        tt_torch_file_is(path) &&
        (name == NULL || strcmp(name, "zip") != 0 ||
         memmem(blob.p, (size_t)look, "/data.pkl", 9) != NULL);
    tt_blob_close(&blob);
    return is_torch || (name != NULL && strcmp(name, "safetensors") == 0);
}

static tt_status check_bytes(const char *path, const tt_blob *blob)
{
    static const char *const maybe[] = {"zip", "safetensors", "pickle", "tar"};
    const char *name = blob->n > 0 ? tt_format_name(blob->p, blob->n) : NULL;
    if (blob->n == 0)
        return tt_fail(TT_ERR_ARG,
                       "%s is empty, so there is no model in it; " WANTED,
                       path);
    for (int i = 0; i < 4 && name != NULL; i++)
        if (strcmp(name, maybe[i]) == 0)
            return TT_OK;
    if (name != NULL)
        return tt_fail(TT_ERR_ARG,
                       "%s: its format is %s, which is no model; " WANTED, path,
                       name);
    return TT_OK;
}

tt_status tt_model_path_check(const char *path, tt_arena *arena)
{
    tt_blob blob = {0};
    if (!tt_file_exists(path))
        return TT_OK;
    if (tt_file_is_folder(path))
        return check_folder(path, arena);
    const char *odd = tt_file_oddity(path);
    if (odd != NULL)
        return tt_fail(TT_ERR_ARG, "%s is %s, which holds no model; " WANTED,
                       path, odd);
    TT_TRY(tt_blob_open(path, &blob));
    const tt_status status = check_bytes(path, &blob);
    tt_blob_close(&blob);
    return status;
}
