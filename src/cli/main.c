// main - finds the command, reads the command line, prints the one error.

#include "base/opt.h"
#include "base/yaml.h"
#include "cli/command.h"
#include "cli/term.h"
#include "tutti/tutti.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TT_COMMAND(name) extern const tt_command_def tt_command_##name;
#include "cli/list.h"
#undef TT_COMMAND

static const tt_command_def *const all[] = {
#define TT_COMMAND(name) &tt_command_##name,
#include "cli/list.h"
#undef TT_COMMAND
};

enum { N_COMMANDS = sizeof(all) / sizeof(all[0]) };

const tt_command_def *const *tt_command_all(int *n)
{
    *n = N_COMMANDS;
    return all;
}

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

static void print_usage(FILE *to)
{
    fprintf(to,
            "tutti %s: trains neural networks; how they are distributed is "
            "data\n\nusage: tutti COMMAND [arguments]\n\n",
            TUTTI_VERSION);
    for (int i = 0; i < N_COMMANDS; i++)
        fprintf(to, "  %-8s %s\n", all[i]->name, all[i]->doc);
    fprintf(
        to,
        "\n`tutti COMMAND --help` says more. Exit status: 0 done, 1 the "
        "answer is no, 2 wrong use or input,\n3 a signal ended training: it "
        "was saved and can go on.\n");
}

static void print_help(const tt_command_def *command)
{
    printf("usage: tutti %s %s\n\n%s\n", command->name, command->usage,
           command->doc);
    if (command->detail != NULL)
        printf("\n%s\n", command->detail);
    if (command->flags != NULL)
        printf("\n");
    for (const tt_flag *f = command->flags; f && f->name; f++) {
        const char *value = f->value != NULL ? f->value : "";
        printf("  %s %-*s %s\n", f->name, 11 - (int)strlen(f->name), value,
               f->doc);
    }
}

static const tt_command_def *find(const char *name)
{
    for (int i = 0; i < N_COMMANDS; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static int unknown_command(const char *name)
{
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++)
        names[i] = all[i]->name;
    const char *near = tt_nearest(name, names, N_COMMANDS);
    fprintf(stderr, "tutti: unknown command \"%s\"; %s%s%s\n", name,
            near ? "did you mean \"" : "`tutti --help` lists them",
            near ? near : "", near ? "\"?" : "");
    return TT_EXIT_ERROR;
}

// The flag that a word is: "--json", "-n", or "-n4" with its value.
static tt_status find_flag(const tt_command_def *command, const char *flag,
                           const tt_flag **flag_out)
{
    const char *names[32];
    int n = 0;
    for (const tt_flag *f = command->flags; f && f->name && n < 32; f++) {
        if (strcmp(f->name, flag) == 0 ||
            (f->value != NULL && flag[1] == f->name[1] && flag[1] != '-' &&
             flag[2] != '\0')) {
            *flag_out = f;
            return TT_OK;
        }
        names[n++] = f->name;
    }
    const char *near = tt_nearest(flag, names, n);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "unknown flag %s; did you mean %s?", flag,
                       near);
    return tt_fail(TT_ERR_ARG, "unknown flag %s; `tutti %s --help` lists them",
                   flag, command->name);
}

static bool is_file(const tt_command_def *command, const char *word)
{
    const size_t n = strlen(word);
    return (n > 5 && strcmp(word + n - 5, ".yaml") == 0) ||
           (n > 4 && strcmp(word + n - 4, ".yml") == 0) ||
           (strchr(word, '/') != NULL && !command->takes_paths);
}

// Files first, in their order, so that key=value overrides them wherever it
// stands.
static tt_status read_files(const tt_command_def *command, tt_cli *cli,
                            const char *const *word, int n)
{
    for (int i = 0; i < n; i++) {
        if (word[i][0] == '-' || strchr(word[i], '=') != NULL ||
            !is_file(command, word[i]))
            continue;
        TT_TRY(tt_yaml_read(word[i], cli->arena, &cli->settings));
        if (cli->file == NULL)
            cli->file = word[i];
    }
    return TT_OK;
}

// Takes over the flag at word[*i], and the word behind it if that is its value.
static tt_status read_flag(const tt_command_def *command, tt_cli *cli,
                           const char *const *word, int n, int *i)
{
    const tt_flag *flag = NULL;
    const char **value = &cli->flag_value[cli->n_flags];
    TT_TRY(find_flag(command, word[*i], &flag));
    cli->flag[cli->n_flags] = flag->name;
    *value = NULL;
    if (flag->value != NULL && strcmp(flag->name, word[*i]) != 0)
        *value = word[*i] + 2;
    else if (flag->value != NULL && *i + 1 < n)
        *value = word[++*i];
    else if (flag->value != NULL)
        return tt_fail(TT_ERR_ARG, "%s wants a value: %s %s", flag->name,
                       flag->name, flag->value);
    cli->n_flags++;
    return TT_OK;
}

static tt_status read_words(const tt_command_def *command, tt_cli *cli,
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
                       "\"%s\" is neither key=value nor a .yaml file; usage: "
                       "tutti %s %s",
                       cli->word[command->max_words], command->name,
                       command->usage);
    return TT_OK;
}

// The folder for what is measured; NULL: there is no place.
static const char *cache_folder(tt_arena *arena)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/') // others are to be ignored
        return tt_arena_printf(arena, "%s/tutti", cache);
    return home == NULL || home[0] == '\0'
               ? NULL
               : tt_arena_printf(arena, "%s/.cache/tutti", home);
}

static int run(const tt_command_def *command, const char *const *word, int n)
{
    tt_cli cli = {.arena = tt_arena_create()};
    int exit_status = TT_EXIT_OK;
    tt_status status = TT_ERR_NOMEM;
    if (cli.arena == NULL)
        (void)tt_fail(status, "no memory");
    else
        status = read_words(command, &cli, word, n);
    if (cli.arena != NULL)
        cli.settings.cache = cache_folder(cli.arena);
    if (status == TT_OK)
        status = command->run(&cli, &exit_status);
    if (status != TT_OK) {
        fputs("tutti: ", stderr);
        tt_term_print_foreign(stderr, tt_error_message());
        fputs("\n", stderr);
        exit_status = TT_EXIT_ERROR;
    }
    tt_arena_destroy(cli.arena);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tutti: cannot write the results: is the disk full?\n");
        exit_status = TT_EXIT_ERROR;
    }
    return exit_status;
}

// OpenMP's threads spin for milliseconds when they wait for each other, which
// starves whatever else runs on the machine, and them too. How long is read
// from the environment before main, so the program starts itself once more.
static void wait_politely(char **argv)
{
    if (getenv("OMP_WAIT_POLICY") != NULL || getenv("GOMP_SPINCOUNT") != NULL)
        return;
    if (setenv("GOMP_SPINCOUNT", "20000", 1) == 0)
        (void)execv("/proc/self/exe", argv); // without it: as it was
}

int main(int argc, char **argv)
{
    wait_politely(argv);
    if (argc < 2) {
        print_usage(stderr);
        return TT_EXIT_ERROR;
    }
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
        strcmp(argv[1], "help") == 0) {
        print_usage(stdout);
        return TT_EXIT_OK;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("tutti %s\n", TUTTI_VERSION);
        return TT_EXIT_OK;
    }
    const tt_command_def *command = find(argv[1]);
    if (command == NULL)
        return unknown_command(argv[1]);
    for (int i = 2; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            print_help(command);
            return TT_EXIT_OK;
        }
    return run(command, (const char *const *)argv + 2, argc - 2);
}
