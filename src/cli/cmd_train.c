// train - trains what a configuration describes, or continues to.
//
//   run -> guess settings -> ranks -> be_rank on each:
//     set_folder     where; with --fork, a copy of what is there
//     open_session   data, model, plan; does it fit?
//     agree, meet    all ranks have opened the same thing
//     set_aside      --fresh renames the old run (rank 0)
//     train          rank 0, with progress and history; the others: follow
//
// Everything that can be refused is refused before folders are touched. If a rank
// dies, the message says which checkpoint is good and how to go on.

#include "base/json.h"
#include "cli/command.h"
#include "cli/dry_run.h"
#include "cli/guess.h"
#include "cli/launch/ranks.h"
#include "cli/launch/team.h"
#include "cli/progress/progress.h"
#include "cli/record.h"
#include "cli/signals.h"
#include "cli/table.h"
#include "session/doubts.h"
#include "session/meet.h"
#include "store/checkpoint.h"
#include "train/folders.h"
#include "train/loop.h"
#include "train/ranks.h"
#include "train/workers_text.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const reasons[] = {
    [TT_RUN_DONE] = "done",
    [TT_RUN_EARLY] = "early stop",
    [TT_RUN_SIGNAL] = "signal",
    [TT_RUN_FAILED] = "failed",
};

static void print_json(const tt_run_end *end)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "reason", reasons[end->reason]);
    tt_json_str(&json, "folder", end->folder);
    tt_json_i64(&json, "step", end->step);
    tt_json_f64(&json, "seconds", end->seconds);
    tt_json_f64(&json, "loss", end->loss);
    tt_json_f64(&json, "val_loss", end->val_loss);
    tt_json_f64(&json, "best_loss", end->best_loss);
    tt_json_f64(&json, "accuracy", end->accuracy);
    tt_report_time_json(&end->time, &json);
    if (end->ranks == NULL)
        tt_json_bool(&json, "paced", end->is_paced);
    if (end->ranks != NULL)
        tt_ranks_report_print_json(end->ranks, &json);
    if (end->workers != NULL) {
        tt_json_open(&json, "workers", '{');
        tt_workers_print_json(end->workers, false, &json);
        tt_json_close(&json, '}');
    }
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    (void)tt_cli_print(&text);
}

// What the other ranks do: the same training, without a display. Their exit status
// will be rank 0's.
static tt_status follow(tt_session *session, tt_train_request *request)
{
    tt_run_end end;
    request->stop = tt_signals_catch();
    return tt_train(session, request, &end);
}

// The command as it could be typed again, for the report.
static const char *command_text(const tt_cli *cli)
{
    tt_str text = {0};
    const char *copy = NULL;
    tt_str_add(&text, "tutti train");
    for (int i = 0; i < cli->n_given; i++) {
        tt_str_add(&text, " ");
        tt_add_word(&text, cli->given[i]);
    }
    if (tt_str_status(&text) == TT_OK)
        copy = tt_arena_strdup(cli->arena, tt_str_text(&text));
    tt_str_fini(&text);
    return copy;
}

// How far an existing run has come; 0: there is none.
static int64_t step_reached(const tt_train_request *request)
{
    const tt_checkpoint_search search = {.leaves_data = true,
                                         .limit = INT64_MAX};
    tt_checkpoint *checkpoint = NULL;
    tt_str notes = {0};
    int64_t step = 0;
    if (tt_checkpoint_read(request->folder, &search, &notes, &checkpoint) ==
            TT_OK &&
        checkpoint != NULL)
        step = checkpoint->step;
    tt_checkpoint_close(checkpoint);
    tt_str_fini(&notes);
    return step;
}

// A run that has nothing left to do says how to continue.
static void say_longer(const tt_session *session, const char *folder)
{
    const tt_schedule *schedule = &session->job->optim_params.schedule;
    const char *key = session->options.steps > 0 ? "steps" : "epochs";
    const bool needs_fork = tt_schedule_needs_end(schedule);
    fprintf(stderr,
            "note: %s was at its end already; train.%s=N with a larger N "
            "trains longer%s\n",
            folder, key,
            needs_fork ? ", with --fork, since the learning rate is planned to "
                         "the end: in a new folder it goes on with the rates "
                         "of the longer run"
                       : "");
}

