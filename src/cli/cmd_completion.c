// completion - scripts that complete the command line in bash, zsh and fish. They are
// made from the tables of commands and settings, so they know what this build knows.

#include "backend/backend.h"
#include "cli/command.h"
#include "config/keys.h"
#include "data/source/source.h"
#include "model/model.h"
#include "ops/optim/optim.h"
#include "system/system.h"

#include <stdio.h>
#include <string.h>

typedef struct words {
    tt_str *out;
    const tt_keys_row *row;
    int64_t n;
} words;

static const char *const kinds[] = {
    "models",   "ops",      "optimisers", "settings",    "sources",
    "passes",   "backends", "laws",       "collectives", "transports",
    "commands", "policies", "codecs",     "schedules",   "systems"};

// Words that a command takes first, besides paths.
static const struct {
    const char *command, *words;
} first[] = {
    {"runs", "list show compare best"},
    {"data", "train-bpe tokenize pack inspect"},
    {"bench", "step op gemm allreduce"},
    {"completion", "bash zsh fish"},
    {"show", "system"},
};

static void add_commands(tt_str *out)
{
    int n = 0;
    const tt_command_def *const *all = tt_command_all(&n);
    for (int i = 0; i < n; i++)
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", all[i]->name);
}

static void add_keys(const words *w)
{
    for (int64_t i = 0; i < w->n; i++) {
        bool is_new = true;
        for (int64_t k = 0; k < i && is_new; k++)
            is_new = strcmp(w->row[k].key, w->row[i].key) != 0;
        if (is_new)
            tt_str_addf(w->out, "%s%s=", i > 0 ? " " : "", w->row[i].key);
    }
}

static void add_spaced(const char *choices, tt_str *out)
{
    for (const char *p = choices; *p != '\0'; p++)
        tt_str_addf(out, "%c", *p == '|' ? ' ' : *p);
}

static void add_models(tt_str *out)
{
    int n = 0;
    const tt_model_def *const *all = tt_model_all(&n);
    for (int i = 0; i < n; i++) {
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", all[i]->name);
        for (const tt_model_preset *p = all[i]->presets; p && p->name; p++)
            tt_str_addf(out, " %s", p->name);
    }
}

static void add_optimisers(tt_str *out)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int i = 0; i < n; i++)
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", all[i].name);
}

static void add_sources(tt_str *out)
{
    int n = 0;
    const tt_source_def *const *all = tt_source_all(&n);
    for (int i = 0; i < n; i++)
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", all[i]->name);
}

static void add_devices(tt_str *out)
{
    int n = 0;
    const tt_backend_def *const *all = tt_backend_all(&n);
    for (int i = 0; i < n; i++)
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", all[i]->name);
}

static void add_systems(tt_str *out)
{
    for (int i = 0; i < tt_system_count; i++)
        tt_str_addf(out, "%s%s", i > 0 ? " " : "", tt_system_files[i].name);
}

// What may follow "key=": members of a registry, choices, true and false; "":
// anything.
static void add_values(const tt_opt *opt, tt_str *out)
{
    if (strcmp(opt->name, "model") == 0)
        add_models(out);
    else if (strcmp(opt->name, "optim") == 0)
        add_optimisers(out);
    else if (strcmp(opt->name, "data") == 0)
        add_sources(out);
    else if (strcmp(opt->name, "device") == 0)
        add_devices(out);
    else if (strcmp(opt->name, "system") == 0)
        add_systems(out);
    else if (opt->type == TT_OPT_CHOICE)
        add_spaced(opt->choices, out);
    else if (opt->type == TT_OPT_BOOL)
        tt_str_add(out, "true false");
}

static void add_first(const char *command, tt_str *out)
{
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        if (strcmp(first[i].command, command) == 0)
            tt_str_add(out, first[i].words);
    if (strcmp(command, "list") == 0)
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
            tt_str_addf(out, "%s%s", i > 0 ? " " : "", kinds[i]);
    if (strcmp(command, "help") == 0)
        add_commands(out);
    if (strcmp(command, "show") == 0 || strcmp(command, "compare") == 0) {
        tt_str_add(out, " ");
        add_systems(out);
    }
}

