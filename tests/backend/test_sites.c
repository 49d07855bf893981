// Conditions on sites: which types a character stands for, and that every operand is
// looked at.

#include "backend/sites.h"
#include "ops/ops.h"
#include "test.h"

#include <string.h>

enum { N = 3 };

static tt_operand in[N], out[N];

static tt_site site_of(tt_dtype dtype)
{
    for (int i = 0; i < N; i++)
        in[i] = out[i] = (tt_operand){.dtype = dtype};
    return (tt_site){
        .op = &tt_op_add, .n_in = N, .n_out = N, .in = in, .out = out};
}

TEST(characters_stand_for_types)
{
    static const struct {
        char code;
        const char *dtypes; // that it stands for
    } cases[] = {
        {'x', "f32 bf16"},     {'t', "f32 bf16"},
        {'y', "f32 bf16 f16"}, {'s', "f32 bf16 f16"},
        {'f', "f32"},          {'b', "bf16"},
        {'i', "i32"},          {'I', "i64"},
        {'u', "u8"},           {'?', ""},
    };
    for (int k = 0; k < (int)(sizeof cases / sizeof cases[0]); k++)
        for (int d = 0; d < TT_N_DTYPES; d++) {
            const char code[] = {cases[k].code, '\0'};
            const char *name = tt_dtype_name((tt_dtype)d);
            char words[32], *rest = NULL;
            bool want = false;
            strcpy(words, cases[k].dtypes);
            for (char *w = strtok_r(words, " ", &rest); w != NULL;
                 w = strtok_r(NULL, " ", &rest))
                want = want || strcmp(w, name) == 0;
            const tt_site site = site_of((tt_dtype)d);
            CHECK_MSG(tt__site_has_types(&site, code, code) == want,
                      "%s for %s", code, name);
        }
}

TEST(some_types_are_those_of_the_first_input)
{
    const tt_site site = site_of(TT_F32);
    in[1].dtype = TT_BF16;
    CHECK(tt__site_has_types(&site, "x", "x"));
    CHECK(!tt__site_has_types(&site, "t", "x"));
    CHECK(!tt__site_has_types(&site, "s", "x"));
    CHECK(tt__site_has_types(&site, "txt", "t"));
}

TEST(every_operand_is_looked_at)
{
    for (int i = 0; i < 2 * N; i++) {
        tt_site site = site_of(TT_F32);
        tt_operand *o = i < N ? &in[i] : &out[i - N];
        CHECK(tt__site_is_plain(&site) && tt__site_has_types(&site, "f", "f"));
        o->layout = 1;
        CHECK(!tt__site_is_plain(&site));
        CHECK(!tt__site_has_types(&site, "f", "f"));
        CHECK(tt__site_has_types_in_layouts(&site, "f", "f"));
        o->layout = 0;
        o->dtype = TT_F64;
        CHECK(!tt__site_has_types(&site, "f", "f"));
        CHECK(!tt__site_has_types_in_layouts(&site, "f", "f"));
    }
}

TEST(inputs_that_are_absent_have_any_type)
{
    const tt_site site = site_of(TT_F32);
    in[2].dtype = TT_N_DTYPES;
    in[2].layout = 1;
    CHECK(tt__site_is_plain(&site) && tt__site_has_types(&site, "f", "f"));
}

static tt_local part_of(tt_place place, int rank)
{
    tt_mesh mesh = {.n_axes = 1};
    tt_type type = {.dtype = TT_F32, .place = {place}};
    tt_local local;
    mesh.axis[0].size = 2;
    memcpy(mesh.axis[0].name, "x", 2);
    CHECK_OK(tt_shape_push(&type.shape, "a", 8));
    CHECK_OK(tt_shape_push(&type.shape, "b", 3));
    tt_local_of(&type, &mesh, rank, &local);
    return local;
}

// Zigzag: rank 0 has entries 0, 1, 6, 7 and rank 1 has 2 to 5.
TEST(runs_of_entries_are_known)
{
    const tt_place zigzag = {.kind = TT_SPLIT, .zigzag = true};
    const tt_local whole = part_of(tt_place_replicate(), 1);
    const tt_local half = part_of(tt_place_split(0), 1);
    const tt_local ends = part_of(zigzag, 0), middle = part_of(zigzag, 1);
    int64_t first = -1;
    tt__site_runs runs;
    CHECK(tt__is_run(&whole, 0, &first) && first == 0);
    CHECK(tt__is_run(&half, 0, &first) && first == 4);
    CHECK(tt__is_run(&half, 1, &first) && first == 0);
    CHECK(tt__is_run(&middle, 0, &first) && first == 2);
    CHECK(!tt__is_run(&ends, 0, &first));
    CHECK(tt__are_runs(&half, 0, &runs) && runs.first == 4 && runs.gap == 0);
    CHECK(tt__are_runs(&ends, 0, &runs));
    CHECK(runs.first == 0 && runs.turn == 2 && runs.gap == 4);
}
