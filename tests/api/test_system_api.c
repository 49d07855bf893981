// A system by its name, through the public header.

#include "test.h"
#include "tutti/tutti.h"

#include <string.h>

static void says(const char *text)
{
    CHECK_MSG(strstr(tutti_error(), text) != NULL, "\"%s\" lacks \"%s\"",
              tutti_error(), text);
}

TEST(api_takes_a_system)
{
    static const char *const small[] = {
        "model", "mlp", "model.layers", "1", "model.width", "5",
        "image", "3",   "batch",        "4", "threads",     "1"};
    tutti_session *s = NULL;
    CHECK(tutti_create(&s) == TUTTI_OK);
    for (int i = 0; i < 12; i += 2)
        CHECK(tutti_set(s, small[i], small[i + 1]) == TUTTI_OK);
    CHECK(tutti_set(s, "system", "dpd") == TUTTI_OK);
    CHECK(tutti_plan(s) != TUTTI_OK);
    says("did you mean ddp?");
    CHECK(tutti_set(s, "system", "megatron-3d") == TUTTI_OK);
    CHECK(tutti_plan(s) != TUTTI_OK);
    says("cannot be made of 1 rank");
    CHECK(tutti_set(s, "system", "sublinear") == TUTTI_OK);
    CHECK_MSG(tutti_plan(s) == TUTTI_OK, "%s", tutti_error());
    tutti_destroy(s);
}
