// Files of systems: each is whole, each key exists, and meshes adapt to the ranks.

#include "base/settings/yaml.h"
#include "config/keys.h"
#include "system/system.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

enum { LEAST = 80 };

// The settings of the network that a system was published for, then its own on 4
// ranks.
static void settings_of(const tt_system *s, tt_arena *arena, tt_settings *out)
{
    char path[256];
    tt_settings own = {0};
    snprintf(path, sizeof path, "examples/%s.yaml", s->network);
    CHECK_OK(tt_yaml_read(path, arena, out));
    CHECK_OK(tt_system_settings(s, 4, out, arena, &own));
    for (int64_t i = 0; i < own.n; i++)
        CHECK_OK(tt_settings_set(out, own.v[i].key, own.v[i].value,
                                 own.v[i].origin, arena));
}

TEST(every_system_is_whole_and_sets_what_exists)
{
    CHECK(tt_system_count >= LEAST);
    for (int i = 0; i < tt_system_count; i++) {
        tt_arena *arena = tt_arena_create();
        tt_system s;
        tt_settings settings = {0};
        CHECK_OK(tt_system_read(tt_system_files[i].name, arena, &s));
        for (int f = 0; tt_system_fields[f] != NULL; f++)
            CHECK_MSG(tt_system_field(&s, tt_system_fields[f])[0] != '\0',
                      "%s has no %s", s.name, tt_system_fields[f]);
        CHECK_MSG(s.source[0] != '\0' && s.lacks[0] != '\0' && s.year > 1950,
                  "%s has no source", s.name);
        settings_of(&s, arena, &settings);
        const tt_status status = tt_keys_check(&settings, NULL, arena);
        CHECK_MSG(status == TT_OK, "%s: %s", s.name, tt_error_message());
        tt_arena_destroy(arena);
    }
}

static const char *value(const tt_settings *settings, const char *key)
{
    const tt_setting *s = tt_settings_find(settings, key);
    return s != NULL ? s->value : "";
}

// system=NAME among settings of a file and of the command line, on n ranks.
static void apply(const char *name, const char *origin, int64_t n,
                  tt_arena *arena, tt_settings *out)
{
    CHECK_OK(tt_settings_set(out, "system", name, origin, arena));
    CHECK_OK(tt_system_apply(out, n, arena));
}

TEST(n_becomes_a_number_and_micro_batches_divide_the_batch)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0}, odd = {0};
    CHECK_OK(tt_settings_set(&s, "batch", "12", "my.yaml:1:1", arena));
    CHECK_OK(tt_settings_set(&s, "micro", "3", "my.yaml:2:1", arena));
    apply("gpipe", "command line", 4, arena, &s);
    CHECK(strcmp(value(&s, "mesh.pipe"), "4") == 0);
    CHECK(strcmp(value(&s, "accumulate"), "12") == 0); // 16 do not divide it
    CHECK(strcmp(value(&s, "micro"), "0") == 0);
    CHECK_OK(tt_settings_set(&odd, "batch", "10", "my.yaml:1:1", arena));
    apply("dapple", "command line", 4, arena, &odd);
    CHECK(strcmp(value(&odd, "accumulate"), "5") == 0); // two replicas
    tt_arena_destroy(arena);
}

TEST(the_command_line_counts_more_than_a_system_and_a_system_more_than_a_file)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0}, inside = {0}, mesh = {0};
    CHECK_OK(tt_settings_set(&s, "collective", "tree", "my.yaml:1:1", arena));
    CHECK_OK(
        tt_settings_set(&s, "exchange.bucket", "7", "command line", arena));
    apply("ddp", "command line", 4, arena, &s);
    CHECK(strcmp(value(&s, "collective"), "ring") == 0);
    CHECK(strcmp(value(&s, "exchange.bucket"), "7") == 0);
    // A file that names a system changes it.
    CHECK_OK(
        tt_settings_set(&inside, "collective", "tree", "my.yaml:1:1", arena));
    apply("ddp", "my.yaml:2:1", 4, arena, &inside);
    CHECK(strcmp(value(&inside, "collective"), "tree") == 0);
    // Axes that are given leave fewer ranks to the system.
    CHECK_OK(tt_settings_set(&mesh, "mesh.data", "2", "command line", arena));
    apply("gpipe", "command line", 4, arena, &mesh);
    CHECK(strcmp(value(&mesh, "mesh.pipe"), "2") == 0);
    tt_arena_destroy(arena);
}

TEST(a_layout_along_an_axis_of_one_rank_is_left_out)
{
    tt_arena *arena = tt_arena_create();
    tt_settings few = {0}, four = {0}, mine = {0};
    apply("mesh-tensorflow", "command line", 3, arena, &few);
    CHECK(strcmp(value(&few, "mesh.tensor"), "1") == 0);
    CHECK(tt_settings_find(&few, "layout.heads") == NULL);
    apply("mesh-tensorflow", "command line", 4, arena, &four);
    CHECK(strcmp(value(&four, "layout.heads"), "tensor") == 0);
    // Where the user cuts along it, it is there.
    CHECK_OK(tt_settings_set(&mine, "mesh.tensor", "2", "command line", arena));
    apply("mesh-tensorflow", "command line", 2, arena, &mine);
    CHECK(strcmp(value(&mine, "layout.heads"), "tensor") == 0);
    tt_arena_destroy(arena);
}

TEST(a_wrong_number_of_ranks_is_answered_with_right_ones)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    CHECK_OK(
        tt_settings_set(&s, "system", "megatron-3d", "command line", arena));
    CHECK(tt_system_apply(&s, 6, arena) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "-n 4 or -n 8 will do") != NULL);
    CHECK(tt_system_apply(&s, 1, arena) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "1 rank; -n 4 will do") != NULL);
    CHECK_OK(tt_settings_set(&s, "system", "gpip", "command line", arena));
    CHECK(tt_system_apply(&s, 4, arena) == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), "did you mean gpipe?") != NULL);
    tt_arena_destroy(arena);
}
