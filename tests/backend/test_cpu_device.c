// The CPU device: the types it says it has, and layouts by their channel blocks.

#include "backend/backend.h"
#include "backend/cpu/cpu.h"
#include "test.h"

TEST(cpu_has_the_same_types_on_every_processor)
{
    const tt_backend_def *cpu = tt_backend_find("cpu");
    CHECK(cpu->has_dtype(TT_BF16));
    CHECK(cpu->has_fast(TT_BF16) == tt__dnnl_has_bf16());
    CHECK(cpu->has_fast(TT_F32));
    CHECK(cpu->has_dtype(TT_F32) && cpu->has_dtype(TT_F64));
    CHECK(cpu->has_dtype(TT_I32) && !cpu->has_dtype(TT_F16));
    CHECK(tt__cpu_is_fast(TT_F32) && !tt__cpu_is_fast(TT_F64));
    CHECK(tt__cpu_is_fast(TT_BF16));
}

TEST(cpu_layouts_know_their_channel_block)
{
    tt__dnnl *dnnl = NULL;
    const tt__dnnl_tensor t = {
        .dtype = TT_F32, .ndim = 4, .dims = {2, 32, 5, 7}};
    const int64_t blocks[] = {16, 8, 32};
    int32_t layout[3];
    CHECK_OK(tt__dnnl_create(1, &dnnl));
    CHECK(tt__dnnl_layout_channel_block(dnnl, 0) == 1);
    for (int i = 0; i < 3; i++)
        CHECK_OK(tt__dnnl_layout_of_blocks(dnnl, &t, blocks[i], &layout[i]));
    for (int i = 0; i < 3; i++) {
        CHECK(tt__dnnl_layout_channel_block(dnnl, layout[i]) == blocks[i]);
        CHECK(tt__dnnl_layout_bytes(dnnl, layout[i]) ==
              (int64_t)2 * 32 * 5 * 7 * 4);
    }
    for (int ndim = 2; ndim <= 6; ndim += 4) { // no images
        const tt__dnnl_tensor other = {
            .dtype = TT_F32, .ndim = ndim, .dims = {2, 32, 5, 7, 3, 3}};
        CHECK_OK(tt__dnnl_layout_of_blocks(dnnl, &other, 16, &layout[0]));
        CHECK(layout[0] == 0);
    }
    tt__dnnl_destroy(dnnl);
}
