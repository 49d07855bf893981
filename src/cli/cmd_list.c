// list - every def with its options. The text comes from the tables, so it cannot be
// out of date.

#include "backend/backend.h"
#include "base/glob.h"
#include "base/json.h"
#include "check/law.h"
#include "cli/command.h"
#include "cli/systems/systems.h"
#include "codec/codec.h"
#include "comm/coll/coll.h"
#include "comm/transport/transport.h"
#include "config/keys.h"
#include "data/source/source.h"
#include "job/job.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ops/optim/optim.h"
#include "pass/pass.h"
#include "pipe/pipe.h"
#include "policy/policy.h"

#include <stdio.h>
#include <string.h>

// Prints members as text or as JSON.
typedef struct printer {
    bool is_json;
    const char *pattern; // of names; NULL: all of them
    int64_t n;           // printed
    tt_json json;
    tt_str text;
} printer;

// A pattern with * or ? must match the whole name; a plain word may be any part of it.
static bool is_wanted(const printer *p, const char *name)
{
    if (p->pattern == NULL)
        return true;
    return strpbrk(p->pattern, "*?[") != NULL
               ? tt_glob_match(p->pattern, name)
               : strcasestr(name, p->pattern) != NULL;
}

static const char *type_name(tt_opt_type type)
{
    static const char *const names[] = {
        [TT_OPT_I64] = "integer",  [TT_OPT_F64] = "number",
        [TT_OPT_BOOL] = "boolean", [TT_OPT_CHOICE] = "choice",
        [TT_OPT_STR] = "text",     [TT_OPT_I64S] = "integers",
        [TT_OPT_F64S] = "numbers",
    };
    return names[type];
}

// What a table says about an option, into an open object.
static void add_option(printer *p, const tt_opt *o)
{
    tt_json_str(&p->json, "default", o->fallback != NULL ? o->fallback : "");
    tt_json_str(&p->json, "doc", o->doc != NULL ? o->doc : "");
    tt_json_str(&p->json, "type", type_name(o->type));
    if (o->type == TT_OPT_CHOICE)
        tt_json_str(&p->json, "choices", o->choices);
    if (o->min != 0 || o->max != 0)
        tt_json_f64(&p->json, "min", o->min);
    if ((o->min != 0 || o->max != 0) && o->max >= o->min)
        tt_json_f64(&p->json, "max", o->max);
}

static void print_options(printer *p, const tt_opt *table)
{
    if (p->is_json)
        tt_json_open(&p->json, "options", '[');
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++) {
        const char *fallback = o->fallback ? o->fallback : "";
        if (p->is_json) {
            tt_json_open(&p->json, NULL, '{');
            tt_json_str(&p->json, "name", o->name);
            add_option(p, o);
            tt_json_close(&p->json, '}');
        } else {
            printf("    %-14s %-10s %s%s%s\n", o->name, fallback,
                   o->doc ? o->doc : "", o->type == TT_OPT_CHOICE ? ": " : "",
                   o->type == TT_OPT_CHOICE ? o->choices : "");
        }
    }
    if (p->is_json)
        tt_json_close(&p->json, ']');
}

static void open_member(printer *p, const char *name, const char *doc)
{
    p->n++;
    if (p->is_json) {
        tt_json_open(&p->json, NULL, '{');
        tt_json_str(&p->json, "name", name);
        tt_json_str(&p->json, "doc", doc);
    } else {
        printf("%-20s %s\n", name, doc);
    }
}

static void close_member(printer *p)
{
    if (p->is_json)
        tt_json_close(&p->json, '}');
}

static void member(printer *p, const char *name, const char *doc,
                   const tt_opt *options)
{
    if (!is_wanted(p, name))
        return;
    open_member(p, name, doc);
    print_options(p, options);
    close_member(p);
}

static bool has_preset(const printer *p, const tt_model_def *model)
{
    for (const tt_model_preset *s = model->presets; s && s->name; s++)
        if (is_wanted(p, s->name))
            return true;
    return false;
}

static tt_status list_models(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_model_def *const *all = tt_model_all(&n);
    for (int i = 0; i < n; i++) {
        if (!is_wanted(p, all[i]->name) && !has_preset(p, all[i]))
            continue;
        open_member(p, all[i]->name, all[i]->doc);
        print_options(p, all[i]->options);
        if (p->is_json)
            tt_json_open(&p->json, "presets", '[');
        for (const tt_model_preset *s = all[i]->presets; s && s->name; s++) {
            if (p->is_json)
                tt_json_str(&p->json, NULL, s->name);
            else
                printf("  = %-16s %s\n", s->name, s->options);
        }
        if (p->is_json)
            tt_json_close(&p->json, ']');
        close_member(p);
    }
    return TT_OK;
}

