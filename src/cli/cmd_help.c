// help - what a command takes, or what a setting does.

#include "base/settings/opt.h"
#include "cli/command.h"
#include "cli/usage.h"
#include "config/aliases.h"
#include "config/keys.h"

#include <string.h>

static const tt_command_def *find(const char *name)
{
    int n = 0;
    const tt_command_def *const *all = tt_command_all(&n);
    for (int i = 0; i < n; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static void print_setting(const tt_keys_row *row)
{
    const tt_opt *o = row->opt;
    const bool has_default = o->fallback != NULL && o->fallback[0] != '\0';
    printf("%s%s%s: %s", row->key, has_default ? "=" : "",
           has_default ? o->fallback : "", o->doc);
    if (o->type == TT_OPT_CHOICE)
        printf(": %s", o->choices);
    if (row->of[0] != '\0')
        printf(" (%s)", row->of);
    if (o->max > o->min)
        printf("; from %.15g to %.15g", o->min, o->max);
    printf("\n");
}

// Prints the setting of that name, in each of its meanings.
static tt_status help_setting(tt_arena *arena, const char *name, bool *is_found)
{
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    TT_TRY(tt_keys_all(arena, &row, &n));
    for (int64_t i = 0; i < n; i++)
        if (strcmp(row[i].key, name) == 0) {
            print_setting(&row[i]);
            *is_found = true;
        }
    return TT_OK;
}

// Suggests what was meant: a command, what other programs call a setting, or a setting
// with or without its section ("lrr" is near the end of optim.lr).
static tt_status unknown(tt_cli *cli)
{
    const char *word = cli->word[0];
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    int n_commands = 0, n_names = 0;
    const tt_command_def *const *all = tt_command_all(&n_commands);
    TT_TRY(tt_keys_all(cli->arena, &row, &n));
    const int64_t most = n_commands + 2 * n;
    const char **name =
        tt_arena_alloc(cli->arena, (int64_t)sizeof *name * most);
    const char **meaning =
        tt_arena_alloc(cli->arena, (int64_t)sizeof *name * most);
    if (name == NULL || meaning == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < n_commands; i++)
        name[n_names] = meaning[n_names] = all[i]->name, n_names++;
    for (int64_t i = 0; i < n; i++) {
        const char *dot = strrchr(row[i].key, '.');
        name[n_names] = meaning[n_names] = row[i].key, n_names++;
        if (dot != NULL)
            name[n_names] = dot + 1, meaning[n_names++] = row[i].key;
    }
    const char *near = tt_alias_key(word);
    const char *found = near == NULL ? tt_nearest(word, name, n_names) : NULL;
    for (int i = 0; i < n_names && found != NULL && near == NULL; i++)
        if (name[i] == found)
            near = meaning[i];
    return tt_fail(TT_ERR_ARG, "\"%s\" is no command and no setting; %s%s%s",
                   word,
                   near != NULL ? "did you mean \""
                                : "`tutti help` lists the commands and `tutti "
                                  "list settings` the settings",
                   near != NULL ? near : "", near != NULL ? "\"?" : "");
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    bool is_found = false;
    (void)exit_out;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    if (cli->n_words == 0) {
        tt_usage_print(stdout);
        return TT_OK;
    }
    const tt_command_def *command = find(cli->word[0]);
    if (command != NULL) {
        tt_usage_print_command(command);
        return TT_OK;
    }
    TT_TRY(help_setting(cli->arena, cli->word[0], &is_found));
    return is_found ? TT_OK : unknown(cli);
}

const tt_command_def tt_command_help = {
    .name = "help",
    .doc = "What a command takes, or what a setting does.",
    .usage = "[COMMAND|SETTING]",
    .detail = "`tutti help train` is `tutti train --help`; `tutti help "
              "optim.lr` says what that setting\ndoes, its default and its "
              "range.",
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
