// eval - loss, perplexity or accuracy of a checkpoint on data.

#include "base/json.h"
#include "base/yaml.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "cli/term.h"
#include "data/data.h"
#include "store/checkpoint.h"
#include "train/evaluate.h"
#include "train/meet.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

// Whether another source of data makes this setting of the run meaningless.
static bool is_of_old_data(const tt_opt *known, const char *key)
{
    if (known == NULL || strncmp(key, "data.", 5) != 0)
        return false;
    return strcmp(key, "data.path") == 0 || strcmp(key, "data.val") == 0 ||
           tt_opt_find(known, key + 5) == NULL;
}

// Text is read as the model learned to read it, wherever it comes from.
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

// The settings that the checkpoint was made with, under those of the command
// line. On how many ranks it was made says nothing about now.
static tt_status merge_settings(tt_cli *cli, tt_checkpoint *from,
                                tt_settings *out)
{
    const tt_setting *data = tt_settings_find(&cli->settings, "data");
    const tt_opt *known = NULL;
    tt_settings old = {0};
    const char *text = NULL;
    int64_t n = 0;
    TT_TRY(tt_checkpoint_text_read(from, "config.yaml", &text, &n));
    TT_TRY(tt_yaml_parse(text, n, "config.yaml", cli->arena, &old));
    if (data != NULL)
        TT_TRY(tt_data_known(data->value, cli->arena, &known));
    for (int64_t i = 0; i < old.n; i++)
        if (!is_of_old_data(known, old.v[i].key) && !tt_where_has(old.v[i].key))
            TT_TRY(tt_settings_set(out, old.v[i].key, old.v[i].value,
                                   old.v[i].origin, cli->arena));
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        TT_TRY(tt_settings_set(out, s->key, s->value, s->origin, cli->arena));
    }
    return keep_tokenizer(cli, from, out);
}

typedef struct result {
    const char *checkpoint;
    int64_t step;
    bool is_ema;
    tt_score score;
} result;

static void print_json(const result *r)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "checkpoint", r->checkpoint);
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
    if (tt_str_status(&text) == TT_OK)
        puts(tt_str_text(&text));
    tt_str_fini(&text);
}

static void print_text(const result *r)
{
    printf("%s: step %lld%s, %lld samples\n", r->checkpoint, (long long)r->step,
           r->is_ema ? ", averaged weights" : "", (long long)r->score.samples);
    printf("loss        %.4f\n", r->score.loss);
    if (isfinite(r->score.perplexity))
        printf("perplexity  %.3f\n", r->score.perplexity);
    else
        printf("accuracy    %.2f%%\n", 100 * r->score.accuracy);
}

static tt_status evaluate(tt_session *session, tt_checkpoint *from,
                          tt_score *score_out)
{
    const tt_weights_options options = {.wants_ema = session->options.ema > 0};
    tt_evaluator *evaluator = NULL;
    bool is_stopped = false;
    TT_TRY(tt_evaluator_open(session, &evaluator));
    tt_status status = tt_infer_load(tt_evaluator_infer(evaluator),
                                     from->folder, &options, NULL);
    if (status == TT_OK)
        status = tt_evaluator_run(evaluator, NULL, score_out, &is_stopped);
    tt_evaluator_close(evaluator);
    return status;
}

static tt_status open_session(tt_cli *cli, const tt_peers *peers,
                              tt_checkpoint *from, tt_session **session_out)
{
    tt_settings settings = {.cache = cli->settings.cache};
    TT_TRY(merge_settings(cli, from, &settings));
    return tt_session_open_peers(&settings, NULL, false, peers, session_out);
}

static tt_status show(const tt_cli *cli, tt_session *session,
                      tt_checkpoint *from)
{
    result r = {.checkpoint = from->folder,
                .step = from->step,
                .is_ema = session->options.ema > 0};
    TT_TRY(evaluate(session, from, &r.score));
    if (!tt_peers_is_first(&session->job->peers))
        return TT_OK;
    if (tt_cli_has(cli, "--json"))
        print_json(&r);
    else
        print_text(&r);
    return TT_OK;
}

// Every rank looks at the checkpoint's settings; rank 0 reads all of it once, to
// know that it is good, and then each rank what it needs.
static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    tt_checkpoint *from = NULL;
    tt_session *session = NULL;
    tt_str notes = {0};
    (void)exit_out;
    const tt_checkpoint_search search = {
        .wants_best = tt_cli_has(cli, "--best"),
        .leaves_data = !tt_peers_is_first(peers),
        .limit = INT64_MAX};
    tt_status status = tt_checkpoint_read(cli->word[0], &search, &notes, &from);
    if (notes.n > 0 && tt_peers_is_first(peers))
        tt_term_print_foreign(stderr, tt_str_text(&notes));
    if (status == TT_OK)
        status = open_session(cli, peers, from, &session);
    status = tt_peers_agree(peers, "opening", status);
    if (status == TT_OK && session != NULL) {
        status = tt_job_meet(session->job, &session->resolved,
                             tt_cli_program(peers, cli->arena));
        if (status == TT_OK)
            status = show(cli, session, from);
    }
    tt_session_close(session);
    tt_checkpoint_close(from);
    tt_str_fini(&notes);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    if (cli->n_words == 0)
        return tt_fail(TT_ERR_ARG, "which run? usage: tutti eval FOLDER");
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
    .usage = "RUN|CHECKPOINT [data.path=... key=value ...] [-n N] [--best] "
             "[--json]",
    .detail =
        "On the validation data of the run, or on other data: data.val=FILE, "
        "or data=... with\nits settings. Averaged weights are used where "
        "the run has them (train.ema).",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
