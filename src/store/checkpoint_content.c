// checkpoint_content - the description of what is to be saved, checked and copied
// while the trainer waits. It is a few kilobytes of names and shapes; the tensors'
// data stay where they are. After the copy the caller may change everything but the
// data.

#include "base/json_read.h"
#include "store/checkpoint_folder.h"

#include <string.h>

static tt_status check_text(const tt_checkpoint_content *c, int k)
{
    const char *name = c->text[k].name;
    bool is_taken = strcmp(name, "model.safetensors") == 0 ||
                    strcmp(name, "optim.safetensors") == 0;
    for (int i = 0; i < k; i++)
        is_taken = is_taken || strcmp(name, c->text[i].name) == 0;
    if (is_taken || !tt__checkpoint_is_name(name))
        return tt_fail(TT_ERR_ARG,
                       "\"%s\" is no name for a file of a checkpoint", name);
    return TT_OK;
}

static tt_status check_state(const char *state)
{
    const tt_json_value *root = NULL;
    tt_arena *arena = tt_arena_create();
    if (arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory for a checkpoint");
    tt_status status = tt_json_read(state, (int64_t)strlen(state),
                                    "state of a checkpoint", arena, &root);
    if (status == TT_OK && root->type != TT_JSON_OBJECT)
        status = tt_fail(TT_ERR_ARG,
                         "the state of a checkpoint must be a JSON object");
    tt_arena_destroy(arena);
    return status;
}

static const tt_safetensor *copy_tensors(const tt_safetensor *from, int64_t n,
                                         tt_arena *arena)
{
    tt_safetensor *v = tt_arena_copy(arena, from, n * (int64_t)sizeof(*v));
    for (int64_t i = 0; i < n && v != NULL; i++) {
        v[i].name = tt_arena_strdup(arena, from[i].name);
        v[i].dtype = tt_arena_strdup(arena, from[i].dtype);
        v[i].shape = tt_arena_copy(arena, from[i].shape,
                                   from[i].ndim * (int64_t)sizeof(int64_t));
        if (v[i].name == NULL || v[i].dtype == NULL || v[i].shape == NULL)
            return NULL;
    }
    return v;
}

static const tt_checkpoint_text *copy_text(const tt_checkpoint_content *c,
                                           tt_arena *arena)
{
    tt_checkpoint_text *v =
        tt_arena_copy(arena, c->text, c->n_text * (int64_t)sizeof(*v));
    for (int i = 0; i < c->n_text && v != NULL; i++) {
        v[i].name = tt_arena_strdup(arena, v[i].name);
        v[i].text = tt_arena_copy(arena, v[i].text, v[i].n);
        if (v[i].name == NULL || v[i].text == NULL)
            return NULL;
    }
    return v;
}

tt_status tt__checkpoint_copy(const tt_checkpoint_content *from,
                              tt_arena *arena, tt_checkpoint_content *to)
{
    const char *state = from->state != NULL ? from->state : "{}";
    if (from->step < 0)
        return tt_fail(TT_ERR_ARG, "there is no step %lld",
                       (long long)from->step);
    for (int i = 0; i < from->n_text; i++)
        TT_TRY(check_text(from, i));
    TT_TRY(check_state(state));
    *to = *from;
    to->model = copy_tensors(from->model, from->n_model, arena);
    to->optim = copy_tensors(from->optim, from->n_optim, arena);
    to->text = copy_text(from, arena);
    to->state = tt_arena_strdup(arena, state);
    if (to->model == NULL || to->optim == NULL || to->text == NULL ||
        to->state == NULL)
        return TT_ERR_NOMEM;
    return TT_OK;
}
