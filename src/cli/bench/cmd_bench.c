// bench - measurements, each against the machine's own limit from the same run.

#include "base/settings/opt.h"
#include "cli/bench/bench.h"
#include "cli/launch/team.h"

#include <string.h>

static const struct {
    const char *name;
    tt_status (*run)(tt_cli *cli);
    bool is_alone; // measures one process
} kinds[] = {
    {"step", tt_bench_step, false},  {"gemm", tt_bench_gemm, true},
    {"op", tt_bench_op, true},       {"allreduce", tt_bench_allreduce, false},
    {"codec", tt_bench_codec, true},
};

enum { N_KINDS = sizeof(kinds) / sizeof(kinds[0]) };

static tt_status run(tt_cli *cli, int *exit_out)
{
    (void)exit_out;
    if (tt_cli_has(cli, "-n") &&
        (cli->n_words == 0 || strcmp(cli->word[0], "step") != 0))
        return tt_fail(TT_ERR_ARG, "-n is for bench step%s",
                       cli->n_words > 0 &&
                               strcmp(cli->word[0], "allreduce") == 0
                           ? "; allreduce takes ranks=2,4"
                           : "");
    if (cli->n_words == 0)
        return tt_fail(TT_ERR_ARG,
                       "bench what? step, gemm, op, allreduce or codec");
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, cli->word[0]) == 0)
            return kinds[i].is_alone && tt_cli_is_spare() ? TT_OK
                                                          : kinds[i].run(cli);
    return tt_fail(
        TT_ERR_ARG,
        "unknown benchmark \"%s\"; there are step, gemm, op, allreduce "
        "and codec",
        cli->word[0]);
}

static const tt_flag flags[] = {
    {"-n", "step: ranks, measured in turns with one", "N"},
    {"--json", "results as JSON"},
    {0},
};

const tt_command_def tt_command_bench = {
    .name = "bench",
    .doc = "Measure steps, products, operators, collectives and codecs.",
    .usage = "step|gemm|op|allreduce|codec [FILE.yaml] [key=value ...] [-n N] "
             "[--json]",
    .detail =
        "step: whole training steps (steps=5 warmup=2 trace=FILE).\n"
        "      With -n N on N ranks, in turns with one rank that has an "
        "Nth of the batch.\n"
        "      exposed: communication that steps waited for; hidden: that "
        "passed beside them.\n"
        "gemm: products (m= n= k= precision=); of best: of the fastest "
        "rate seen in this run.\n"
        "op:   where a model's step spends its time, kernel by kernel; of "
        "bound: what products\n"
        "      and copies of this machine allow; cache: faster than "
        "copies, from the cache.\n"
        "allreduce: sums over ranks on this machine (ranks= bytes= "
        "algorithm=).\n"
        "codec: each codec on one core, in turns with a copy (side= runs= "
        "only= device=),\n"
        "      on gradients of FILE.yaml's model after some steps (steps=), or "
        "of a small GPT;\n"
        "      of copy: a copy's time over that of encoding and decoding.",
    .flags = flags,
    .max_words = 1,
    .has_ranks = true,
    .has_system = true,
    .run = run,
};