static tt_status train(const tt_cli *cli, tt_session *session,
                       tt_train_request *request, int *exit_out)
{
    const bool is_json = tt_cli_has(cli, "--json");
    const int64_t trained = step_reached(request);
    tt_progress *progress = NULL;
    tt_record *record = NULL;
    tt_run_end end;
    TT_TRY(tt_progress_open(!is_json, &progress));
    tt_status status = tt_record_open(tt_progress_watch(progress), &record);
    if (status == TT_OK) {
        request->watch = tt_record_watch(record);
        request->command = command_text(cli);
        request->stop = tt_signals_catch();
        tt_progress_heed(progress, request->stop);
        status = tt_train(session, request, &end);
    }
    tt_record_close(record);
    tt_progress_close(progress);
    if (status != TT_OK)
        return status;
    if (is_json)
        print_json(&end);
    if (end.reason == TT_RUN_DONE && trained >= session->steps)
        say_longer(session, end.folder);
    if (end.reason == TT_RUN_SIGNAL)
        *exit_out = TT_EXIT_STOPPED;
    return TT_OK;
}

// Where to train, and what --fork makes of the run that is there. Only rank 0 looks
// into folders.
static tt_status set_folder(tt_cli *cli, bool is_first,
                            tt_train_request *request)
{
    const tt_setting *run = tt_settings_find(&cli->settings, "run");
    const char *fallback = NULL;
    TT_TRY(tt_run_default_folder(cli->file,
                                 tt_config_text(&cli->settings, "model"),
                                 cli->arena, &fallback));
    request->folder =
        run != NULL && run->value[0] != '\0' ? run->value : fallback;
    if (tt_cli_has(cli, "--fork") && tt_cli_has(cli, "--fresh"))
        return tt_fail(TT_ERR_ARG, "--fork goes on and --fresh begins again; "
                                   "leave one of them out");
    if (tt_cli_has(cli, "--fork") && is_first) {
        tt_fork fork;
        TT_TRY(tt_run_fork(request->folder, fallback, cli->arena, &fork));
        request->folder = fork.to;
        request->fork = fork.from;
    }
    return tt_settings_set(&cli->settings, "run", request->folder,
                           run != NULL ? run->origin : "default", cli->arena);
}

static void say_aside(const char *folder, const char *aside)
{
    tt_term term;
    tt_str text = {0}, folded = {0};
    tt_term_init(&term, STDERR_FILENO);
    tt_str_addf(&text, "note: %s is now %s", folder, aside);
    tt_add_wrapped(
        &folded, tt_str_text(&text),
        &(tt_wrapping){.width = term.is_live ? tt_term_width(&term) : 0,
                       .indent = "  "});
    tt_str_add(&folded, "\n");
    if (tt_str_status(&folded) == TT_OK)
        tt_term_write(&term, &folded);
    tt_str_fini(&text);
    tt_str_fini(&folded);
}

static tt_status set_aside(const tt_cli *cli, const tt_train_request *request)
{
    const char *aside = NULL;
    char full[PATH_MAX];
    if (!tt_cli_has(cli, "--fresh"))
        return TT_OK;
    if (realpath(request->folder, full) == NULL)
        full[0] = '\0';
    TT_TRY(tt_run_set_aside(request->folder, cli->arena, &aside));
    if (aside == NULL)
        return TT_OK;
    say_aside(request->folder, aside);
    tt_record_move(full, aside, cli->arena);
    return TT_OK;
}

static tt_status open_session(tt_cli *cli, const tt_peers *peers,
                              tt_session **session_out)
{
    tt_session *session = NULL;
    TT_TRY(tt_session_open_peers(&cli->settings, NULL, true, peers, &session));
    tt_status status = tt_session_need_length(session);
    if (status == TT_OK)
        status = tt_job_check_fit(session->job);
    if (status == TT_OK)
        status = tt_train_check_memory(session);
    if (status == TT_OK)
        *session_out = session;
    else
        tt_session_close(session);
    return status;
}

// Warns about settings that were probably not meant.
static void warn(const tt_session *session)
{
    tt_str text = {0};
    tt_session_doubts(session, &text);
    for (const char *p = tt_str_text(&text); *p != '\0';) {
        const int n = (int)strcspn(p, "\n");
        fprintf(stderr, "warning: %.*s\n", n, p);
        p += n + 1;
    }
    tt_str_fini(&text);
}

// Every rank's work. Rank 0 alone handles folders; names are the same everywhere.
static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    tt_train_request request = {0};
    tt_session *session = NULL;
    tt_status status = set_folder(cli, tt_peers_is_first(peers), &request);
    if (status == TT_OK)
        status = open_session(cli, peers, &session);
    status = tt_peers_agree(peers, "opening", status);
    if (status == TT_OK && session != NULL)
        status = tt_session_meet(session, tt_ranks_build(peers, cli->arena));
    if (status == TT_OK && session != NULL && tt_peers_is_first(peers)) {
        warn(session);
        status = tt_peers_follow(peers, "--fresh", set_aside(cli, &request));
        if (status == TT_OK)
            status = train(cli, session, &request, exit_out);
    } else if (status == TT_OK) {
        status = tt_peers_follow(peers, "--fresh", TT_OK);
        if (status == TT_OK)
            status = follow(session, &request);
    }
    tt_session_close(session);
    return status;
}

