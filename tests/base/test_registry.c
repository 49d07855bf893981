// Members of a kind: listed, found, added, and refused.

#include "base/registry.h"
#include "test.h"

#include <stdio.h>

typedef struct pet_def {
    const char *name, *doc;
} pet_def;

static const pet_def cat = {"cat", "Says meow."};
static const pet_def dog = {"dog", "Says woof."};
static const pet_def *const closed[] = {&cat, &dog};
static const pet_def *open[1 + TT_REGISTRY_ROOM] = {&cat};

const pet_def *const *pet_all(int *n);
const pet_def *pet_find(const char *name);
TT_REGISTRY(pet, closed)

typedef pet_def wild_def;
const wild_def *const *wild_all(int *n);
tt_status wild_register(const wild_def *def);
static const wild_def *wild_look_up(const char *name);
TT_REGISTRY_OPEN(wild, "an animal", open, 1, wild_look_up)

TEST(members_are_listed_in_order_and_found_by_name)
{
    int n = 0;
    CHECK(pet_all(&n)[1] == &dog && n == 2);
    CHECK(pet_find("cat") == &cat && pet_find("dog") == &dog);
    CHECK(pet_find("do") == NULL && pet_find("") == NULL);
}

TEST(members_from_outside_are_refused_by_name_and_when_there_is_no_room)
{
    static char name[TT_REGISTRY_ROOM + 1][16];
    static pet_def more[TT_REGISTRY_ROOM + 1];
    int n = 0;
    CHECK(wild_register(&cat) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "there is an animal \"cat\" already") ==
          0);
    for (int i = 0; i < TT_REGISTRY_ROOM; i++) {
        snprintf(name[i], sizeof name[i], "animal %d", i);
        more[i].name = name[i];
        CHECK_OK(wild_register(&more[i]));
        CHECK(wild_look_up(name[i]) == &more[i]);
    }
    CHECK(wild_all(&n)[TT_REGISTRY_ROOM] == &more[TT_REGISTRY_ROOM - 1]);
    CHECK(n == 1 + TT_REGISTRY_ROOM);
    more[TT_REGISTRY_ROOM].name = "yak";
    CHECK(wild_register(&more[TT_REGISTRY_ROOM]) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "animal yak: 256 were added, there is "
                                     "room for no more") == 0);
    CHECK(wild_look_up("yak") == NULL);
}

TEST(a_wrong_name_is_told_what_it_meant)
{
    tt_near near = {.word = "dgo"};
    tt_near_try(&near, "cat");
    CHECK(tt_near_unknown(&near, "pet", NULL) == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "unknown pet \"dgo\"") == 0);
    CHECK(tt_near_unknown(&near, "pet", "ask") == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(), "unknown pet \"dgo\"; ask") == 0);
    tt_near_try(&near, "dog");
    tt_near_try(&near, "dig");
    CHECK(tt_near_unknown(&near, "pet", "ask") == TT_ERR_ARG);
    CHECK(strcmp(tt_error_message(),
                 "unknown pet \"dgo\"; did you mean dog?") == 0);
}
