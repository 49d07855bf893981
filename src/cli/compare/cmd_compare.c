// compare - several systems with the same kernels, data, weights and batch: a table and
// a page.
//
//   ask -> folder -> rounds -> timelines -> numbers -> table, JSON, CSV, page
//
// A round runs every system once, forth in odd rounds and back in even ones, so that
// what else happens on the machine hits all alike. A system that is refused has its
// sentence, and the rest goes on. Ctrl-C stops the run at hand, which is saved; the
// same command goes on with it, and what is finished is not run again.

#include "backend/machine.h"
#include "base/clock.h"
#include "base/file.h"
#include "cli/compare/compare_parts.h"
#include "cli/signals.h"
#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// ---- the folder ----------------------------------------------------------

// What may not change while a comparison is continued.
static tt_status describe(const tt_compare *c, tt_str *out)
{
    tt_str_addf(out,
                "# What was compared here. Systems and rounds may be "
                "added.\nranks: %d\nsteps: %lld\n",
                c->ranks, (long long)c->steps);
    if (!isnan(c->until_loss))
        tt_str_addf(out, "until_loss: %.17g\n", c->until_loss);
    if (!isnan(c->until_seconds))
        tt_str_addf(out, "until_seconds: %.17g\n", c->until_seconds);
    if (!isnan(c->until_samples))
        tt_str_addf(out, "until_samples: %.17g\n", c->until_samples);
    for (const char *const *s = c->extra; *s != NULL; s++)
        tt_str_addf(out, "# %s\n", *s);
    if (c->launch[0] != NULL)
        tt_str_addf(out, "# launched by %s\n",
                    tt_cli_value(c->cli, "--launch"));
    if (tt_cli_has(c->cli, "--seeded"))
        tt_str_addf(out, "# workers by a seeded clock\n");
    for (int64_t i = 0; i < c->cli->settings.n; i++) {
        const tt_setting *s = &c->cli->settings.v[i];
        if (strcmp(s->key, "run") != 0)
            tt_str_addf(out, "# %s=%s\n", s->key, s->value);
    }
    return tt_str_status(out);
}

static tt_status set_aside(const tt_compare *c)
{
    for (int k = 1; k < 1000; k++) {
        const char *aside =
            tt_arena_printf(c->cli->arena, "%s.%d", c->folder, k);
        if (aside == NULL)
            return TT_ERR_NOMEM;
        if (tt_file_exists(aside))
            continue;
        TT_TRY(tt_file_rename(c->folder, aside));
        fprintf(stderr, "note: %s is now %s\n", c->folder, aside);
        return TT_OK;
    }
    return tt_fail(TT_ERR_STATE, "%s: there are a thousand old ones beside it",
                   c->folder);
}

static tt_status refuse_other(void *user, const char *name)
{
    const char *folder = user;
    return name[0] == '.'
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "%s has %s and is not the folder of a comparison; "
                         "run= names another",
                         folder, name);
}

// A new comparison begins in a new or empty folder: not in that of a run.
static tt_status check_own(const tt_compare *c, bool *has_old_out)
{
    const char *path = tt_compare_path(c, "compare", ".yaml");
    char *folder = tt_arena_strdup(c->cli->arena, c->folder);
    if (path == NULL || folder == NULL)
        return TT_ERR_NOMEM;
    *has_old_out = tt_file_exists(path);
    return *has_old_out || !tt_file_is_folder(folder)
               ? TT_OK
               : tt_file_each(folder, refuse_other, folder);
}

// Keeps `text` as FOLDER/NAMEENDING, and says whether what was kept there is the same.
static tt_status keep_same(const tt_compare *c, const char *name,
                           const char *ending, const tt_str *text,
                           bool *is_same_out)
{
    tt_str old = {0};
    bool is_there = false;
    const char *path = tt_compare_path(c, name, ending);
    if (path == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_file_read_if(path, 1 << 20, &old, &is_there));
    *is_same_out =
        !is_there || strcmp(tt_str_text(&old), tt_str_text(text)) == 0;
    tt_str_fini(&old);
    return is_there ? TT_OK : tt_file_replace(path, tt_str_text(text), text->n);
}

static tt_status check_folder(const tt_compare *c, const tt_str *text)
{
    bool is_same = true;
    TT_TRY(keep_same(c, "compare", ".yaml", text, &is_same));
    return is_same
               ? TT_OK
               : tt_fail(TT_ERR_ARG,
                         "%s has a comparison with other settings; run=FOLDER "
                         "puts this one elsewhere, --fresh sets the old one "
                         "aside",
                         c->folder);
}

// A file of one's own may not change between its runs.
static tt_status check_files(const tt_compare *c)
{
    for (int i = 0; i < c->n; i++) {
        const tt_compare_one *one = &c->one[i];
        bool is_same = true;
        tt_str text = {0};
        if (!one->is_known || !tt_ends_with(one->word, ".yaml"))
            continue;
        tt_status status = tt_file_read(one->word, 1 << 20, &text);
        if (status == TT_OK)
            status = keep_same(c, one->name, ".system", &text, &is_same);
        tt_str_fini(&text);
        TT_TRY(status);
        if (!is_same)
            return tt_fail(TT_ERR_ARG,
                           "%s has changed since %s holds runs of it; another "
                           "name would do, or --fresh",
                           one->word, c->folder);
    }
    return TT_OK;
}

