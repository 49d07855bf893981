// verify - proves a layout: many ranks against one. The comparison is in
// verify/verify.h.

#include "base/json.h"
#include "cli/command.h"
#include "cli/launch/ranks.h"
#include "config/distribution.h"
#include "verify/verify.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct options {
    int64_t steps;
} options;

static const tt_opt table[] = {
    {"verify.steps", "0",
     "steps before weights are compared; 0: 1, or in fp64 2, and of a pipe "
     "that "
     "is not emptied before each update 3 more than stages",
     TT_OPT_I64, offsetof(options, steps), NULL, 0, 1000},
    {0},
};

// ---- what is printed -----------------------------------------------------

static void print_json(const tt_verify_result *r, tt_str *out)
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
    tt_json_i64(&json, "ranks", r->n_ranks);
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

// The heading, with the limits that are applied.
static void print_heading(const tt_verify_result *r, tt_str *out)
{
    tt_str_addf(out, "%s: %d rank%s against one, ", r->model, r->n_ranks,
                r->n_ranks == 1 ? "" : "s");
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

static void print_text(const tt_verify_result *r, tt_str *out)
{
    print_heading(r, out);
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

static tt_status show(const tt_cli *cli, const tt_verify_result *r)
{
    tt_str text = {0};
    if (tt_cli_has(cli, "--json"))
        print_json(r, &text);
    else
        print_text(r, &text);
    return tt_cli_print(&text);
}

// ---- the command ---------------------------------------------------------

static tt_status be_rank(tt_cli *cli, const tt_peers *peers, int *exit_out)
{
    options o;
    tt_verify_result result;
    const char *folder = getenv("TMPDIR");
    TT_TRY(tt_opt_defaults(table, &o, cli->arena));
    TT_TRY(tt_settings_apply(&cli->settings, "", table, &o, cli->arena));
    const tt_verify_subject subject = {
        .settings = &cli->settings,
        .extra = table,
        .peers = peers,
        .steps = o.steps,
        .folder = folder != NULL && folder[0] != '\0' ? folder : "/tmp",
        .arena = cli->arena};
    TT_TRY(tt_verify_settings(&subject, &result));
    if (!tt_peers_is_first(peers))
        return TT_OK;
    *exit_out = result.ok ? TT_EXIT_OK : TT_EXIT_NO;
    return show(cli, &result);
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
    tt_distribution distribution;
    int64_t mesh = 1;
    int32_t n = 1;
    TT_TRY(tt_cli_ranks_count(cli, &n));
    if (n > 1)
        return TT_OK;
    TT_TRY(tt_distribution_read(&cli->settings, cli->arena, &distribution));
    for (int a = 0; a < TT_N_AXES; a++)
        mesh *= distribution.axis[a] > 0 ? distribution.axis[a] : 1;
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
    .has_ranks = true,
    .has_system = true,
    .run = run,
};
