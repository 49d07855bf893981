// main - finds the command, reads the command line, prints the one error.
//
//   argv -> find (command) -> tt__cli_read (words.c) -> set_isa -> command->run
//                                                                   |
//   exit status  <-- print_error, once, if it returned a failure ---+
//
// Under mpirun every rank runs main. A command that does not know ranks is run by rank
// 0 alone, so its output appears once.

#include "backend/cpu/isa.h"
#include "base/json.h"
#include "base/registry.h"
#include "cli/command.h"
#include "cli/launch/team.h"
#include "cli/term.h"
#include "cli/usage.h"
#include "cli/words.h"

#include <signal.h>
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

TT_REGISTRY(tt_command, all)

static const tt_command_def *find(const char *name)
{
    // Spellings that people know from other programs.
    static const char *const also[][2] = {{"--help", "help"},
                                          {"-h", "help"},
                                          {"--version", "version"},
                                          {"-V", "version"},
                                          {"-v", "version"}};
    for (size_t i = 0; i < sizeof also / sizeof also[0]; i++)
        if (strcmp(also[i][0], name) == 0)
            name = also[i][1];
    return tt_command_find(name);
}

// The folder for measurements (links, kernels); NULL: there is no place for it.
static const char *cache_folder(tt_arena *arena)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (cache != NULL && cache[0] == '/') // others are to be ignored
        return tt_arena_printf(arena, "%s/tutti", cache);
    return home == NULL || home[0] == '\0'
               ? NULL
               : tt_arena_printf(arena, "%s/.cache/tutti", home);
}

static tt_status limit_isa(const char *origin, const char *value)
{
    const int level = tt_isa_find(value);
    if (level < 0)
        return tt_fail(TT_ERR_ARG, "%s=%s: it is one of " TT_ISA_CHOICES,
                       origin, value);
    return tt_isa_limit((tt_isa)level);
}

// Limits the instruction set before a command computes anything: by TUTTI_ISA and by
// the setting `isa`, which every command takes. The lower one counts. Ranks that are
// forked later inherit it.
static tt_status set_isa(tt_settings *settings)
{
    const char *given = getenv("TUTTI_ISA");
    tt_setting *s = tt_settings_find(settings, "isa");
    if (given != NULL && given[0] != '\0')
        TT_TRY(limit_isa("TUTTI_ISA", given));
    if (s == NULL)
        return TT_OK;
    s->used = true;
    const tt_status status = limit_isa("isa", s->value);
    return status == TT_OK ? status : tt_fail_context(status, "%s", s->origin);
}

// Whoever asked for JSON gets an object from every command, also when it failed.
static void print_error(bool is_json)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    fputs("tutti: ", stderr);
    tt_term_print_foreign(stderr, tt_error_message());
    fputs("\n", stderr);
    if (!is_json)
        return;
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", false);
    tt_json_str(&json, "error", tt_error_message());
    tt_json_i64(&json, "exit_status", TT_EXIT_ERROR);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    (void)tt_cli_print(&text);
}

static tt_status run(const tt_command_def *command, const char *const *word,
                     int n, int *exit_out)
{
    tt_cli cli = {.arena = tt_arena_create(), .given = word, .n_given = n};
    if (cli.arena == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory");
    tt_status status = tt__cli_read(command, &cli, word, n);
    cli.settings.cache = cache_folder(cli.arena);
    if (status == TT_OK)
        status = set_isa(&cli.settings);
    if (status == TT_OK && (command->has_ranks || !tt_cli_is_spare()))
        status = command->run(&cli, exit_out);
    tt_arena_destroy(cli.arena);
    return status;
}

static bool has_word(const char *const *word, int n, const char *wanted)
{
    for (int i = 0; i < n; i++)
        if (strcmp(word[i], wanted) == 0)
            return true;
    return false;
}

// Runs the command that the first word names, with the other words. Results that could
// not be written (a full disk) are a failure too.
static int dispatch(const char *const *word, int n)
{
    const tt_command_def *command = find(word[0]);
    int exit_status = TT_EXIT_OK;
    tt_status status = TT_OK;
    if (command == NULL)
        status = tt_usage_unknown(word[0]);
    else if (has_word(word + 1, n - 1, "--help") ||
             has_word(word + 1, n - 1, "-h"))
        tt_usage_print_command(command);
    else
        status = run(command, word + 1, n - 1, &exit_status);
    if (status != TT_OK) {
        print_error(has_word(word, n, "--json"));
        exit_status = TT_EXIT_ERROR;
    }
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "tutti: cannot write the results: is the disk full?\n");
        exit_status = TT_EXIT_ERROR;
    }
    return exit_status;
}

// OpenMP's threads spin for milliseconds when they wait for each other. That starves
// other programs on the machine, and the threads themselves. libgomp reads the spin
// count from the environment before main, so the program sets it and executes itself
// once more.
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
    // A limit on file sizes then makes a write fail, as a full disk does. The signal
    // would kill the program.
    (void)signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        tt_usage_print(stderr);
        return TT_EXIT_ERROR;
    }
    return dispatch((const char *const *)argv + 1, argc - 1);
}
