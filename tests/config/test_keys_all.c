// Every setting there is: what the tables say about each of them.

#include "base/settings/opt.h"
#include "config/aliases.h"
#include "config/keys.h"
#include "test.h"

#include <string.h>

static bool is_number(const tt_opt *opt)
{
    return opt->type == TT_OPT_I64 || opt->type == TT_OPT_F64 ||
           opt->type == TT_OPT_I64S || opt->type == TT_OPT_F64S;
}

// Without one, infinity and nonsense would pass for a value.
TEST(settings_with_numbers_have_a_range)
{
    tt_arena *arena = tt_arena_create();
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    CHECK(tt_keys_all(arena, &row, &n) == TT_OK && n > 150);
    for (int64_t i = 0; i < n; i++)
        CHECK_MSG(!is_number(row[i].opt) || row[i].opt->max > row[i].opt->min,
                  "%s (%s) has no range", row[i].key, row[i].of);
    tt_arena_destroy(arena);
}

TEST(settings_are_known_by_what_has_them)
{
    tt_arena *arena = tt_arena_create();
    const tt_keys_row *row = NULL;
    int64_t n = 0, heads = 0;
    CHECK(tt_keys_all(arena, &row, &n) == TT_OK);
    for (int64_t i = 0; i < n; i++) {
        if (strcmp(row[i].key, "optim.lr") == 0)
            CHECK(row[i].of[0] == '\0'); // of all optimisers
        if (strcmp(row[i].key, "optim.nesterov") == 0)
            CHECK(strstr(row[i].of, "momentum") != NULL);
        heads += strcmp(row[i].key, "model.heads") == 0;
        for (int64_t k = 0; k < i; k++)
            CHECK(strcmp(row[i].key, row[k].key) != 0 ||
                  strcmp(row[i].of, row[k].of) != 0);
    }
    CHECK(heads >= 2); // attention heads, query heads
    tt_arena_destroy(arena);
}

// What is suggested for a word of other programs must itself be known.
TEST(settings_that_are_meant_are_known)
{
    static const char *const words[] = {
        "tp",          "dp",         "pp",         "cp",
        "ep",          "lr",         "epochs",     "batch_size",
        "max_steps",   "optimizer",  "grad_clip",  "n_layer",
        "n_head",      "n_embd",     "vocab_size", "dropout",
        "data_dir",    "out_dir",    "seq_len",    "num_workers",
        "dtype",       "rng_seed",   "wd",         "min_lr",
        "scheduler",   "block_size", "ema_decay",  "eval_interval",
        "log_interval"};
    tt_arena *arena = tt_arena_create();
    const tt_keys_row *row = NULL;
    int64_t n = 0;
    CHECK(tt_keys_all(arena, &row, &n) == TT_OK);
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++) {
        const char *key = tt_alias_key(words[w]);
        bool is_known = false;
        for (int64_t i = 0; i < n && key != NULL; i++)
            is_known = is_known || strcmp(row[i].key, key) == 0;
        CHECK_MSG(is_known, "%s means %s", words[w],
                  key != NULL ? key : "nothing");
    }
    CHECK(strcmp(tt_alias_value("precision", "BFloat16"), "bf16") == 0);
    CHECK(tt_alias_value("precision", "bf16") == NULL);
    CHECK(tt_alias_value("model", "float32") == NULL);
    tt_arena_destroy(arena);
}
