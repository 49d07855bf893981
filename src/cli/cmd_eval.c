// eval - loss, perplexity or accuracy of a checkpoint on data.
//
// Settings come from three places. Those of the run are the base, since the data must
// be read as in training (tokenizer, image size). What another data source makes
// meaningless is dropped, and so is where the run was trained. The command line
// overrides the rest.

#include "base/file.h"
#include "base/json.h"
#include "base/settings/yaml.h"
#include "cli/command.h"
#include "cli/launch/ranks.h"
#include "cli/paths.h"
#include "cli/term.h"
#include "data/data.h"
#include "session/meet.h"
#include "store/checkpoint.h"
#include "train/evaluate.h"
#include "weights/model_folder.h"
#include "weights/model_path.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Whether another data source makes this setting of the run meaningless.
static bool is_of_old_data(const tt_opt *known, const char *key)
{
    if (known == NULL || strncmp(key, "data.", 5) != 0)
        return false;
    return strcmp(key, "data.path") == 0 || strcmp(key, "data.val") == 0 ||
           tt_opt_find(known, key + 5) == NULL;
}

// Text is tokenized as in training, wherever it comes from.
static tt_status keep_tokenizer(tt_cli *cli, tt_checkpoint *from,
                                tt_settings *out)
{
    const char *text = NULL;
    int64_t n = 0;
    if (tt_settings_find(&cli->settings, "data.tokenizer") != NULL ||
        tt_checkpoint_text_read(from, "tokenizer.json", &text, &n) != TT_OK)
        return TT_OK;
    const char *path =
        tt_arena_printf(cli->arena, "%s/tokenizer.json", from->folder);
    return path == NULL ? TT_ERR_NOMEM
                        : tt_settings_set(out, "data.tokenizer", path,
                                          from->folder, cli->arena);
}

// A text that is named here is evaluated as a whole, and not only the part that
// training would hold out.
static tt_status measure_all(tt_cli *cli, tt_settings *out)
{
    const tt_setting *path = tt_settings_find(&cli->settings, "data.path");
    if (path == NULL ||
        tt_settings_find(&cli->settings, "data.holdout") != NULL)
        return TT_OK;
    return tt_settings_set(out, "data.val", path->value, path->origin,
                           cli->arena);
}

// The settings of the checkpoint, overridden by the command line. On how many ranks it
// was made says nothing about now.
static tt_status merge_settings(tt_cli *cli, tt_checkpoint *from,
                                tt_settings *out, const char **start_out)
{
    const tt_setting *data = tt_settings_find(&cli->settings, "data");
    const tt_opt *known = NULL;
    tt_settings old = {0};
    const char *text = NULL;
    int64_t n = 0;
    TT_TRY(tt_checkpoint_text_read(from, "config.yaml", &text, &n));
    TT_TRY(tt_yaml_parse(text, n, "config.yaml", cli->arena, &old));
    TT_TRY(tt_paths_from(&old, from->folder, cli->arena, start_out));
    if (data != NULL)
        TT_TRY(tt_data_known(data->value, cli->arena, &known));
    for (int64_t i = 0; i < old.n; i++)
        if (!is_of_old_data(known, old.v[i].key) &&
            !tt_distribution_needs(&old, old.v[i].key))
            TT_TRY(tt_settings_set(out, old.v[i].key, old.v[i].value,
                                   old.v[i].origin, cli->arena));
    const tt_setting *source =
        data != NULL ? data : tt_settings_find(&old, "data");
    if (source != NULL && strcmp(source->value, "text") == 0)
        TT_TRY(measure_all(cli, out));
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        TT_TRY(tt_settings_set(out, s->key, s->value, s->origin, cli->arena));
    }
    return keep_tokenizer(cli, from, out);
}

// ---- a folder of others --------------------------------------------------

// Tokens at once, where nobody says and models read more.
enum { USUAL_SEQ = 1024 };

// A model's longest context is rarely the right length to cut data into.
static tt_status limit_seq(tt_cli *cli, tt_settings *out)
{
    if (tt_settings_find(&cli->settings, "seq") != NULL ||
        tt_model_folder_longest(out) <= USUAL_SEQ)
        return TT_OK;
    char text[32];
    snprintf(text, sizeof text, "%d", USUAL_SEQ);
    return tt_settings_set(out, "seq", text, "eval", cli->arena);
}

