// words - the command line: files, key=value, flags, plain words.
//
// A word's form alone decides its kind, wherever it stands:
//
//   --json -n4 --rank=3   a flag of the command, with or without a value
//   key=value             a setting
//   FILE.yaml, a/b        a file of settings (where takes_paths is set, a/b is a word)
//   anything else         a plain word
//
// Files are read first, in their order, and settings override them. So the order of
// words never matters, except between two files.

#include "cli/words.h"

#include "base/settings/opt.h"
#include "base/settings/yaml.h"
#include "cli/launch/team.h"
#include "config/aliases.h"
#include "config/keys.h"
#include "system/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool tt_cli_has(const tt_cli *cli, const char *flag)
{
    for (int i = 0; i < cli->n_flags; i++)
        if (strcmp(cli->flag[i], flag) == 0)
            return true;
    return false;
}

const char *tt_cli_value(const tt_cli *cli, const char *flag)
{
    for (int i = cli->n_flags - 1; i >= 0; i--)
        if (strcmp(cli->flag[i], flag) == 0)
            return cli->flag_value[i];
    return NULL;
}

tt_status tt_cli_options(tt_cli *cli, const tt_opt *table, void *params)
{
    const char *known[32];
    int n = 0;
    for (; n < 32 && table[n].name != NULL; n++)
        known[n] = table[n].name;
    TT_TRY(tt_opt_defaults(table, params, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, params, cli->arena));
    return tt_settings_check_unused(&cli->settings, known, n);
}

tt_status tt_cli_need_model(const tt_cli *cli, const char *question)
{
    if (cli->n_words > 0)
        return TT_OK;
    if (cli->file == NULL)
        return tt_fail(TT_ERR_ARG, "%s", question);
    const char *slash = strrchr(cli->file, '/');
    const char *name = slash != NULL ? slash + 1 : cli->file;
    return tt_fail(TT_ERR_ARG,
                   "%s is a file of settings, not a model; `tutti train %s` "
                   "trains one, in runs/%.*s, which is then what to give here",
                   cli->file, cli->file, (int)(strrchr(name, '.') - name),
                   name);
}

// Whether a word is this flag: "--rank", "--rank=3", "-n", "-n4".
static bool is_named(const tt_flag *f, const char *word)
{
    const size_t n = strlen(f->name);
    if (strncmp(f->name, word, n) != 0)
        return f->value != NULL && word[1] == f->name[1] && word[1] != '-' &&
               f->name[2] == '\0' && word[2] != '\0';
    return word[n] == '\0' ||
           (f->value != NULL && (word[n] == '=' || f->name[1] != '-'));
}

// The setting that a flag of other programs means: "--lr" is optim.lr; NULL: none.
static const char *setting_of(tt_cli *cli, const char *flag)
{
    const char *name = flag + strspn(flag, "-");
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    char *key = tt_arena_strdup(cli->arena, name);
    if (key == NULL || tt_keys_all(cli->arena, &row, &n) != TT_OK)
        return NULL;
    key[strcspn(key, "=")] = '\0';
    for (char *p = key; (p = strchr(p, '-')) != NULL;)
        *p = '_';
    for (int64_t i = 0; i < n; i++)
        if (strcmp(row[i].key, key) == 0)
            return row[i].key;
    return tt_alias_key(key);
}

static tt_status unknown_flag(const tt_command_def *command, tt_cli *cli,
                              const char *flag)
{
    const char *names[32];
    int n = 0;
    const char *setting = setting_of(cli, flag);
    if (setting != NULL && setting[0] != '-')
        return tt_fail(TT_ERR_ARG,
                       "unknown flag %s; settings are written without dashes: "
                       "%s%s",
                       flag, setting,
                       strchr(setting, '=') != NULL ? "" : "=VALUE");
    for (const tt_flag *f = command->flags; f && f->name && n < 32; f++)
        names[n++] = f->name;
    const char *near = setting != NULL ? setting : tt_nearest(flag, names, n);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "unknown flag %s; did you mean %s?", flag,
                       near);
    return tt_fail(TT_ERR_ARG, "unknown flag %s; `tutti help %s` lists them",
                   flag, command->name);
}

// The command's flag that a word is; NULL: none.
static const tt_flag *find_flag(const tt_command_def *command, const char *word)
{
    for (const tt_flag *f = command->flags; f && f->name; f++)
        if (is_named(f, word))
            return f;
    return NULL;
}

