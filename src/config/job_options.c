// job_options - the tables.

#include "config/job_options.h"

#include <stddef.h>
#include <string.h>

const char *const tt_precision_name[TT_N_PRECISIONS] = {
    [TT_PRECISION_FP32] = "fp32",
    [TT_PRECISION_BF16] = "bf16",
    [TT_PRECISION_FP16] = "fp16",
    [TT_PRECISION_FP64] = "fp64",
    [TT_PRECISION_FP8] = "fp8"};

const tt_opt tt_job_option_table[] = {
    {"model", "gpt", "model or preset: see `tutti list models`", TT_OPT_STR,
     offsetof(tt_job_options, model)},
    {"batch", "8", "samples per step, over all micro-batches", TT_OPT_I64,
     offsetof(tt_job_options, batch), NULL, 1, 1 << 24},
    {"micro", "0", "samples per micro-batch; 0: batch / accumulate", TT_OPT_I64,
     offsetof(tt_job_options, micro), NULL, 0, 1 << 24},
    {"accumulate", "1", "micro-batches per step", TT_OPT_I64,
     offsetof(tt_job_options, accumulate), NULL, 1, 1 << 20},
    {"seq", "0", "tokens per sample; 0: the model's longest", TT_OPT_I64,
     offsetof(tt_job_options, seq), NULL, 0, 1 << 24},
    {"image", "0", "height and width; 0: the model's default", TT_OPT_I64,
     offsetof(tt_job_options, image), NULL, 0, 1 << 16},
    {"precision", "fp32", "of activations and matrix products", TT_OPT_CHOICE,
     offsetof(tt_job_options, precision), "fp32|bf16|fp16|fp64|fp8"},
    {"recompute", "none", "activations: kept, or computed again", TT_OPT_CHOICE,
     offsetof(tt_job_options, recompute), "none|selective|full"},
    {"optim", "adamw", "optimiser: see `tutti list optimisers`", TT_OPT_STR,
     offsetof(tt_job_options, optim)},
    {"smoothing", "0", "label smoothing", TT_OPT_F64,
     offsetof(tt_job_options, smoothing), NULL, 0, 0.999},
    {"device", "cpu", "cpu, cuda, cuda:N, or ref: the slow reference",
     TT_OPT_STR, offsetof(tt_job_options, device)},
    {"threads", "0", "threads; 0: all cores", TT_OPT_I64,
     offsetof(tt_job_options, threads), NULL, 0, 4096},
    {"exact", "false", "the same bits on any number of threads and replicas",
     TT_OPT_BOOL, offsetof(tt_job_options, exact)},
    {"graphs", "true", "a GPU repeats what was recorded once, as CUDA graphs",
     TT_OPT_BOOL, offsetof(tt_job_options, graphs)},
    {"seed", "1", "of initial weights and dropout", TT_OPT_I64,
     offsetof(tt_job_options, seed), NULL, 0, 9e15},
    {0},
};

static const tt_opt common_optim[] = {
    {"lr", "3e-4", "learning rate", TT_OPT_F64, offsetof(tt_job_optim, lr),
     NULL, 0, 1e6},
    {"clip", "1", "largest norm of the gradient; 0: not measured", TT_OPT_F64,
     offsetof(tt_job_optim, clip), NULL, 0, 1e30},
    {"lr_scale", "none", "lr grows with batch / lr_batch", TT_OPT_CHOICE,
     offsetof(tt_job_optim, lr_scale), "none|linear|sqrt"},
    {"lr_batch", "0", "batch that lr was made for; 0: one rank's part",
     TT_OPT_F64, offsetof(tt_job_optim, lr_batch), NULL, 0, 1 << 24},
    {"master", "true",
     "fp32 weights beside bf16 ones; false: rounded at random", TT_OPT_BOOL,
     offsetof(tt_job_optim, master)},
    {"decay", "matrices", "what weight_decay applies to", TT_OPT_CHOICE,
     offsetof(tt_job_optim, decay), "matrices|all"},
    {"no_decay", "", "patterns of names that weight_decay leaves alone",
     TT_OPT_STR, offsetof(tt_job_optim, no_decay)},
    {"lr_groups", "", "rates of their own: PATTERN:FACTOR, ...", TT_OPT_STR,
     offsetof(tt_job_optim, lr_groups)},
    {0},
};

// Options of operators that follow from other settings.
static bool is_internal(const char *name)
{
    return strcmp(name, "low") == 0 || strcmp(name, "random") == 0 ||
           strcmp(name, "seed") == 0;
}

tt_status tt_job_optim_table(const tt_optim_def *optim, tt_arena *arena,
                             const tt_opt **table_out)
{
    const tt_opt_part part[] = {
        {common_optim, 0},
        {tt_schedule_options, offsetof(tt_job_optim, schedule)},
        {optim->op->options, offsetof(tt_job_optim, params)},
    };
    tt_opt *table = NULL;
    TT_TRY(tt_opt_join(part, 3, arena, &table));
    tt_opt *to = table;
    for (const tt_opt *o = table; o->name != NULL; o++)
        if (!is_internal(o->name))
            *to++ = *o;
    *to = (tt_opt){0};
    *table_out = table;
    return TT_OK;
}

tt_status tt_job_find_optim(const char *name, const tt_optim_def **def_out)
{
    int n = 0;
    tt_near near = {.word = name};
    const tt_optim_def *all = tt_optim_all(&n);
    *def_out = tt_optim_find(name);
    if (*def_out != NULL)
        return TT_OK;
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i].name);
    return tt_near_unknown(&near, "optimiser",
                           "`tutti list optimisers` names them all");
}
