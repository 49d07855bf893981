// doctor - can this machine train, and what would make it better? A finding that is
// wrong comes with the command that mends it.

#include "base/alloc.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/doctor/doctor.h"
#include "cli/table.h"
#include "tutti/tutti.h"

#include <stdio.h>
#include <unistd.h>

tt_finding *tt__doctor_add(tt_doctor *d, const char *name)
{
    if (d->n < TT_FINDINGS_MAX)
        d->n++;
    tt_finding *f = &d->finding[d->n - 1];
    f->name = name;
    return f;
}

static void print_json(const tt_doctor *d, bool is_well, tt_str *out)
{
    static const char *const level[] = {"ok", "note", "missing"};
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "version", TUTTI_VERSION);
    tt_json_bool(&json, "ok", is_well);
    tt_json_open(&json, "checks", '[');
    for (int i = 0; i < d->n; i++) {
        tt_json_open(&json, NULL, '{');
        tt_json_str(&json, "name", d->finding[i].name);
        tt_json_str(&json, "status", level[d->finding[i].level]);
        tt_json_str(&json, "value", tt_str_text(&d->finding[i].value));
        tt_json_str(&json, "fix", tt_str_text(&d->finding[i].fix));
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

static void print_finding(const tt_finding *f, const tt_term *term, int width,
                          tt_str *out)
{
    static const char *const sign[] = {"ok", "note", "MISSING"};
    static const tt_style style[] = {TT_STYLE_GOOD, TT_STYLE_DIM,
                                     TT_STYLE_WARNING};
    char text[16];
    snprintf(text, sizeof text, "%-7s", sign[f->level]);
    tt_term_add(term, style[f->level], text, out);
    tt_table_row(term, f->name, tt_str_text(&f->value), width, out);
    if (f->fix.n > 0) {
        tt_str_add(out, "       ");
        tt_table_row(term, "", tt_str_text(&f->fix), width, out);
    }
}

static void print_text(const tt_doctor *d, bool is_well, tt_str *out)
{
    enum { SIGN_COLUMNS = 7 };
    tt_term term;
    tt_term_init(&term, STDOUT_FILENO);
    const int width = term.is_live ? tt_term_width(&term) - SIGN_COLUMNS : 0;
    for (int i = 0; i < d->n; i++)
        print_finding(&d->finding[i], &term, width, out);
    tt_str_add(out, is_well ? "\nTutti " TUTTI_VERSION
                              " can train here. `tutti check` looks closer.\n"
                            : "\nSomething that is needed is missing.\n");
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    tt_str text = {0};
    bool is_well = true;
    TT_TRY(tt_settings_check_unused(&cli->settings, NULL, 0));
    tt_doctor *d = tt_alloc((int64_t)sizeof *d);
    if (d == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory");
    tt__doctor_machine(d);
    tt__doctor_training(d);
    tt__doctor_software(d);
    for (int i = 0; i < d->n; i++)
        is_well = is_well && d->finding[i].level != TT_FINDING_MISSING;
    if (tt_cli_has(cli, "--json"))
        print_json(d, is_well, &text);
    else
        print_text(d, is_well, &text);
    fputs(tt_str_text(&text), stdout);
    *exit_out = is_well ? TT_EXIT_OK : TT_EXIT_NO;
    for (int i = 0; i < d->n; i++) {
        tt_str_fini(&d->finding[i].value);
        tt_str_fini(&d->finding[i].fix);
    }
    tt_free(d);
    const tt_status status = tt_str_status(&text);
    tt_str_fini(&text);
    return status;
}

static const tt_flag flags[] = {
    {"--json", "findings as JSON"},
    {0},
};

const tt_command_def tt_command_doctor = {
    .name = "doctor",
    .doc = "Look at the machine: can it train, and what would help?",
    .usage = "[--json]",
    .detail =
        "Processor, memory, disk, limits, libraries, and what else is "
        "installed; what is\nmissing comes with the command that installs "
        "it. Exit status 1 when something\nneeded is missing.",
    .flags = flags,
    .has_ranks = true,
    .run = run,
};