// What the folder says about its model and tokenizer, overridden by the command line;
// all of data.path, if nothing is said about validation.
static tt_status foreign_settings(tt_cli *cli, const char *folder,
                                  tt_settings *out)
{
    const char *tokenizer = tt_model_folder_tokenizer(folder, cli->arena);
    TT_TRY(tt_model_folder_read(folder, cli->arena, out));
    if (tokenizer != NULL)
        TT_TRY(tt_settings_set(out, "data.tokenizer", tokenizer, folder,
                               cli->arena));
    TT_TRY(measure_all(cli, out));
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        TT_TRY(tt_settings_set(out, s->key, s->value, s->origin, cli->arena));
    }
    return limit_seq(cli, out);
}

// ---- what is evaluated ---------------------------------------------------

typedef struct subject {
    const char *folder;  // describes the model
    const char *weights; // a folder, or a file of weights
    tt_checkpoint *from; // NULL: not one of our checkpoints
} subject;

static const char *folder_of(const char *path, tt_arena *arena)
{
    const char *slash = strrchr(path, '/');
    if (slash == NULL)
        return ".";
    return tt_arena_printf(arena, "%.*s",
                           (int)(slash == path ? 1 : slash - path), path);
}

// A file of weights has its model described beside it. A file of a checkpoint means
// the checkpoint.
static tt_status choose_path(const tt_cli *cli, subject *out)
{
    const char *path = cli->word[0];
    const bool is_file = tt_model_path_is_file(path);
    const char *folder = is_file ? folder_of(path, cli->arena) : path;
    if (folder == NULL)
        return TT_ERR_NOMEM;
    *out = (subject){.folder = folder, .weights = path};
    if (is_file && tt_model_folder_is_run(folder))
        out->weights = folder;
    if (is_file || tt_file_is_folder(path) || !tt_file_exists(path))
        return tt_model_path_check(out->weights, cli->arena);
    TT_TRY(tt_model_path_check(path, cli->arena));
    return tt_fail(TT_ERR_ARG,
                   "%s is a file; eval takes the folder of a run or of a "
                   "model, or a file of weights, and data as data.val=%s",
                   path, path);
}

static tt_status open_subject(const tt_cli *cli, const tt_peers *peers,
                              tt_str *notes, subject *out)
{
    const tt_checkpoint_search search = {
        .wants_best = tt_cli_has(cli, "--best"),
        .leaves_data = !tt_peers_is_first(peers),
        .limit = INT64_MAX};
    TT_TRY(choose_path(cli, out));
    if (!tt_file_is_folder(out->weights) ||
        (!tt_model_folder_is_run(out->folder) &&
         tt_model_folder_is(out->folder)))
        if (tt_file_exists(out->weights))
            return TT_OK;
    TT_TRY(tt_checkpoint_read(out->weights, &search, notes, &out->from));
    out->folder = out->weights = out->from->folder;
    return TT_OK;
}

typedef struct result {
    const char *checkpoint;
    int64_t step; // -1: it was not trained here
    bool is_ema;
    tt_score score;
} result;

static void print_json(const result *r)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "checkpoint", r->checkpoint);
    if (r->step >= 0)
        tt_json_i64(&json, "step", r->step);
    tt_json_bool(&json, "ema", r->is_ema);
    tt_json_f64(&json, "loss", r->score.loss);
    if (isfinite(r->score.perplexity))
        tt_json_f64(&json, "perplexity", r->score.perplexity);
    tt_json_f64(&json, "accuracy", r->score.accuracy);
    tt_json_i64(&json, "samples", r->score.samples);
    tt_json_f64(&json, "targets", r->score.count);
    tt_json_f64(&json, "seconds", r->score.seconds);
    tt_json_close(&json, '}');
    tt_str_add(&text, "\n");
    (void)tt_cli_print(&text);
}

static void print_text(const result *r)
{
    printf("%s: ", r->checkpoint);
    if (r->step >= 0)
        printf("step %lld%s, ", (long long)r->step,
               r->is_ema ? ", averaged weights" : "");
    printf("%lld samples\n", (long long)r->score.samples);
    printf("loss        %.4f\n", r->score.loss);
    if (isfinite(r->score.perplexity))
        printf("perplexity  %.3f\n", r->score.perplexity);
    else
        printf("accuracy    %.2f%%\n", 100 * r->score.accuracy);
}

static void on_way(void *user, const char *text)
{
    (void)user;
    fprintf(stderr, "note: %s\n", text);
}

static const double often = 10; // seconds between words about how far it is

