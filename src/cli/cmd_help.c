// help - what a command takes, or what a setting does.

#include "cli/command.h"
#include "cli/usage.h"
#include "train/known.h"

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

static void print_setting(const tt_known_row *row)
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

// The setting of that name, in each of its meanings.
static tt_status help_setting(tt_arena *arena, const char *name, bool *is_found)
{
    const tt_known_row *row = NULL;
    int64_t n = 0;
    TT_TRY(tt_known_all(arena, &row, &n));
    for (int64_t i = 0; i < n; i++)
        if (strcmp(row[i].key, name) == 0) {
            print_setting(&row[i]);
            *is_found = true;
        }
    return TT_OK;
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
    return is_found ? TT_OK : tt_usage_unknown(cli->word[0]);
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
