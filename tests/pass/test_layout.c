// Rules of a layout: which are heard where, how they read and print.

#include "pass/partition/layout.h"
#include "test.h"

#include <stdio.h>
#include <string.h>

static tt_layout read(tt_arena *arena, const char *text)
{
    tt_layout layout = {0};
    CHECK_OK(tt_layout_parse(text, "layout.rules", arena, &layout));
    return layout;
}

TEST(a_layout_prints_what_it_read)
{
    static const char text[] =
        "batch:data heads:tensor batch:expert h.3.*/heads:none fc*/ff:data";
    tt_arena *arena = tt_arena_create();
    const tt_layout layout = read(arena, text);
    tt_str out = {0};
    tt_layout_print(&layout, &out);
    CHECK(strcmp(tt_str_text(&out), text) == 0);
    const tt_layout odd = read(arena, " ,batch:data,, ");
    CHECK(odd.n == 1 && strcmp(odd.rule[0].axis, "data") == 0);
    CHECK(read(arena, "").n == 0);
    tt_str_fini(&out);
    tt_arena_destroy(arena);
}

TEST(a_layout_has_room_for_many_rules)
{
    enum { MANY = 100 };
    tt_arena *arena = tt_arena_create();
    tt_layout layout = {0};
    char name[16];
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "h.%d", i);
        CHECK_OK(tt_layout_add(&layout, arena,
                               &(tt_layout_rule){name, "ff", "data"}));
    }
    CHECK(layout.n == MANY);
    for (int i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "h.%d", i);
        CHECK(strcmp(layout.rule[i].layers, name) == 0);
        CHECK(tt_layout_cuts(&layout, name, "ff", "data"));
    }
    tt_arena_destroy(arena);
}

TEST(a_layout_refuses_what_is_no_rule)
{
    static const char *const wrong[] = {"seq",
                                        "seq:",
                                        ":context",
                                        "/seq:context",
                                        "h.3/",
                                        "h.3/seq",
                                        "seq:a:b",
                                        "h/:context",
                                        "a_name_that_is_far_too_long:x",
                                        "h.1/a_name_that_is_far_too_long:x"};
    tt_arena *arena = tt_arena_create();
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        tt_layout layout = {0};
        CHECK_MSG(tt_layout_parse(wrong[i], "layout.rules", arena, &layout) ==
                      TT_ERR_ARG,
                  "%s is taken", wrong[i]);
        CHECK(strstr(tt_error_message(), "is not like heads:tensor") != NULL);
    }
    tt_arena_destroy(arena);
}

TEST(rules_of_some_layers_silence_those_of_all)
{
    tt_arena *arena = tt_arena_create();
    const tt_layout l = read(
        arena, "batch:data batch:expert heads:tensor ff:tensor h.1/heads:none "
               "h.2/heads:context h.2/heads:data h.?/ff:none h.3/ff:data");
    const struct {
        const char *layer, *dim, *axis;
        bool cuts;
    } table[] = {
        {"transformer.h.0", "heads", "tensor", true},
        {"transformer.h.1", "heads", "tensor", false},
        {"transformer.h.1.attn.c_attn.weight", "heads", "tensor", false},
        {"transformer.h.10", "heads", "tensor", true},
        {"transformer.h.2.attn", "heads", "tensor", false},
        {"transformer.h.2.attn", "heads", "context", true},
        {"transformer.h.2.attn", "heads", "data", true},
        {"transformer.h.1", "batch", "data", true},
        {"transformer.h.1", "batch", "expert", true},
        {"transformer.h.1", "batch", "tensor", false},
        {"transformer.h.0", "ff", "tensor", false},
        {"transformer.h.3", "ff", "data", true},
        {"transformer.h.3", "ff", "tensor", false},
        {"transformer.h.12", "ff", "tensor", true},
        {"", "ff", "tensor", true},
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++)
        CHECK_MSG(tt_layout_cuts(&l, table[i].layer, table[i].dim,
                                 table[i].axis) == table[i].cuts,
                  "%s of %s by %s", table[i].dim, table[i].layer,
                  table[i].axis);
    tt_arena_destroy(arena);
}

TEST(patterns_match_from_dot_to_dot)
{
    CHECK(tt_layout_is_for("h.3", "transformer.h.3"));
    CHECK(tt_layout_is_for("h.3", "transformer.h.3.mlp.c_fc.weight"));
    CHECK(!tt_layout_is_for("h.3", "transformer.h.33"));
    CHECK(!tt_layout_is_for("h.3", "transformer.fresh.3"));
    CHECK(tt_layout_is_for("h.*.mlp", "transformer.h.7.mlp.c_fc.bias"));
    CHECK(!tt_layout_is_for("h.*.mlp", "transformer.h.7.attn.c_attn.bias"));
    CHECK(tt_layout_is_for("h.[0-2]", "transformer.h.2"));
    CHECK(tt_layout_is_for("*", "fc.weight"));
    CHECK(tt_layout_is_for("fc", "fc"));
    CHECK(!tt_layout_is_for("fc", "fc1"));
}