static tt_status open_folder(const tt_compare *c, tt_lock *lock)
{
    tt_str text = {0};
    bool has_old = false;
    TT_TRY(check_own(c, &has_old));
    TT_TRY(describe(c, &text));
    tt_status status = TT_OK;
    if (tt_cli_has(c->cli, "--fresh") && has_old) {
        status = tt_file_lock_look(c->folder); // nobody may be at work there
        if (status == TT_OK)
            status = set_aside(c);
    }
    if (status == TT_OK)
        status = tt_file_make_folder(c->folder);
    if (status == TT_OK)
        status = tt_file_lock(c->folder, lock);
    if (status == TT_OK)
        status = check_folder(c, &text);
    if (status == TT_OK)
        status = check_files(c);
    tt_str_fini(&text);
    return status;
}

// ---- rounds --------------------------------------------------------------

typedef struct count {
    int at, of;
} count;

static void say(const tt_compare *c, count k, const char *name,
                const char *what, double seconds)
{
    tt_str text = {0};
    if (c->is_silent)
        return;
    if (seconds >= 0)
        tt_add_seconds(&text, seconds);
    fprintf(stderr, "%d/%d  %s: %s%s%s\n", k.at, k.of, name, what,
            seconds >= 0 ? " after " : "", tt_str_text(&text));
    tt_str_fini(&text);
}

static tt_status run_one(const tt_compare *c, tt_compare_one *one,
                         const char *name, bool is_trace, count k)
{
    tt_compare_outcome outcome = TT_COMPARE_DONE;
    const char *why = NULL;
    const double began = tt_clock_seconds();
    if (name == NULL)
        return TT_ERR_NOMEM;
    if (one->refusal != NULL || *c->stop != 0)
        return TT_OK;
    if (tt_compare_is_done(c, name)) {
        say(c, k, name, "is there already", -1);
        return TT_OK;
    }
    TT_TRY(tt_compare_find_steps(c, one));
    if (*c->stop != 0)
        return TT_OK;
    TT_TRY(tt_compare_child(c, one, name, is_trace, &outcome, &why));
    const double seconds = tt_clock_seconds() - began;
    if (outcome == TT_COMPARE_REFUSED && !is_trace)
        one->refusal = why;
    say(c, k, name,
        outcome == TT_COMPARE_DONE      ? "done"
        : outcome == TT_COMPARE_STOPPED ? "stopped"
                                        : why,
        outcome == TT_COMPARE_REFUSED ? -1 : seconds);
    return TT_OK;
}

static tt_status run_rounds(const tt_compare *c)
{
    const bool has_traces = !tt_cli_has(c->cli, "--no-timeline");
    count k = {.of = c->n * (c->rounds + has_traces)};
    for (int round = 1; round <= c->rounds; round++)
        for (int i = 0; i < c->n; i++) {
            tt_compare_one *one = &c->one[round % 2 == 1 ? i : c->n - 1 - i];
            k.at++;
            TT_TRY(run_one(
                c, one,
                tt_arena_printf(c->cli->arena, "%s-%d", one->name, round),
                false, k));
        }
    for (int i = 0; i < c->n && has_traces; i++) {
        k.at++;
        TT_TRY(
            run_one(c, &c->one[i],
                    tt_arena_printf(c->cli->arena, "%s-trace", c->one[i].name),
                    true, k));
    }
    return TT_OK;
}

// ---- what it gives -------------------------------------------------------

static const char *command_text(const tt_compare *c)
{
    tt_str text = {0};
    tt_str_add(&text, "tutti compare");
    for (int i = 0; i < c->cli->n_given; i++) {
        tt_str_add(&text, " ");
        tt_add_word(&text, c->cli->given[i]);
    }
    return tt_str_keep(&text, c->cli->arena);
}

static tt_status name_it(const tt_compare *c, tt_compared *out)
{
    tt_arena *arena = c->cli->arena;
    char cpu[256];
    tt_str about = {0};
    const char *file = c->cli->file != NULL ? c->cli->file : "settings";
    const char *slash = strrchr(file, '/');
    tt_machine_cpu(cpu, sizeof cpu);
    out->title = tt_arena_printf(
        arena, "%d system%s on %d rank%s: %s", c->n, c->n > 1 ? "s" : "",
        c->ranks, c->ranks > 1 ? "s" : "", slash != NULL ? slash + 1 : file);
    tt_str_addf(&about, "%s, %d cores; each system %s", cpu, tt_machine_cores(),
                c->rounds == 1 ? "once" : "");
    if (c->rounds > 1)
        tt_str_addf(&about, "%d times, in turns", c->rounds);
    const char *const shown[] = {"--link", "--latency", "--pace", "--until",
                                 "--launch"};
    for (int i = 0; i < 5; i++)
        if (tt_cli_value(c->cli, shown[i]) != NULL)
            tt_str_addf(&about, "; %s %s", shown[i] + 2,
                        tt_cli_value(c->cli, shown[i]));
    out->about = tt_str_keep(&about, arena);
    out->command = command_text(c);
    out->rounds = c->rounds;
    return out->title != NULL && out->about != NULL && out->command != NULL
               ? TT_OK
               : TT_ERR_NOMEM;
}