// The settings and memory of one rank; nothing is started. Whatever training would
// refuse is refused here too.
static tt_status dry_run(tt_cli *cli)
{
    tt_train_request request = {0};
    tt_session *session = NULL;
    int32_t n = 0;
    TT_TRY(tt_cli_ranks_check(cli, &n));
    TT_TRY(set_folder(cli, true, &request));
    TT_TRY(open_session(cli, NULL, &session));
    tt_status status =
        tt_train_check(session, &request, tt_cli_has(cli, "--fresh"));
    if (status == TT_OK && !tt_cli_has(cli, "--json"))
        warn(session);
    if (status == TT_OK)
        status = tt_dry_run(session, tt_cli_has(cli, "--json"));
    tt_session_close(session);
    return status;
}

// A rank has died: what is safe, and how to continue.
static void add_newest(tt_cli *cli, tt_str *out)
{
    tt_train_request request = {0};
    // Only rank 0 knew the folder of a fork, and it is gone.
    const bool is_known =
        !tt_cli_has(cli, "--fork") && set_folder(cli, false, &request) == TT_OK;
    const int64_t step = is_known ? step_reached(&request) : 0;
    if (step > 0)
        tt_str_addf(out,
                    "; the checkpoint of step %lld in %s is good: the same "
                    "command%s goes on from there",
                    (long long)step, request.folder,
                    tt_cli_has(cli, "--fresh") ? " without --fresh" : "");
}

static tt_status fail_lost(tt_cli *cli, tt_status failed)
{
    tt_str text = {0};
    tt_str_add(&text, tt_error_message());
    add_newest(cli, &text);
    if (tt_str_status(&text) == TT_OK)
        (void)tt_fail(failed, "%s", tt_str_text(&text));
    tt_str_fini(&text);
    return failed;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    const bool is_dry = tt_cli_has(cli, "--dry-run");
    tt_signals_end_at_once("stopped before training began; nothing was "
                           "changed");
    int64_t n = 0; // what is wrong with -n is said before anything is chosen
    TT_TRY(tt_cli_ranks_flag(cli, TT_RANKS_MOST, &n));
    TT_TRY(tt_cli_guess(cli, false));
    if (is_dry && tt_cli_is_spare())
        return TT_OK;
    cli->add_safe = add_newest;
    const tt_status status =
        is_dry ? dry_run(cli) : tt_cli_ranks_run(cli, be_rank, exit_out);
    return status == TT_ERR_PEER || status == TT_ERR_TIMEOUT
               ? fail_lost(cli, status)
               : tt_settings_fail_context(&cli->settings, status);
}

static const tt_flag flags[] = {
    {"-n", "ranks that train together on this machine", "N"},
    {"--dry-run",
     "check all that training would, print all settings and the memory "
     "needed; start nothing"},
    {"--fork", "go on from the run's checkpoint in a new folder"},
    {"--fresh", "begin again; the run that is there is renamed FOLDER.1"},
    {"--json", "one JSON object about the end on standard output"},
    {0},
};

const tt_command_def tt_command_train = {
    .name = "train",
    .doc = "Train; goes on by itself where an earlier start ended.",
    .usage = "[FILE.yaml|DATA] [key=value ...] [-n N] [--dry-run] [--fork] "
             "[--fresh] [--json]",
    .detail =
        "`tutti list settings` names the keys. DATA is a text, a folder of "
        "images or other data:\na small model that suits it is trained, and it "
        "says what it chose. The run's folder\n(run=FOLDER; default: runs/ and "
        "the file's name) gets settings, metrics, "
        "checkpoints and a report.\nStarted again with the same settings it "
        "goes on, bit for bit; changed settings are\nrefused unless --fork or "
        "--fresh says what to do.\n\nSIGTERM, SIGUSR1, SIGHUP (a closed "
        "terminal) and the first Ctrl-C finish the step\nand save: exit status "
        "3.\nA second Ctrl-C stops at "
        "once, and so does one before training has begun: exit status 130. "
        "Exit status 0: trained to the end,\nto "
        "train.stop or to an early stop; 2: it could not be done.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .has_ranks = true,
    .has_system = true,
    .run = run,
};