// Shell functions, the same for bash and zsh: _tutti_words prints what may follow a
// command, _tutti_values what may follow "key=".
static void add_tables(const words *w)
{
    int n = 0;
    const tt_command_def *const *all = tt_command_all(&n);
    tt_str_add(w->out, "_tutti_commands='");
    add_commands(w->out);
    tt_str_add(w->out, "'\n_tutti_keys='");
    add_keys(w);
    tt_str_add(w->out,
               "'\n\n# _tutti_words COMMAND\n_tutti_words() {\n    case "
               "$1 in\n");
    for (int i = 0; i < n; i++) {
        tt_str_addf(w->out, "    %s) echo '", all[i]->name);
        add_first(all[i]->name, w->out);
        for (const tt_flag *f = all[i]->flags; f && f->name; f++)
            tt_str_addf(w->out, " %s", f->name);
        tt_str_add(w->out, " --help' ;;\n");
    }
    tt_str_add(w->out, "    esac\n}\n\n# _tutti_values KEY\n_tutti_values() {\n"
                       "    case $1 in\n");
    for (int64_t i = 0; i < w->n; i++) {
        tt_str values = {0};
        add_values(w->row[i].opt, &values);
        if (values.n > 0)
            tt_str_addf(w->out, "    %s) echo '%s' ;;\n", w->row[i].key,
                        tt_str_text(&values));
        tt_str_fini(&values);
    }
    tt_str_add(w->out, "    esac\n}\n");
}

// bash ends a word at "=", so key, "=" and value may be three words.
static const char bash_tail[] =
    "\n_tutti() {\n"
    "    local word=${COMP_WORDS[COMP_CWORD]} "
    "before=${COMP_WORDS[COMP_CWORD-1]}\n"
    "    COMPREPLY=()\n"
    "    if [ \"$COMP_CWORD\" -eq 1 ]; then\n"
    "        COMPREPLY=($(compgen -W \"$_tutti_commands\" -- \"$word\"))\n"
    "        return\n"
    "    fi\n"
    "    local key=\n"
    "    if [ \"$word\" = = ]; then\n"
    "        key=$before word=\n"
    "    elif [ \"$before\" = = ] && [ \"$COMP_CWORD\" -gt 2 ]; then\n"
    "        key=${COMP_WORDS[COMP_CWORD-2]}\n"
    "    fi\n"
    "    if [ -n \"$key\" ]; then\n"
    "        COMPREPLY=($(compgen -W \"$(_tutti_values \"$key\")\" -- "
    "\"$word\"))\n"
    "        [ ${#COMPREPLY[@]} -gt 0 ] || COMPREPLY=($(compgen -f -- "
    "\"$word\"))\n"
    "        return\n"
    "    fi\n"
    "    COMPREPLY=($(compgen -W \"$(_tutti_words \"${COMP_WORDS[1]}\")\" -- "
    "\"$word\"))\n"
    "    [[ $word == -* ]] || COMPREPLY+=($(compgen -W \"$_tutti_keys\" -- "
    "\"$word\") $(compgen -f -- \"$word\"))\n"
    "    [ ${#COMPREPLY[@]} -ne 1 ] || [[ ${COMPREPLY[0]} != *= ]] || "
    "compopt -o nospace 2>/dev/null\n"
    "}\n"
    "complete -o filenames -F _tutti tutti\n";

static const char zsh_tail[] =
    "\n_tutti() {\n"
    "    local word=${words[CURRENT]}\n"
    "    if (( CURRENT == 2 )); then\n"
    "        compadd -- ${(s: :)_tutti_commands}\n"
    "    elif [[ $word == *=* ]]; then\n"
    "        local key=${word%%=*}\n"
    "        compset -P '*='\n"
    "        local -a values=(${(s: :)$(_tutti_values $key)})\n"
    "        if (( ${#values} )); then compadd -- $values; else _files; fi\n"
    "    else\n"
    "        compadd -- ${(s: :)$(_tutti_words ${words[2]})}\n"
    "        [[ $word == -* ]] || { compadd -S '' -- ${(s: :)_tutti_keys}; "
    "_files }\n"
    "    fi\n"
    "}\n"
    "if [ \"$funcstack[1]\" = _tutti ]; then _tutti \"$@\"; else compdef "
    "_tutti "
    "tutti; fi\n";

