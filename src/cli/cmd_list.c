// list - every def with its options; the text comes from the tables.

#include "backend/backend.h"
#include "base/json.h"
#include "check/law.h"
#include "cli/command.h"
#include "comm/coll/coll.h"
#include "comm/transport/transport.h"
#include "data/source.h"
#include "model/model.h"
#include "ops/ops.h"
#include "ops/optim.h"
#include "pass/pass.h"
#include "train/job.h"
#include "train/known.h"

#include <stdio.h>
#include <string.h>

// One member, printed as text or as JSON.
typedef struct printer {
    bool is_json;
    tt_json json;
    tt_str text;
} printer;

static void print_options(printer *p, const tt_opt *table)
{
    if (p->is_json)
        tt_json_open(&p->json, "options", '[');
    for (const tt_opt *o = table; o != NULL && o->name != NULL; o++) {
        const char *fallback = o->fallback ? o->fallback : "";
        if (p->is_json) {
            tt_json_open(&p->json, NULL, '{');
            tt_json_str(&p->json, "name", o->name);
            tt_json_str(&p->json, "default", fallback);
            tt_json_str(&p->json, "doc", o->doc ? o->doc : "");
            if (o->type == TT_OPT_CHOICE)
                tt_json_str(&p->json, "choices", o->choices);
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
    open_member(p, name, doc);
    print_options(p, options);
    close_member(p);
}

static tt_status list_models(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_model_def *const *all = tt_model_all(&n);
    for (int i = 0; i < n; i++) {
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

static tt_status list_transports(printer *p, tt_arena *arena)
{
    int n = 0;
    (void)arena;
    const tt_comm_def *const *all = tt_comm_all(&n);
    for (int i = 0; i < n; i++)
        member(p, all[i]->name, all[i]->doc, NULL);
    const tt_backend_def *const *backend = tt_backend_all(&n);
    for (int i = 0; i < n; i++)
        if (backend[i]->links != NULL)
            member(p, backend[i]->links->name, backend[i]->links->doc, NULL);
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

typedef struct settings_printer {
    printer *printer;
    tt_arena *arena;
} settings_printer;

static void print_setting(printer *p, const tt_opt *o)
{
    const tt_opt one[2] = {*o, {0}};
    const bool is_choice = o->type == TT_OPT_CHOICE;
    const bool is_empty = o->fallback == NULL || o->fallback[0] == '\0';
    if (p->is_json)
        member(p, o->name, o->doc, one);
    else
        printf("%-22s %-9s %s%s%s\n", o->name, is_empty ? "-" : o->fallback,
               o->doc, is_choice ? ": " : "", is_choice ? o->choices : "");
}

// Those of models and optimisers are listed with them.
static tt_status print_section(void *user, const char *prefix,
                               const tt_opt *table)
{
    const settings_printer *s = user;
    if (strcmp(prefix, "model") == 0 || strcmp(prefix, "optim") == 0)
        return TT_OK;
    for (const tt_opt *o = table; o->name != NULL; o++) {
        tt_opt full = *o;
        full.name = tt_arena_printf(s->arena, "%s%s%s", prefix,
                                    prefix[0] != '\0' ? "." : "", o->name);
        if (full.name == NULL)
            return TT_ERR_NOMEM;
        print_setting(s->printer, &full);
    }
    return TT_OK;
}

static tt_status list_settings(printer *p, tt_arena *arena)
{
    const tt_settings none = {0};
    settings_printer s = {p, arena};
    return tt_known_each(&none, arena, print_section, &s);
}

static const struct {
    const char *name;
    tt_status (*run)(printer *p, tt_arena *arena);
} kinds[] = {
    {"models", list_models},           {"ops", list_ops},
    {"optimisers", list_optimisers},   {"settings", list_settings},
    {"sources", list_sources},         {"passes", list_passes},
    {"backends", list_backends},       {"laws", list_laws},
    {"collectives", list_collectives}, {"transports", list_transports},
    {"commands", list_commands},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static tt_status unknown_kind(const char *name)
{
    const char *names[N_KINDS];
    for (int i = 0; i < N_KINDS; i++)
        names[i] = kinds[i].name;
    const char *near = tt_nearest(name, names, N_KINDS);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG, "unknown kind \"%s\"; did you mean %s?",
                       name, near);
    return tt_fail(TT_ERR_ARG,
                   "unknown kind \"%s\"; `tutti list` names the kinds", name);
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    printer p = {.is_json = tt_cli_has(cli, "--json")};
    p.json.out = &p.text;
    (void)exit_out;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    if (cli->n_words == 0) {
        for (int i = 0; i < N_KINDS; i++)
            printf("tutti list %s\n", kinds[i].name);
        return TT_OK;
    }
    int k = 0;
    while (k < N_KINDS && strcmp(kinds[k].name, cli->word[0]) != 0)
        k++;
    if (k == N_KINDS)
        return unknown_kind(cli->word[0]);
    tt_json_open(&p.json, NULL, '[');
    tt_status status = kinds[k].run(&p, cli->arena);
    tt_json_close(&p.json, ']');
    if (status == TT_OK)
        status = tt_str_status(&p.text);
    if (status == TT_OK && p.is_json)
        puts(tt_str_text(&p.text));
    tt_str_fini(&p.text);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "one JSON array"},
    {0},
};

const tt_command_def tt_command_list = {
    .name = "list",
    .doc = "Everything there is, with its options.",
    .usage = "[models|ops|optimisers|settings|sources|passes|backends|laws|"
             "collectives|transports|commands]",
    .flags = flags,
    .max_words = 1,
    .run = run,
};
