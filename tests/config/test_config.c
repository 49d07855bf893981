// All settings are read once, into one struct.

#include "config/config.h"
#include "test.h"

#include <string.h>

static tt_config read(const char *const *text, tt_arena *arena,
                      tt_settings *settings)
{
    tt_config config;
    for (; *text != NULL; text++)
        CHECK_OK(tt_settings_assign(settings, *text, "test", arena));
    CHECK_OK(tt_config_read(settings, NULL, arena, &config));
    return config;
}

TEST(a_configuration_of_nothing_is_the_defaults_of_the_tables)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    const tt_config c = read((const char *[]){NULL}, arena, &settings);
    CHECK(strcmp(c.top.model, tt_config_text(&settings, "model")) == 0);
    CHECK(strcmp(c.model->name, c.top.model) == 0 && c.preset == NULL);
    CHECK(strcmp(c.optim->name, c.top.optim) == 0);
    CHECK(c.top.seed == 1 && c.top.image == 0 && c.top.seq == 0);
    CHECK(c.exchange.bucket == 0 && c.exchange.order == 0);
    CHECK(strcmp(c.distribution.collective, "auto") == 0);
    CHECK(tt_config_model_i64(&c, "layers") > 0);
    CHECK(tt_config_model_i64(&c, "no such option") == 0);
    tt_arena_destroy(arena);
}

TEST(a_preset_comes_before_what_is_set)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    const tt_config c =
        read((const char *[]){"model=gpt2-124m", "model.layers=3",
                              "mesh.tensor=2", "layout.h.1.ff=none",
                              "exchange.bucket=7", "bn.group=4", NULL},
             arena, &settings);
    CHECK(c.preset != NULL && strcmp(c.model->name, "gpt") == 0);
    CHECK(tt_config_model_i64(&c, "layers") == 3);
    CHECK(tt_config_model_i64(&c, "width") == 768);
    CHECK(c.distribution.axis[TT_AXIS_TENSOR] == 2 && c.exchange.bucket == 7);
    CHECK(strcmp(c.distribution.rules, "h.1/ff:none") == 0);
    CHECK(c.train.bn_group == 4);
    for (int64_t i = 0; i < settings.n; i++)
        CHECK_MSG(settings.v[i].used, "%s", settings.v[i].key);
    tt_arena_destroy(arena);
}

TEST(what_follows_from_others_reaches_struct_and_settings)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_config c = read((const char *[]){"seq=8", NULL}, arena, &settings);
    const tt_setting vocab = {"model.vocab", "77", "the data", false};
    const tt_setting image = {"image", "32", "the data", false};
    const tt_setting typo = {"model.vocap", "77", "the data", false};
    CHECK_OK(tt_config_set(&c, &settings, &vocab, arena));
    CHECK_OK(tt_config_set(&c, &settings, &image, arena));
    CHECK(tt_config_model_i64(&c, "vocab") == 77 && c.top.image == 32);
    CHECK(strcmp(tt_settings_get(&settings, "model.vocab"), "77") == 0);
    CHECK(c.top.seq == 8);
    CHECK(tt_config_set(&c, &settings, &typo, arena) == TT_ERR_ARG);
    tt_arena_destroy(arena);
}

TEST(an_unknown_key_is_found_before_anything_is_read)
{
    tt_arena *arena = tt_arena_create();
    tt_settings settings = {0};
    tt_config c;
    CHECK_OK(tt_settings_assign(&settings, "seed=1", "test", arena));
    CHECK_OK(tt_settings_assign(&settings, "exchange.codecs=1", "test", arena));
    CHECK(tt_config_read(&settings, NULL, arena, &c) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "exchange.codecs") != NULL);
    CHECK(!settings.v[0].used);
    tt_arena_destroy(arena);
}
