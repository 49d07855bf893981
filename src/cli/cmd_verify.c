// verify - proves a layout: many ranks against one.

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/ranks.h"
#include "train/session.h"
#include "train/verify.h"
#include "train/where.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    int64_t steps;
} options;

static const tt_opt table[] = {
    {"verify.steps", "0",
     "steps before weights are compared; 0: 1, or 2 in fp64", TT_OPT_I64,
     offsetof(options, steps), NULL, 0, 1000},
    {0},
};

// ---- the jobs ------------------------------------------------------------

// A job and the session it may belong to, where the data say how large it is.
typedef struct subject {
    tt_session *session;
    tt_job *job;
} subject;

static void subject_close(subject *s)
{
    if (s->session == NULL)
        tt_job_close(s->job);
    tt_session_close(s->session);
}

static tt_status subject_open(tt_settings *settings, const tt_peers *peers,
                              subject *out)
{
    if (tt_settings_find(settings, "data") != NULL) {
        TT_TRY(
            tt_session_open_peers(settings, table, true, peers, &out->session));
        out->job = out->session->job;
        return TT_OK;
    }
    TT_TRY(tt_job_configure_peers(settings, table, peers, &out->job));
    out->job->guard = true; // as in training
    return TT_OK;
}

// The settings for one rank: without those that say where.
static tt_status alone(const tt_cli *cli, const char *precision,
                       tt_settings *out)
{
    for (int64_t i = 0; i < cli->settings.n; i++) {
        const tt_setting *s = &cli->settings.v[i];
        if (!tt_where_has(s->key))
            TT_TRY(
                tt_settings_set(out, s->key, s->value, s->origin, cli->arena));
    }
    if (precision == NULL)
        return TT_OK;
    TT_TRY(tt_settings_set(out, "optim.master", "true", "verify", cli->arena));
    return tt_settings_set(out, "precision", precision, "verify", cli->arena);
}

static tt_status open_alone(const tt_cli *cli, const tt_peers *peers,
                            const char *precision, subject *out)
{
    const tt_peers one = {.size = 1, .cores = peers->cores};
    tt_settings settings = {.cache = cli->settings.cache};
    TT_TRY(alone(cli, precision, &settings));
    return subject_open(&settings, &one, out);
}

// ---- what is printed -----------------------------------------------------

