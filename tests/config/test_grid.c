// From mesh.* and layout.* to a mesh and a layout, and what is refused.

#include "base/alloc.h"
#include "config/distribution.h"
#include "test.h"

#include <string.h>

typedef struct trial {
    tt_arena *arena;
    tt_grid grid;
    tt_status status;
} trial;

// Settings as "mesh.tensor=2 layout.seq=tensor"; words end at "; ".
static trial try_grid(const char *const *setting, int32_t ranks)
{
    trial t = {.arena = tt_arena_create()};
    tt_settings settings = {0};
    tt_distribution distribution;
    for (; *setting != NULL; setting++)
        CHECK_OK(tt_settings_assign(&settings, *setting, "test", t.arena));
    t.status = tt_distribution_read(&settings, t.arena, &distribution);
    if (t.status == TT_OK)
        t.status = tt_grid_make(&distribution, ranks, NULL, t.arena, &t.grid);
    return t;
}

#define GRID(ranks, ...)                                                       \
    try_grid((const char *const[]){__VA_ARGS__, NULL}, ranks)

static void check(const trial *t, const char *mesh, const char *layout,
                  int32_t data)
{
    CHECK_OK(t->status);
    CHECK(strcmp(t->grid.mesh, mesh) == 0);
    CHECK(strcmp(t->grid.layout_text, layout) == 0);
    CHECK(t->grid.data == data);
    tt_arena_destroy(t->arena);
}

static void refused(const trial *t, const char *text)
{
    CHECK(t->status == TT_ERR_ARG);
    CHECK(strstr(tt_error_message(), text) != NULL);
    tt_arena_destroy(t->arena);
}

TEST(ranks_share_the_batch_unless_told_otherwise)
{
    trial t = GRID(4, "zero=0");
    check(&t, "data:4", "batch:data", 4);
    t = GRID(1, "zero=0");
    check(&t, "", "", 1);
    t = GRID(0, "mesh.data=3");
    CHECK(t.grid.ranks == 3);
    check(&t, "data:3", "batch:data", 3);
}

TEST(axes_bring_their_dimensions)
{
    trial t = GRID(8, "mesh.tensor=2", "mesh.context=2");
    check(&t, "data:2 context:2 tensor:2",
          "batch:data heads:tensor kv_heads:tensor ff:tensor vocab:tensor "
          "hidden:tensor seq:context",
          2);
    t = GRID(4, "mesh.tensor=4", "layout.vocab=none", "layout.hidden=none",
             "layout.heads=none", "layout.kv_heads=none",
             "layout.channels=tensor");
    check(&t, "tensor:4", "ff:tensor channels:tensor", 1);
}

TEST(order_says_who_is_near)
{
    trial t =
        GRID(8, "mesh.tensor=2", "mesh.space=2", "mesh.order=tensor, data",
             "layout.heads=none", "layout.kv_heads=none", "layout.ff=none",
             "layout.vocab=none", "layout.hidden=none");
    check(&t, "space:2 tensor:2 data:2", "batch:data height:space", 2);
}

TEST(rules_name_any_dimension)
{
    trial t = GRID(2, "mesh.space=2", "layout.rules=depth:space, rows:space",
                   "layout.height=none");
    check(&t, "space:2", "depth:space rows:space", 1);
}

TEST(layers_have_rules_of_their_own)
{
    trial t =
        GRID(4, "mesh.tensor=2", "layout.h.3.*.heads=none", "layout.fc.ff=data",
             "layout.rules=seq:tensor h.0/ff:none", "layout.kv_heads=none",
             "layout.vocab=none", "layout.hidden=none");
    check(&t, "data:2 tensor:2",
          "seq:tensor h.0/ff:none h.3.*/heads:none fc/ff:data batch:data "
          "heads:tensor ff:tensor",
          2);
}

TEST(what_does_not_fit_is_refused_with_what_would)
{
    trial t = GRID(6, "mesh.tensor=4");
    refused(&t, "mesh.tensor=3 or 8 ranks would do");
    t = GRID(4, "mesh.data=3");
    refused(&t, "the mesh has 3 ranks and there are 4; start 3 (-n 3)");
    t = GRID(4, "mesh.order=data tensr");
    refused(&t, "no axis \"tensr\"; did you mean tensor?");
    t = GRID(4, "mesh.order=data data");
    refused(&t, "names data twice");
    t = GRID(4, "layout.seq=context");
    refused(&t, "no ranks along context; set mesh.context");
    t = GRID(4, "layout.rules=seq");
    refused(&t, "is not like heads:tensor");
    t = GRID(4, "layout.rules=seq:contxt");
    refused(&t, "did you mean context?");
    t = GRID(4, "layout.h.0.seq=context");
    refused(&t, "layout.h.0.seq=context, but the mesh has no ranks along");
    t = GRID(4, "layout.rules=seq:none");
    refused(&t, "layout.seq=none is for all");
}