static tt_status write_page(const tt_compared *compared, const char *page)
{
    tt_str text = {0};
    tt_status status = tt_report_systems(compared, &text);
    if (status == TT_OK)
        status = tt_file_replace(page, tt_str_text(&text), text.n);
    tt_str_fini(&text);
    return status;
}

static tt_status write_csv(const tt_compare *c, const tt_compared *compared)
{
    const char *path = tt_cli_value(c->cli, "--csv");
    tt_str text = {0};
    if (path == NULL)
        return TT_OK;
    tt_compare_csv(compared, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        status = tt_file_replace(path, tt_str_text(&text), text.n);
    tt_str_fini(&text);
    return status;
}

static tt_status show(const tt_compare *c, int *exit_out)
{
    tt_compared compared = {0};
    tt_str text = {0};
    const char *page = tt_compare_path(c, "index", ".html");
    if (page == NULL)
        return TT_ERR_NOMEM;
    TT_TRY(tt_compare_read(c, &compared));
    TT_TRY(name_it(c, &compared));
    if (tt_cli_has(c->cli, "--json"))
        tt_compare_json(c, &compared, page, &text);
    else
        TT_TRY(tt_compare_table(c, &compared, &text));
    bool has_any = false;
    for (int i = 0; i < compared.n; i++)
        has_any = has_any || compared.system[i].refusal == NULL;
    if (!has_any)
        *exit_out = TT_EXIT_NO;
    TT_TRY(tt_cli_print(&text)); // first: what was measured is seen
    TT_TRY(write_csv(c, &compared));
    TT_TRY(write_page(&compared, page));
    if (!c->is_silent)
        fprintf(stderr, "page: %s\n", page);
    return TT_OK;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    tt_compare c;
    tt_lock lock = TT_LOCK_FREE;
    TT_TRY(tt__compare_ask(cli, &c));
    TT_TRY(tt__compare_check(&c));
    tt_status status = open_folder(&c, &lock);
    if (status == TT_OK) {
        c.stop = tt_signals_catch();
        status = run_rounds(&c);
    }
    if (status == TT_OK)
        status = show(&c, exit_out);
    if (status == TT_OK && *c.stop != 0) {
        *exit_out = TT_EXIT_STOPPED;
        fputs("stopped; the same command goes on\n", stderr);
    }
    tt_file_unlock(&lock);
    return status;
}

static const tt_flag flags[] = {
    {"-n", "ranks of each run", "N"},
    {"--repeat", "rounds, each of which runs all systems (2)", "K"},
    {"--until", "end of a run: loss=2.0, time=60 or samples=5000", "END"},
    {"--link", "rate of links between ranks: 1gbit, 100mbit", "RATE"},
    {"--latency", "of a message: 50us", "TIME"},
    {"--pace", "speeds of the ranks: 1,1,0.5", "LIST"},
    {"--launch", "what starts the ranks: 'mpirun -n 4', 'srun -n 16'",
     "COMMAND"},
    {"--where", "systems whose field has the word, as codec=topk",
     "FIELD=WORD"},
    {"--system", "a system of one's own", "FILE.yaml"},
    {"--seeded",
     "workers without waiting by a drawn clock: losses repeat to the bit, "
     "times mean little"},
    {"--no-timeline", "no short runs that show one step of each"},
    {"--csv", "the table as a file", "FILE"},
    {"--fresh", "begin again; the old comparison is renamed FOLDER.1"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_compare = {
    .name = "compare",
    .doc = "Systems side by side: the same kernels, data, weights and batch.",
    .usage = "FILE.yaml SYSTEM... [key=value ...] -n N [--repeat K] "
             "[--until END] [--link RATE] [--latency TIME] [--json]",
    .detail =
        "Trains FILE.yaml as each SYSTEM does (`tutti list systems`; patterns "
        "as 'zero-*', or\nall), in rounds that go forth and back through them. "
        "Prints time per step, exposed\ncommunication, bytes, memory, loss "
        "after equal samples and after equal time, and time\nto a loss; what "
        "could not run, and why. The folder (run=FOLDER; default: runs/compare-"
        "\nand the file's name) has a run per system and round, and a page, "
        "index.html.\nCtrl-C stops and saves (exit status 3); the same command "
        "goes on, and what is finished\nis not run again. key=value holds for "
        "all systems and counts more than they do.\nExit status 1: no system "
        "could run.",
    .flags = flags,
    .max_words = 512,
    .takes_paths = true,
    .run = run,
};