static void print_json(const tt_job *job, const tt_verify_result *r,
                       tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_bool(&json, "ok", r->ok);
    tt_json_f64(&json, "loss_rel", r->loss_rel);
    tt_json_f64(&json, "grad_rel_max", r->grad_rel_max);
    tt_json_str(&json, "worst_tensor", r->worst_tensor);
    tt_json_f64(&json, "norm_rel", r->norm_rel);
    tt_json_f64(&json, "update_rel_max", r->update_rel_max);
    tt_json_bool(&json, "checkpoint_ok", r->checkpoint_ok);
    tt_json_bool(&json, "bits_equal", r->bits_equal);
    tt_json_f64(&json, "tolerance", r->tolerance);
    tt_json_f64(&json, "update_tolerance", r->update_tolerance);
    tt_json_i64(&json, "ranks", job->peers.size);
    if (r->low_ratio_limit > 0) {
        tt_json_f64(&json, "low_ratio", r->low_ratio);
        tt_json_f64(&json, "low_ratio_limit", r->low_ratio_limit);
        tt_json_f64(&json, "low_each", r->low_each);
        tt_json_f64(&json, "low_each_limit", r->low_each_limit);
    }
    if (r->culprit != NULL) {
        tt_json_str(&json, "culprit", r->culprit);
        tt_json_str(&json, "operator", r->op);
        tt_json_str(&json, "origin", r->origin);
        tt_json_i64(&json, "rank", r->rank);
    }
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

// With the limits that are applied.
static void print_heading(const tt_job *job, const tt_verify_result *r,
                          tt_str *out)
{
    tt_str_addf(out, "%s: %d rank%s against one, ", job->options.model,
                job->peers.size, job->peers.size == 1 ? "" : "s");
    if (r->low_ratio_limit > 0)
        tt_str_addf(out,
                    "loss and norm within %g, weights and state within %g,\n"
                    "gradients at most %g times as far from fp32 as those of "
                    "one rank, a single tensor %g times\n",
                    r->tolerance, r->update_tolerance, r->low_ratio_limit,
                    r->low_each_limit);
    else
        tt_str_addf(out, "within %.0e\n", r->tolerance);
}

static void print_text(const tt_job *job, const tt_verify_result *r,
                       tt_str *out)
{
    print_heading(job, r, out);
    tt_str_addf(out, "  loss         %.2e\n", r->loss_rel);
    tt_str_addf(out, "  gradients    %.2e at most\n", r->grad_rel_max);
    tt_str_addf(out, "  norm         %.2e\n", r->norm_rel);
    tt_str_addf(out, "  weights      %.2e at most, after the update\n",
                r->update_rel_max);
    tt_str_addf(out, "  checkpoints  %s\n",
                r->checkpoint_ok ? "each loads the other's, bit for bit"
                                 : "one does not load as it was saved");
    if (r->low_ratio_limit > 0)
        tt_str_addf(out,
                    "  from fp32    %.2f times as far as one rank, a single "
                    "tensor up to %.2f times\n",
                    r->low_ratio, r->low_each);
    if (r->culprit != NULL)
        tt_str_addf(
            out, "  first        %s is off by %.2e: %s of %s, on rank %d%s\n",
            r->culprit, r->culprit_rel, r->op, r->origin, r->rank,
            r->has_copies ? " as on all that hold it" : "");
    tt_str_addf(out, "%s\n",
                !r->ok          ? "NOT the same"
                : r->bits_equal ? "same bits"
                                : "the same");
}

static tt_status show(const tt_cli *cli, const tt_job *job,
                      const tt_verify_result *r)
{
    tt_str text = {0};
    if (tt_cli_has(cli, "--json"))
        print_json(job, r, &text);
    else
        print_text(job, r, &text);
    const tt_status status = tt_str_status(&text);
    if (status == TT_OK)
        fputs(tt_str_text(&text), stdout);
    tt_str_fini(&text);
    return status;
}

// ---- the command ---------------------------------------------------------

static tt_status make_folder(char *path, size_t bytes)
{
    const char *base = getenv("TMPDIR");
    snprintf(path, bytes, "%s/tutti-verify-XXXXXX",
             base != NULL && base[0] != '\0' ? base : "/tmp");
    if (mkdtemp(path) != NULL)
        return TT_OK;
    path[0] = '\0';
    return tt_fail(TT_ERR_IO,
                   "no folder for checkpoints can be made in %s; set TMPDIR",
                   base != NULL ? base : "/tmp");
}

static tt_status open_all(tt_cli *cli, const tt_peers *peers, subject *s,
                          tt_verify_request *request)
{
    options o;
    TT_TRY(tt_opt_defaults(table, &o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, &o, cli->arena));
    TT_TRY(subject_open(&cli->settings, peers, &s[0]));
    request->many = s[0].job;
    request->steps = o.steps;
    const int precision = s[0].job->options.precision;
    if (!tt_peers_is_first(peers))
        return TT_OK;
    TT_TRY(open_alone(cli, peers, NULL, &s[1]));
    request->one = s[1].job;
    if (precision == TT_PRECISION_BF16 || precision == TT_PRECISION_FP16 ||
        precision == TT_PRECISION_FP8) {
        TT_TRY(open_alone(cli, peers, "fp32", &s[2]));
        request->low = s[2].job;
    }
    return TT_OK;
}

static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    subject s[3] = {{0}};
    char folder[PATH_MAX] = "";
    tt_verify_request request = {.arena = cli->arena, .folder = folder};
    tt_verify_result result;
    tt_status status =
        tt_peers_agree(peers, "opening", open_all(cli, peers, s, &request));
    if (status == TT_OK)
        status = tt_peers_follow(peers, "opening",
                                 tt_peers_is_first(peers)
                                     ? make_folder(folder, sizeof folder)
                                     : TT_OK);
    if (status == TT_OK)
        status = tt_verify(&request, &result);
    if (status == TT_OK && tt_peers_is_first(peers) && s[0].job != NULL) {
        status = show(cli, s[0].job, &result);
        *exit_out = result.ok ? TT_EXIT_OK : TT_EXIT_NO;
    }
    if (folder[0] != '\0')
        (void)tt_file_remove(folder);
    for (int i = 0; i < 3; i++)
        subject_close(&s[i]);
    return status;
}

// In the precision that tells most: a GPU has its kernels up to fp32, and fp64 would
// be the reference's on the host.
static const char *usual_precision(tt_cli *cli)
{
    const char *device = tt_settings_get(&cli->settings, "device");
    return device != NULL && strncmp(device, "cuda", 4) == 0 ? "fp32" : "fp64";
}

// One rank is not compared with itself: as many are asked for as the mesh has.
static tt_status need_ranks(tt_cli *cli)
{
    tt_where where;
    int64_t mesh = 1;
    int32_t n = 1;
    TT_TRY(tt_cli_ranks_count(cli, &n));
    if (n > 1)
        return TT_OK;
    TT_TRY(tt_where_read(&cli->settings, cli->arena, &where));
    for (int a = 0; a < TT_N_AXES; a++)
        mesh *= where.axis[a] > 0 ? where.axis[a] : 1;
    if (mesh > 1)
        return tt_fail(TT_ERR_ARG,
                       "verify compares several ranks with one, and there is "
                       "one: -n %lld starts those of the mesh",
                       (long long)mesh);
    return tt_fail(TT_ERR_ARG, "verify compares several ranks with one, and "
                               "there is one: say how many, as with -n 2");
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    TT_TRY(need_ranks(cli));
    if (tt_settings_find(&cli->settings, "precision") == NULL)
        TT_TRY(tt_settings_set(&cli->settings, "precision",
                               usual_precision(cli), "verify", cli->arena));
    return tt_cli_ranks_run(cli, be_rank, exit_out);
}

static const tt_flag flags[] = {
    {"-n", "ranks that are compared with one", "N"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_verify = {
    .name = "verify",
    .doc = "Prove a layout: many ranks against one.",
    .usage = "[FILE.yaml] [key=value ...] -n N [--json]",
    .detail =
        "Runs the settings on N local ranks and on one, from the same seed on "
        "random\nbatches, in fp64 (fp32 with device=cuda) unless precision= "
        "says otherwise, and\ncompares loss, every gradient, the norm, updated "
        "weights, and checkpoints that\neach loads from the other. Exit status "
        "0: the same; 1: not; then the first tensor\nthat differs is named, "
        "with the operator and the rank that computed it.",
    .flags = flags,
    .run = run,
};
