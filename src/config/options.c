// options - the tables, and reading them.

#include "config/options.h"

#include "ops/scaling.h"

#define AT(field) offsetof(tt_train_options, field)

static const tt_opt train[] = {
    {"steps", "0", "updates to make; 0: as many as epochs take", TT_OPT_I64,
     AT(steps), NULL, 0, 9e15},
    {"epochs", "0", "times to see the data; with steps: what ends first",
     TT_OPT_F64, AT(epochs), NULL, 0, 1e9},
    {"stop", "0", "save and end at this step, to go on later; 0: never",
     TT_OPT_I64, AT(stop), NULL, 0, 9e15},
    {"ema", "0", "decay of averaged weights, used to evaluate; 0: none",
     TT_OPT_F64, AT(ema), NULL, 0, 0.9999999},
    {"freeze", "", "weights to leave as they are: names with * and ?",
     TT_OPT_STR, AT(freeze)},
    {"nan", "stop", "after a loss or gradient that is not finite",
     TT_OPT_CHOICE, AT(nan), "stop|skip|rollback"},
    {"spike", "none", "after a loss far above the recent ones", TT_OPT_CHOICE,
     AT(spike), "none|skip|rollback"},
    {"spike_sigma", "6", "standard deviations that make a spike", TT_OPT_F64,
     AT(spike_sigma), NULL, 0.1, 1e6},
    {"back", "20", "steps that a rollback undoes at least", TT_OPT_I64,
     AT(back), NULL, 1, 1e9},
    {"patience", "0", "evaluations without a new best before the end; 0: any",
     TT_OPT_I64, AT(patience), NULL, 0, 1e9},
    {0},
};

static const tt_opt eval[] = {
    {"every", "0", "steps between evaluations; 0: at the end only", TT_OPT_I64,
     AT(eval_every), NULL, 0, 9e15},
    {"batches", "0", "batches of validation data to see; 0: all", TT_OPT_I64,
     AT(eval_batches), NULL, 0, 9e15},
    {0},
};

static const tt_opt sample[] = {
    {"every", "0", "steps between samples of text; 0: never", TT_OPT_I64,
     AT(sample_every), NULL, 0, 9e15},
    {"prompt", "", "what they begin with", TT_OPT_STR, AT(prompt)},
    {"tokens", "100", "how long they are", TT_OPT_I64, AT(sample_tokens), NULL,
     1, 1 << 24},
    {"temperature", "0.8", "0: always the likeliest token", TT_OPT_F64,
     AT(temperature), NULL, 0, 1e3},
    {"top_k", "0", "only among this many of the likeliest; 0: all", TT_OPT_I64,
     AT(top_k), NULL, 0, 1 << 24},
    {"top_p", "1", "only among those that make up this probability", TT_OPT_F64,
     AT(top_p), NULL, 0, 1},
    {0},
};

static const tt_opt checkpoint[] = {
    {"every", "1000", "steps between checkpoints; 0: at the end only",
     TT_OPT_I64, AT(save_every), NULL, 0, 9e15},
    {"minutes", "15",
     "and at least so often, until the next one; 0: by steps only", TT_OPT_F64,
     AT(save_minutes), NULL, 0, 1e6},
    {"keep", "2", "newest ones to keep", TT_OPT_I64, AT(keep), NULL, 1, 1e9},
    {"keep_every", "0", "and those at multiples of this step; 0: none",
     TT_OPT_I64, AT(keep_every), NULL, 0, 9e15},
    {"best", "true", "and the one with the lowest validation loss", TT_OPT_BOOL,
     AT(keep_best)},
    {"memory", "0", "bytes for copies of states in parts; 0: as training takes",
     TT_OPT_I64, AT(save_memory), NULL, 0, 9e15},
    {0},
};

static const tt_opt logging[] = {
    {"every", "10", "steps between two lines of metrics", TT_OPT_I64,
     AT(log_every), NULL, 1, 9e15},
    {"tensorboard", "true", "write TensorBoard events too", TT_OPT_BOOL,
     AT(tensorboard)},
    {"trace", "", "Chrome trace of all ranks: a file, or true: trace.json",
     TT_OPT_STR, AT(trace)},
    {0},
};

static const tt_opt init[] = {
    {"from", "", "weights to start from: a folder or a file of them",
     TT_OPT_STR, AT(from)},
    {"skip", "", "of these, weights to begin anew: names with * and ?",
     TT_OPT_STR, AT(skip)},
    {0},
};

static const tt_opt bn[] = {
    {"group", "0", "samples batch norm takes together; 0: the micro-batch",
     TT_OPT_I64, AT(bn_group), NULL, 0, 1 << 24},
    {0},
};

static const tt_opt exact[] = {
    {"blocks", "4", "blocks of a micro-batch: at most so many ranks share it",
     TT_OPT_I64, AT(blocks), NULL, 1, 4096},
    {0},
};

static const tt_opt loss_scale[] = {
    {"initial", "1024", "precision=fp16: the first factor on the loss",
     TT_OPT_F64, AT(loss_scale), NULL, TT_LOSS_SCALE_LEAST, TT_LOSS_SCALE_MOST},
    {"growth", "1000", "steps without overflow before it doubles; 0: never",
     TT_OPT_I64, AT(loss_scale_growth), NULL, 0, 1e6},
    {0},
};

static const tt_opt top[] = {
    {"run", "", "folder of the run; default: runs/ and the file's name",
     TT_OPT_STR, AT(run)},
    {0},
};

const tt_section tt_train_sections[] = {
    {"", top},
    {"train", train},
    {"eval", eval},
    {"sample", sample},
    {"checkpoint", checkpoint},
    {"log", logging},
    {"init", init},
    {"bn", bn},
    {"exact", exact},
    {"loss_scale", loss_scale},
    {NULL, NULL},
};
