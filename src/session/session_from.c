// session_from - init.from=FOLDER: the model and its tokenizer are taken from the
// folder, so that fine-tuning needs no settings of the model. What the user gives
// all the same must agree, or it is an error: weights of another shape, or a
// different tokenizer, would make the loaded weights worthless.

#include "session/session_from.h"

#include "base/file.h"
#include "data/tokenizer/tokenizer.h"
#include "weights/model_folder.h"

#include <stdio.h>
#include <string.h>

typedef struct taking {
    tt_session *s;
    const char *folder;
    const tt_model_def *model;
    const tt_model_preset *preset; // that the user named; NULL: none
    char *here, *there;            // parameters: asked for, and the folder's
} taking;

// Options that may differ from the folder's: they concern initialisation and
// training, not what the model computes; classes and channels follow from the data.
static bool is_free(const char *name)
{
    static const char *const names[] = {"dropout",  "deviation", "balance",
                                        "capacity", "classes",   "channels"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

static bool follows_from_data(const char *name)
{
    return strcmp(name, "classes") == 0 || strcmp(name, "channels") == 0;
}

// ---- the model -----------------------------------------------------------

static tt_status find_model(taking *t, const tt_settings *there)
{
    const tt_setting *own = tt_settings_find(&t->s->settings, "model");
    const tt_model_preset *unused = NULL;
    const tt_model_def *asked = NULL;
    TT_TRY(tt_model_find(tt_config_text(there, "model"), &t->model, &unused));
    if (own == NULL)
        return tt_settings_set(&t->s->settings, "model", t->model->name,
                               t->folder, t->s->arena);
    TT_TRY(tt_model_find(own->value, &asked, &t->preset));
    if (asked == t->model)
        return TT_OK;
    return tt_fail(TT_ERR_ARG,
                   "%s: model=%s is not that of init.from=%s, which is %s; "
                   "leave it out and it follows from there",
                   own->origin, own->value, t->folder, t->model->name);
}

static tt_status read_params(taking *t, tt_settings *there)
{
    const tt_opt *table = t->model->options;
    tt_arena *arena = t->s->arena;
    t->here = tt_arena_alloc(arena, t->model->params_bytes + 1);
    t->there = tt_arena_alloc(arena, t->model->params_bytes + 1);
    if (t->here == NULL || t->there == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_opt_defaults(table, t->here, arena));
    TT_TRY(tt_opt_defaults(table, t->there, arena));
    if (t->preset != NULL)
        TT_TRY(tt_opt_parse(table, t->here, t->preset->options, arena));
    TT_TRY(tt_settings_apply(&t->s->settings, "model", table, t->here, arena));
    return tt_settings_apply(there, "model", table, t->there, arena);
}

static const char *value_of(const taking *t, const tt_opt *opt,
                            const void *params)
{
    tt_str text = {0};
    tt_opt_print_value(opt, params, &text);
    const char *copy = tt_str_keep(&text, t->s->arena);
    return copy;
}

// Whether the preset sets this option: "layers=12 width=768 ..".
static bool is_of_preset(const tt_model_preset *preset, const char *name)
{
    const size_t n = strlen(name);
    const char *p = preset != NULL ? preset->options : "";
    for (; *p != '\0'; p += strcspn(p, " "), p += strspn(p, " "))
        if (strncmp(p, name, n) == 0 && p[n] == '=')
            return true;
    return false;
}

// Takes one option from the folder. If the user gave it, it must be the same.
static tt_status take_option(taking *t, const tt_opt *opt, bool is_there)
{
    char key[128];
    snprintf(key, sizeof key, "model.%s", opt->name);
    const tt_setting *own = tt_settings_find(&t->s->settings, key);
    const char *here = value_of(t, opt, t->here);
    const char *there = value_of(t, opt, t->there);
    if (here == NULL || there == NULL)
        return TT_ERR_NOMEM;
    const bool is_asked = own != NULL || is_of_preset(t->preset, opt->name);
    if (is_asked && !is_free(opt->name) && strcmp(here, there) != 0)
        return tt_fail(TT_ERR_ARG,
                       "%s: %s=%s is not that of init.from=%s, which has %s; "
                       "leave it out and it follows from there",
                       own != NULL ? own->origin : t->preset->name, key, here,
                       t->folder, there);
    if (is_asked || !is_there || follows_from_data(opt->name))
        return TT_OK;
    return tt_settings_set(&t->s->settings, key, there, t->folder, t->s->arena);
}

static tt_status take_model(taking *t)
{
    tt_settings there = {0};
    TT_TRY(tt_model_folder_read(t->folder, t->s->arena, &there));
    TT_TRY(find_model(t, &there));
    TT_TRY(read_params(t, &there));
    for (const tt_opt *o = t->model->options; o != NULL && o->name; o++) {
        char key[128];
        snprintf(key, sizeof key, "model.%s", o->name);
        TT_TRY(take_option(t, o, tt_settings_find(&there, key) != NULL));
    }
    return TT_OK;
}

// ---- the tokenizer -------------------------------------------------------

// The folder's tokenizer. A run has it in its checkpoints.
static const char *find_tokenizer(const taking *t)
{
    char name[128] = "";
    tt_str latest = {0};
    tt_arena *arena = t->s->arena;
    const char *own = tt_model_folder_tokenizer(t->folder, arena);
    const char *path =
        tt_arena_printf(arena, "%s/checkpoints/latest", t->folder);
    if (own != NULL || path == NULL || !tt_file_exists(path))
        return own;
    if (tt_file_read(path, sizeof name - 1, &latest) == TT_OK)
        snprintf(name, sizeof name, "%s", tt_str_text(&latest));
    tt_str_fini(&latest);
    name[strcspn(name, "/\n")] = '\0';
    const char *folder =
        tt_arena_printf(arena, "%s/checkpoints/%s", t->folder, name);
    return folder != NULL && name[0] != '\0'
               ? tt_model_folder_tokenizer(folder, arena)
               : NULL;
}

// Whether both tokenizers are the same: they print the same tokenizer.json.
static tt_status are_same(const char *a, const char *b, bool *same_out)
{
    tt_tokenizer *x = NULL, *y = NULL;
    tt_str one = {0}, other = {0};
    tt_status status = tt_tokenizer_open(a, NULL, 0, &x);
    if (status == TT_OK)
        status = tt_tokenizer_open(b, NULL, 0, &y);
    if (status == TT_OK) {
        tt_tokenizer_print(x, &one);
        tt_tokenizer_print(y, &other);
        status = tt_str_status(&one);
    }
    if (status == TT_OK)
        status = tt_str_status(&other);
    if (status == TT_OK)
        *same_out = strcmp(tt_str_text(&one), tt_str_text(&other)) == 0;
    tt_str_fini(&one);
    tt_str_fini(&other);
    tt_tokenizer_close(x);
    tt_tokenizer_close(y);
    return status;
}

// data.tokenizer=chars means the characters of the data. With a model of
// characters, the model's own are meant.
static tt_status is_of_chars(const char *spec, bool *chars_out)
{
    tt_tokenizer *t = NULL;
    TT_TRY(tt_tokenizer_open(spec, NULL, 0, &t));
    *chars_out = strcmp(tt_tokenizer_kind(t), "chars") == 0;
    tt_tokenizer_close(t);
    return TT_OK;
}

static tt_status take_tokenizer(taking *t)
{
    const tt_setting *data = tt_settings_find(&t->s->settings, "data");
    const tt_setting *own = tt_settings_find(&t->s->settings, "data.tokenizer");
    const char *its = find_tokenizer(t);
    bool is_same = own == NULL || own->value[0] == '\0';
    if (data == NULL || strcmp(data->value, "text") != 0 || its == NULL)
        return TT_OK;
    if (!is_same && strcmp(own->value, "chars") == 0)
        TT_TRY(is_of_chars(its, &is_same));
    else if (!is_same)
        TT_TRY(are_same(own->value, its, &is_same));
    if (!is_same)
        return tt_fail(TT_ERR_ARG,
                       "%s: data.tokenizer=%s is not that of init.from=%s; "
                       "leave it out and it follows from there",
                       own->origin, own->value, t->folder);
    return tt_settings_set(&t->s->settings, "data.tokenizer", its, t->folder,
                           t->s->arena);
}

tt_status tt__session_take_from(tt_session *session)
{
    const tt_setting *from = tt_settings_find(&session->settings, "init.from");
    taking t = {.s = session, .folder = from != NULL ? from->value : ""};
    if (from == NULL || !tt_file_is_folder(from->value) ||
        !tt_model_folder_is(from->value))
        return TT_OK;
    tt_status status = take_model(&t);
    if (status == TT_OK && t.model->task == TT_TASK_TOKENS)
        status = take_tokenizer(&t);
    return status;
}