static void add_bash(const words *w)
{
    tt_str_add(w->out,
               "# Completion of tutti in bash, made by `tutti completion "
               "bash`.\n");
    add_tables(w);
    tt_str_add(w->out, bash_tail);
}

static void add_zsh(const words *w)
{
    tt_str_add(w->out, "#compdef tutti\n# Made by `tutti completion zsh`.\n");
    add_tables(w);
    tt_str_add(w->out, zsh_tail);
}

// In single quotes, with quotes and backslashes escaped.
static void add_quoted(const char *text, tt_str *out)
{
    tt_str_add(out, "'");
    for (const char *p = text; *p != '\0'; p++)
        tt_str_addf(out, "%s%c", *p == '\'' || *p == '\\' ? "\\" : "", *p);
    tt_str_add(out, "'");
}

static void add_fish_command(const tt_command_def *c, tt_str *out)
{
    tt_str_addf(out, "complete -c tutti -n __fish_use_subcommand -a %s -d ",
                c->name);
    add_quoted(c->doc, out);
    tt_str_add(out, "\n");
    for (const tt_flag *f = c->flags; f && f->name; f++) {
        tt_str_addf(out,
                    "complete -c tutti -n '__fish_seen_subcommand_from %s' "
                    "-%s %s %s-d ",
                    c->name, f->name[1] == '-' ? "l" : "s",
                    f->name + (f->name[1] == '-' ? 2 : 1),
                    f->value != NULL ? "-x " : "");
        add_quoted(f->doc, out);
        tt_str_add(out, "\n");
    }
    tt_str own = {0};
    add_first(c->name, &own);
    if (own.n > 0)
        tt_str_addf(out,
                    "complete -c tutti -n '__fish_seen_subcommand_from %s' -a "
                    "'%s'\n",
                    c->name, tt_str_text(&own));
    tt_str_fini(&own);
}

static void add_fish(const words *w)
{
    int n = 0;
    const tt_command_def *const *all = tt_command_all(&n);
    tt_str_add(w->out,
               "# Completion of tutti in fish, made by `tutti completion "
               "fish`.\n");
    for (int i = 0; i < n; i++)
        add_fish_command(all[i], w->out);
    for (int64_t i = 0; i < w->n; i++) {
        tt_str values = {0};
        add_values(w->row[i].opt, &values);
        tt_str_addf(w->out,
                    "complete -c tutti -n 'not __fish_use_subcommand' -a '%s=",
                    w->row[i].key);
        for (const char *p = tt_str_text(&values); *p != '\0'; p++)
            if (*p == ' ')
                tt_str_addf(w->out, " %s=", w->row[i].key);
            else
                tt_str_addf(w->out, "%c", *p);
        tt_str_add(w->out, "' -d ");
        add_quoted(w->row[i].opt->doc, w->out);
        tt_str_add(w->out, "\n");
        tt_str_fini(&values);
    }
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    static const struct {
        const char *name;
        void (*add)(const words *w);
    } shells[] = {{"bash", add_bash}, {"zsh", add_zsh}, {"fish", add_fish}};
    tt_str text = {0};
    words w = {.out = &text};
    (void)exit_out;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    TT_TRY(tt_keys_all(cli->arena, &w.row, &w.n));
    for (int i = 0; i < 3 && cli->n_words == 1; i++)
        if (strcmp(shells[i].name, cli->word[0]) == 0)
            shells[i].add(&w);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK && text.n == 0)
        status = tt_fail(TT_ERR_ARG, "which shell? bash, zsh or fish: `tutti "
                                     "completion bash`");
    if (status == TT_OK)
        fputs(tt_str_text(&text), stdout);
    tt_str_fini(&text);
    return status;
}

const tt_command_def tt_command_completion = {
    .name = "completion",
    .doc = "A script that completes commands and settings in a shell.",
    .usage = "bash|zsh|fish",
    .detail = "`source <(tutti completion bash)` tries it; `make install` puts "
              "it where the shells look.",
    .max_words = 1,
    .run = run,
};