static bool is_file(const tt_command_def *command, const char *word)
{
    const size_t n = strlen(word);
    return (n > 5 && strcmp(word + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(word + n - 4, ".yml") == 0) ||
           (strchr(word, '/') != NULL && !command->takes_paths);
}

// Two files may be meant, one for what many runs share. They may also be a slip, as
// *.yaml is.
static void note_overridden(const char *path, const tt_setting *first,
                            int64_t n)
{
    if (n == 0 || tt_cli_is_spare())
        return;
    fprintf(stderr, "note: %s overrides %s of %s", path, first->key,
            first->origin);
    if (n > 1)
        fprintf(stderr, " and %lld more", (long long)(n - 1));
    fputs("; one run is made of all files\n", stderr);
}

// A second file overrides what the first has set.
static tt_status read_file(tt_cli *cli, const char *path)
{
    tt_settings file = {0};
    tt_setting first = {0};
    int64_t n = 0;
    TT_TRY(tt_yaml_read(path, cli->arena, &file));
    for (int64_t i = 0; i < file.n; i++) {
        const tt_setting *new = &file.v[i];
        const tt_setting *old = tt_settings_find(&cli->settings, new->key);
        if (old != NULL && strcmp(old->value, new->value) != 0 && n++ == 0)
            first = *old;
        TT_TRY(tt_settings_set(&cli->settings, new->key, new->value,
                               new->origin, cli->arena));
    }
    note_overridden(path, &first, n);
    return TT_OK;
}

// Whether a word is a flag and not the value of one: a negative number is a value.
static bool is_flag(const tt_command_def *command, const char *word)
{
    return word[0] == '-' && (find_flag(command, word) != NULL ||
                              (word[1] == '-' && word[2] != '\0'));
}

// Whether word[i] is a flag whose value is the next word.
static bool has_value_next(const tt_command_def *command,
                           const char *const *word, int n, int i)
{
    const tt_flag *flag =
        word[i][0] == '-' ? find_flag(command, word[i]) : NULL;
    return flag != NULL && flag->value != NULL &&
           word[i][strlen(flag->name)] == '\0' && i + 1 < n &&
           !is_flag(command, word[i + 1]);
}

// Files first, in their order, so that key=value overrides them wherever it stands.
static tt_status read_files(const tt_command_def *command, tt_cli *cli,
                            const char *const *word, int n)
{
    for (int i = 0; i < n; i++) {
        if (has_value_next(command, word, n, i)) {
            i++;
            continue;
        }
        if (word[i][0] == '-' || strchr(word[i], '=') != NULL ||
            !is_file(command, word[i]))
            continue;
        TT_TRY(read_file(cli, word[i]));
        if (cli->file == NULL)
            cli->file = word[i];
    }
    return TT_OK;
}

// Takes the flag at word[*i], and the next word if that is its value.
static tt_status read_flag(const tt_command_def *command, tt_cli *cli,
                           const char *const *word, int n, int *i)
{
    const tt_flag *flag = find_flag(command, word[*i]);
    const char **value = &cli->flag_value[cli->n_flags];
    if (flag == NULL)
        return unknown_flag(command, cli, word[*i]);
    const char *rest = word[*i] + strlen(flag->name);
    cli->flag[cli->n_flags] = flag->name;
    *value = NULL;
    if (flag->value != NULL && *rest != '\0')
        *value = rest + (*rest == '=');
    else if (has_value_next(command, word, n, *i))
        *value = word[++*i];
    else if (flag->value != NULL)
        return tt_fail(TT_ERR_ARG, "%s wants a value: %s %s", flag->name,
                       flag->name, flag->value);
    cli->n_flags++;
    return TT_OK;
}

// The settings of `system=NAME`, for as many ranks as -n or the launcher says. What is
// wrong with -n is said by whoever starts ranks.
static tt_status apply_system(tt_cli *cli)
{
    const char *text = tt_cli_value(cli, "-n");
    tt_world world;
    int64_t n = text != NULL ? atoll(text) : 0;
    TT_TRY(tt_cli_world(&world));
    if (n < 1)
        n = world.size > 1 ? world.size : 1;
    return tt_system_apply(&cli->settings, n, cli->arena);
}

tt_status tt__cli_read(const tt_command_def *command, tt_cli *cli,
                       const char *const *word, int n)
{
    const char **plain =
        tt_arena_alloc(cli->arena, (int64_t)sizeof *plain * (n + 1));
    cli->flag = tt_arena_alloc(cli->arena, (int64_t)sizeof *plain * (n + 1));
    cli->flag_value =
        tt_arena_alloc(cli->arena, (int64_t)sizeof *plain * (n + 1));
    if (plain == NULL || cli->flag == NULL || cli->flag_value == NULL)
        return TT_ERR_NOMEM;
    cli->word = plain;
    TT_TRY(read_files(command, cli, word, n));
    for (int i = 0; i < n; i++) {
        if (word[i][0] == '-') {
            TT_TRY(read_flag(command, cli, word, n, &i));
        } else if (strchr(word[i], '=') != NULL) {
            TT_TRY(tt_settings_assign(&cli->settings, word[i], "command line",
                                      cli->arena));
        } else if (!is_file(command, word[i])) {
            plain[cli->n_words++] = word[i];
        }
    }
    if (cli->n_words > command->max_words)
        return tt_fail(TT_ERR_ARG,
                       "\"%s\" is neither key=value nor a .yaml file; `tutti "
                       "help %s` says what there is",
                       cli->word[command->max_words], command->name);
    return command->has_system ? apply_system(cli) : TT_OK;
}

tt_status tt_cli_print(tt_str *text)
{
    const tt_status status = tt_str_status(text);
    if (status == TT_OK)
        fputs(tt_str_text(text), stdout);
    tt_str_fini(text);
    return status;
}