static tt_status list_ops(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_op_def *const *all = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static tt_status list_optimisers(printer *p, tt_arena *arena)
{
    int n = 0;
    const tt_optim_def *all = tt_optim_all(&n);
    for (int i = 0; i < n; i++) {
        const tt_opt *table = NULL;
        TT_TRY(tt_job_optim_table(&all[i], arena, &table));
        member(p, all[i].name, all[i].doc, table);
    }
    return TT_OK;
}

static tt_status list_passes(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_pass_def *const *all = tt_pass_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static tt_status list_schedules(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static tt_status list_backends(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_backend_def *const *all = tt_backend_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    return TT_OK;
}

static tt_status list_laws(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_law_def *const *all = tt_law_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    return TT_OK;
}

static tt_status list_collectives(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_coll_def *const *all = tt_coll_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    return TT_OK;
}

static tt_status list_codecs(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_codec_def *const *all = tt_codec_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static tt_status list_policies(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_policy_def *const *all = tt_policy_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static tt_status list_transports(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_comm_def *const *all = tt_comm_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    const tt_backend_def *const *backend = tt_backend_all(&n);
    for (int i = 0; i < n; i++)
        if (backend[i]->device_comm != NULL)
            member(p, backend[i]->device_comm->name,
                   backend[i]->device_comm->doc, NULL);
    return TT_OK;
}

static tt_status list_commands(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_command_def *const *all = tt_command_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    return TT_OK;
}

static tt_status list_sources(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_source_def *const *all = tt_source_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, all[i]->options);
    return TT_OK;
}

static void print_setting(printer *p, const tt_keys_row *row)
{
    const tt_opt *o = row->opt;
    const bool is_choice = o->type == TT_OPT_CHOICE;
    const bool is_empty = o->fallback == NULL || o->fallback[0] == '\0';
    const bool is_some = row->of[0] != '\0';
    p->n++;
    if (p->is_json) {
        tt_json_open(&p->json, NULL, '{');
        tt_json_str(&p->json, "name", row->key);
        add_option(p, o);
        if (is_some)
            tt_json_str(&p->json, "of", row->of);
        tt_json_close(&p->json, '}');
        return;
    }
    printf("%-22s %-9s %s%s%s%s%s%s\n", row->key, is_empty ? "-" : o->fallback,
           o->doc, is_choice ? ": " : "", is_choice ? o->choices : "",
           is_some ? " (" : "", row->of, is_some ? ")" : "");
}

// Settings of all models, optimisers and sources. A word that is in no name is looked
// for in the descriptions.
static tt_status list_settings(printer *p, tt_arena *arena)
{
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    TT_TRY(tt_keys_all(arena, &row, &n));
    for (int64_t i = 0; i < n; i++)
        if (is_wanted(p, row[i].key))
            print_setting(p, &row[i]);
    for (int64_t i = 0, found = p->n; i < n && found == 0; i++)
        if (is_wanted(p, row[i].opt->doc))
            print_setting(p, &row[i]);
    return TT_OK;
}

static const struct {
    const char *name;
    tt_status (*run)(printer *p, tt_arena *arena);
} kinds[] = {
    {"models", list_models},
    {"ops", list_ops},
    {"optimisers", list_optimisers},
    {"settings", list_settings},
    {"sources", list_sources},
    {"passes", list_passes},
    {"backends", list_backends},
    {"laws", list_laws},
    {"collectives", list_collectives},
    {"transports", list_transports},
    {"policies", list_policies},
    {"codecs", list_codecs},
    {"schedules", list_schedules},
    {"commands", list_commands},
    {"systems", NULL}, // tt_cli_systems_list
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static tt_status unknown_kind(const char *name)
{
    tt_near near = {.word = name};
    for (int i = 0; i < N_KINDS; i++)
        tt_near_try(&near, kinds[i].name);
    return tt_near_unknown(&near, "kind", "`tutti list` names the kinds");
}

static tt_status list_kinds(printer *p)
{
    tt_json_open(&p->json, NULL, '[');
    for (int i = 0; i < N_KINDS; i++)
        if (p->is_json)
            tt_json_str(&p->json, NULL, kinds[i].name);
        else
            printf("tutti list %s\n", kinds[i].name);
    tt_json_close(&p->json, ']');
    const tt_status status = tt_str_status(&p->text);
    if (status == TT_OK && p->is_json)
        puts(tt_str_text(&p->text));
    tt_str_fini(&p->text);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    printer p = {.is_json = tt_cli_has(cli, "--json")};
    p.json.out = &p.text;
    (void)exit_out;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    if (cli->n_words == 0)
        return list_kinds(&p);
    p.pattern = cli->n_words > 1 ? cli->word[1] : NULL;
    int k = 0;
    while (k < N_KINDS && strcmp(kinds[k].name, cli->word[0]) != 0)
        k++;
    if (k == N_KINDS)
        return unknown_kind(cli->word[0]);
    if (kinds[k].run == NULL)
        return tt_cli_systems_list(cli);
    if (tt_cli_has(cli, "--where"))
        return tt_fail(TT_ERR_ARG, "--where is for `tutti list systems`; a "
                                   "pattern chooses among other kinds");
    tt_json_open(&p.json, NULL, '[');
    tt_status status = kinds[k].run(&p, cli->arena);
    tt_json_close(&p.json, ']');
    if (status == TT_OK)
        status = tt_str_status(&p.text);
    if (status == TT_OK && p.n == 0 && p.pattern != NULL)
        status = tt_fail(TT_ERR_ARG,
                         "no name matches \"%s\"; `tutti list %s` has all",
                         p.pattern, kinds[k].name);
    if (status == TT_OK && p.is_json)
        puts(tt_str_text(&p.text));
    tt_str_fini(&p.text);
    return status;
}

static const tt_flag flags[] = {
    {"--where", "systems: those whose field has the word, as codec=topk",
     "FIELD=WORD"},
    {"--json", "one JSON array"},
    {0},
};

const tt_command_def tt_command_list = {
    .name = "list",
    .doc = "Everything there is, with its options.",
    .usage = "[models|ops|optimisers|settings|sources|passes|backends|laws|"
             "collectives|transports|policies|codecs|schedules|systems|"
             "commands] [PATTERN] [--where FIELD=WORD] [--json]",
    .detail = "With PATTERN, those whose name has it: a part of the name, or a "
              "pattern with * and ?.\n`tutti list settings` has every setting "
              "of every model, optimiser and source, `tutti list\nsettings "
              "'optim.*'` those of optimisers, `tutti list settings lr` those "
              "with lr in their name.",
    .flags = flags,
    .max_words = 2,
    .takes_paths = true,
    .run = run,
};
