// system - reading the files. See system.h.

#include "system/system.h"

#include "base/file.h"
#include "base/nearest.h"
#include "base/settings/yaml.h"
#include "base/str.h"

#include <string.h>

#define AT(field) offsetof(tt_system, field)

static const tt_opt table[] = {
    {"about", "", "one sentence", TT_OPT_STR, AT(about)},
    {"source", "", "who published it where", TT_OPT_STR, AT(source)},
    {"year", "1950", "of the source", TT_OPT_I64, AT(year), NULL, 1950, 2100},
    {"partition", "", "what is cut", TT_OPT_STR, AT(partition)},
    {"optimiser", "", "who holds it", TT_OPT_STR, AT(optimiser)},
    {"consistency", "", "of replicas", TT_OPT_STR, AT(consistency)},
    {"centralisation", "", "who is asked", TT_OPT_STR, AT(centralisation)},
    {"exchange", "", "what goes which way", TT_OPT_STR, AT(exchange)},
    {"codec", "", "in which form", TT_OPT_STR, AT(codec)},
    {"memory", "", "what is done about it", TT_OPT_STR, AT(memory)},
    {"overlap", "", "of communication", TT_OPT_STR, AT(overlap)},
    {"lacks", "", "what the published system has", TT_OPT_STR, AT(lacks)},
    {"network", "", "what it was published for", TT_OPT_STR, AT(network)},
    {"needs", "", "a device", TT_OPT_STR, AT(needs)},
    {"exact", "false", "as one rank", TT_OPT_BOOL, AT(exact)},
    {0},
};

enum { N_KEYS = sizeof table / sizeof *table - 1 };

const char *const tt_system_fields[] = {
    "partition",      "optimiser", "consistency",
    "centralisation", "exchange",  "codec",
    "memory",         "overlap",   NULL};

const char *tt_system_field(const tt_system *system, const char *field)
{
    const tt_opt *o = tt_opt_find(table, field);
    if (o == NULL || o->type != TT_OPT_STR)
        return NULL;
    return *(const char *const *)((const char *)system + o->offset);
}

// All but the last two must be there: a system without a source is a rumour.
static tt_status check_whole(const tt_settings *file, const char *name)
{
    for (int i = 0; i < N_KEYS - 2; i++)
        if (tt_settings_find(file, table[i].name) == NULL)
            return tt_fail(TT_ERR_ARG, "%s: has no line \"%s: ...\" (%s)", name,
                           table[i].name, table[i].doc);
    return TT_OK;
}

static tt_status read_text(const char *text, int64_t n, const char *path,
                           tt_arena *arena, tt_system *out)
{
    static const char below[] = "settings.";
    const size_t skip = sizeof below - 1;
    const char *known[N_KEYS];
    tt_settings file = {0};
    TT_TRY(tt_yaml_parse(text, n, path, arena, &file));
    for (int i = 0; i < N_KEYS; i++)
        known[i] = table[i].name;
    TT_TRY(tt_opt_defaults(table, out, arena));
    TT_TRY(tt_settings_apply(&file, "", table, out, arena));
    for (int64_t i = 0; i < file.n; i++) {
        tt_setting *s = &file.v[i];
        if (strncmp(s->key, below, skip) != 0)
            continue;
        s->used = true;
        TT_TRY(tt_settings_set(&out->settings, s->key + skip, s->value,
                               s->origin, arena));
    }
    TT_TRY(tt_settings_check_unused(&file, known, N_KEYS));
    return check_whole(&file, path);
}

static tt_status read_own(const char *path, tt_arena *arena, tt_system *out)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    tt_str text = {0};
    out->name = tt_arena_printf(arena, "%.*s", (int)(strlen(base) - 5), base);
    tt_status status = out->name != NULL
                           ? tt_file_read(path, TT_YAML_BYTES_MAX, &text)
                           : tt_fail(TT_ERR_NOMEM, "%s: no memory", path);
    if (status == TT_OK)
        status = read_text(tt_str_text(&text), text.n, path, arena, out);
    tt_str_fini(&text);
    return status;
}

static tt_status unknown(const char *name)
{
    tt_near near = {.word = name};
    for (int i = 0; i < tt_system_count; i++)
        tt_near_try(&near, tt_system_files[i].name);
    return tt_near_unknown(&near, "system", "`tutti list systems` names all");
}

tt_status tt_system_read(const char *name, tt_arena *arena,
                         tt_system *system_out)
{
    tt_system s = {.name = name};
    if (tt_ends_with(name, ".yaml")) {
        TT_TRY(read_own(name, arena, &s));
        *system_out = s;
        return TT_OK;
    }
    for (int i = 0; i < tt_system_count; i++) {
        const tt_system_file *f = &tt_system_files[i];
        if (strcmp(f->name, name) != 0)
            continue;
        const char *path = tt_arena_printf(arena, "systems/%s.yaml", f->name);
        if (path == NULL)
            return tt_fail(TT_ERR_NOMEM, "system %s: no memory", name);
        s.name = f->name;
        TT_TRY(read_text(f->text, (int64_t)strlen(f->text), path, arena, &s));
        *system_out = s;
        return TT_OK;
    }
    return unknown(name);
}