static tt_status evaluate(tt_session *session, const subject *of,
                          tt_score *score_out)
{
    const tt_weights_options options = {.wants_ema = session->options.ema > 0};
    tt_evaluator *evaluator = NULL;
    bool is_stopped = false;
    TT_TRY(tt_evaluator_open(session, &evaluator));
    tt_str notes = {0};
    tt_status status = tt_inference_load(tt_evaluator_infer(evaluator),
                                         of->weights, &options, &notes);
    if (of->from == NULL)
        tt_term_print_foreign(stderr, tt_str_text(&notes));
    tt_str_fini(&notes);
    tt_evaluator_tell(evaluator, often, on_way, NULL);
    if (status == TT_OK)
        status = tt_evaluator_run(evaluator, NULL, score_out, &is_stopped);
    tt_evaluator_close(evaluator);
    return status;
}

// Data that are no longer those of the run are evaluated all the same, but the loss
// is then no longer the run's.
static tt_status note_changed_data(tt_cli *cli, const subject *of,
                                   const tt_session *session, const char *start)
{
    static const char *const given[] = {"data", "data.path", "data.val"};
    const tt_fingerprint *then = NULL;
    const char *changed = NULL;
    for (int i = 0; i < 3; i++)
        if (tt_settings_find(&cli->settings, given[i]) != NULL)
            return TT_OK; // others are wanted
    TT_TRY(tt_fingerprint_of_state(of->from->state, of->folder, cli->arena,
                                   &then));
    TT_TRY(tt_fingerprint_find_changed(then, session->data, start, cli->arena,
                                       &changed));
    tt_str note = {0};
    if (changed != NULL)
        tt_str_addf(
            &note,
            "note: %s has changed since this checkpoint was written: what "
            "is measured here is not comparable with the run's own "
            "evaluations\n",
            changed);
    tt_term_print_foreign(stderr, tt_str_text(&note));
    tt_str_fini(&note);
    return TT_OK;
}

static tt_status open_session(tt_cli *cli, const tt_peers *peers,
                              const subject *of, tt_session **session_out)
{
    tt_settings settings = {.cache = cli->settings.cache};
    const char *start = "";
    if (of->from != NULL)
        TT_TRY(merge_settings(cli, of->from, &settings, &start));
    else
        TT_TRY(foreign_settings(cli, of->folder, &settings));
    TT_TRY(tt_session_open_peers(&settings, NULL, false, peers, session_out));
    return of->from != NULL && tt_peers_is_first(peers)
               ? note_changed_data(cli, of, *session_out, start)
               : TT_OK;
}

static tt_status show(const tt_cli *cli, tt_session *session, const subject *of)
{
    result r = {.checkpoint = of->weights,
                .step = of->from != NULL ? of->from->step : -1,
                .is_ema = session->options.ema > 0};
    TT_TRY(evaluate(session, of, &r.score));
    if (!tt_peers_is_first(&session->job->peers))
        return TT_OK;
    if (tt_cli_has(cli, "--json"))
        print_json(&r);
    else
        print_text(&r);
    return TT_OK;
}

// Every rank reads the checkpoint's settings. Rank 0 reads all of it once, to verify
// it; then each rank reads what it needs.
static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    subject of = {0};
    tt_session *session = NULL;
    tt_str notes = {0};
    (void)exit_out;
    tt_status status = open_subject(cli, peers, &notes, &of);
    if (notes.n > 0 && tt_peers_is_first(peers))
        tt_term_print_foreign(stderr, tt_str_text(&notes));
    if (status == TT_OK)
        status = open_session(cli, peers, &of, &session);
    status = tt_peers_agree(peers, "opening", status);
    if (status == TT_OK && session != NULL) {
        status = tt_session_meet(session, tt_ranks_build(peers, cli->arena));
        if (status == TT_OK)
            status = show(cli, session, &of);
    }
    tt_session_close(session);
    tt_checkpoint_close(of.from);
    tt_str_fini(&notes);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    TT_TRY(tt_cli_need_model(cli, "which run? usage: tutti eval FOLDER"));
    return tt_cli_ranks_run(cli, be_rank, exit_out);
}

static const tt_flag flags[] = {
    {"-n", "ranks that share the work", "N"},
    {"--best", "the checkpoint with the lowest validation loss"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_eval = {
    .name = "eval",
    .doc = "Loss, perplexity or accuracy of a checkpoint.",
    .usage =
        "RUN|CHECKPOINT|FOLDER [data.path=... key=value ...] [-n N] [--best] "
        "[--json]",
    .detail =
        "On the validation data of the run, or on other data: data.val=FILE, "
        "or data=... with\nits settings. Averaged weights are used where "
        "the run has them (train.ema). FOLDER is one\nthat `tutti import` "
        "wrote, or one of Hugging Face's; a file of weights in such a "
        "folder\nwill do. "
        "Of its data all is evaluated:\n"
        "tutti eval FOLDER data=text data.path=FILE [seq=N].",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .has_ranks = true,
    .run = run,
};
