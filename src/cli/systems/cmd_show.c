// show - one system: what it is, where it stands, what it sets, what it lacks.

#include "base/json.h"
#include "cli/launch/ranks.h"
#include "cli/systems/systems.h"
#include "cli/table.h"

#include <string.h>
#include <unistd.h>

static void add_line(const char *name, const char *value, int width,
                     tt_str *out)
{
    const int used = 17;
    tt_str_addf(out, "  %-14s ", name);
    tt_add_wrapped(out, value,
                   &(tt_wrapping){.width = width,
                                  .used = used,
                                  .indent = "                 "});
    tt_str_add(out, "\n");
}

// `word`: its name or file.
static void print_text(const tt_system *s, const char *word,
                       const tt_settings *set, int64_t n, tt_str *out)
{
    tt_term term;
    tt_str source = {0};
    tt_term_init(&term, STDOUT_FILENO);
    const int width = term.is_live ? tt_term_width(&term) : 0;
    tt_str_addf(out, "%s: %s\n", s->name, s->about);
    tt_str_addf(&source, "%s, %lld", s->source, (long long)s->year);
    add_line("source", tt_str_text(&source), width, out);
    tt_str_inherit(out, &source);
    tt_str_fini(&source);
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        add_line(tt_system_fields[i], tt_system_field(s, tt_system_fields[i]),
                 width, out);
    add_line("lacks", s->lacks, width, out);
    add_line("exact", s->exact ? "yes: `tutti verify` proves it" : "no", width,
             out);
    if (s->needs[0] != '\0')
        add_line("needs", s->needs, width, out);
    tt_str_addf(out, "\nsettings%s\n", n > 0 ? "" : ", n being the ranks");
    if (set->n == 0)
        tt_str_add(out, "  none: it is what happens by default\n");
    for (int64_t i = 0; i < set->n; i++)
        tt_str_addf(out, "  %s=%s\n", set->v[i].key, set->v[i].value);
    tt_str_addf(out, "\ntry  tutti train examples/%s.yaml system=%s -n %lld\n",
                s->network, word, (long long)(n > 0 ? n : 4));
}

static tt_status print_json(const tt_system *s, const tt_settings *set,
                            tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "name", s->name);
    tt_json_str(&json, "doc", s->about);
    tt_json_str(&json, "source", s->source);
    tt_json_i64(&json, "year", s->year);
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        tt_json_str(&json, tt_system_fields[i],
                    tt_system_field(s, tt_system_fields[i]));
    tt_json_str(&json, "lacks", s->lacks);
    tt_json_str(&json, "network", s->network);
    tt_json_str(&json, "needs", s->needs);
    tt_json_bool(&json, "exact", s->exact);
    tt_json_open(&json, "settings", '{');
    for (int64_t i = 0; i < set->n; i++)
        tt_json_str(&json, set->v[i].key, set->v[i].value);
    tt_json_close(&json, '}');
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
    return tt_str_status(out);
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    tt_system system;
    tt_settings set = {0};
    tt_str text = {0};
    int64_t n = 0;
    (void)exit_out;
    // A file of one's own was read as settings, too.
    const char *name = cli->n_words > 1 ? cli->word[1] : cli->file;
    if (cli->n_words > 1 || cli->file == NULL)
        TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    TT_TRY(tt_cli_ranks_flag(cli, TT_CLI_MOST_PLANNED, &n));
    if (name == NULL || cli->n_words < 1 || strcmp(cli->word[0], "system") != 0)
        return tt_fail(TT_ERR_ARG, "show what? `tutti show system ddp` shows "
                                   "one of those that `tutti list systems` "
                                   "has");
    TT_TRY(tt_system_read(name, cli->arena, &system));
    set = system.settings;
    if (n > 0) {
        set = (tt_settings){0};
        TT_TRY(
            tt_system_settings(&system, n, &cli->settings, cli->arena, &set));
    }
    if (tt_cli_has(cli, "--json"))
        TT_TRY(print_json(&system, &set, &text));
    else
        print_text(&system, name, &set, n, &text);
    return tt_cli_print(&text);
}

static const tt_flag flags[] = {
    {"-n", "its settings on so many ranks", "N"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_show = {
    .name = "show",
    .doc = "One of the surveyed systems: what it is and what it sets.",
    .usage = "system NAME|FILE.yaml [-n N] [--json]",
    .detail = "`tutti list systems` has them all. `tutti train FILE.yaml "
              "system=NAME -n N` trains as\nthat system does.",
    .flags = flags,
    .max_words = 2,
    .takes_paths = true,
    .run = run,
};
