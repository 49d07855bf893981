#include "backend/cuda/paper.h"

#include "base/alloc.h"

#include <stdio.h>

enum { CORES = 132, COLUMN_CHUNKS = 64, NORM_BLOCKS = 4 * CORES };
static const int64_t workspace = 32 << 20; // that cuBLASLt and cuDNN may use

// What the table calls a gemm, an sdpa or a conv.
typedef struct note {
    int64_t scratch;
} note;

static const char *make_note(int64_t scratch, void **out)
{
    note *n = tt_alloc(sizeof *n);
    if (n == NULL)
        return "no memory";
    n->scratch = scratch;
    *out = n;
    return NULL;
}

// ---- the device ----------------------------------------------------------

static int devices(void)
{
    return 1;
}

static const char *open(int device, const tt_cuda_memo *memo,
                        tt_cuda **cuda_out)
{
    (void)device, (void)memo;
    *cuda_out = NULL; // nothing is kept of it
    return NULL;
}

static void close(tt_cuda *cuda)
{
    (void)cuda;
}

static const char *info(tt_cuda *cuda, tt_cuda_info *info_out)
{
    (void)cuda;
    *info_out = (tt_cuda_info){.major = 9, .cores = CORES};
    snprintf(info_out->name, sizeof info_out->name, "a GPU that is not here");
    return NULL;
}

static const char *beside_create(tt_cuda *cuda, bool is_in,
                                 tt_cuda_beside **out)
{
    void *made = NULL;
    (void)cuda, (void)is_in;
    const char *error = make_note(0, &made);
    *out = made;
    return error;
}

static void beside_destroy(tt_cuda_beside *beside)
{
    tt_free(beside);
}

// ---- scratch -------------------------------------------------------------

static int64_t reduce_scratch(const tt_cuda_reduce_args *a)
{
    return a->inner == 1 ? 0 : 4 * a->outer * a->inner * COLUMN_CHUNKS;
}

static int64_t norm_scratch(const tt_cuda_norm_args *a)
{
    return 12 * a->n * NORM_BLOCKS;
}

// Keys and places, both sorted, and rows that are joined.
static int64_t embed_scratch(const tt_cuda_embed_args *a)
{
    return 16 * a->n + 8 * (a->n / 32 + 1) * a->width + 8 * a->n + (1 << 16);
}

static int64_t bn_scratch(const tt_cuda_bn_args *a)
{
    return 4 * (2 * a->rows + 8 * a->groups + NORM_BLOCKS) * a->channels;
}

static int64_t route_scratch(const tt_cuda_route_args *a)
{
    return 8 * a->groups + 4 * a->groups * a->tokens * a->choices +
           4 * a->groups * a->experts;
}

static int64_t topk_scratch(int64_t n)
{
    return (1 << 14) + n / 64;
}

static const char *fp8_pack_open(tt_cuda *cuda)
{
    (void)cuda;
    return NULL;
}

static int64_t fp8_pack_scratch(const tt_cuda_fp8_pack_args *a)
{
    return 4 * (a->rows / 64 + 1 + COLUMN_CHUNKS) * a->cols;
}

// ---- products, attention, convolutions -----------------------------------

static const char *gemm_create(tt_cuda *cuda, const tt_cuda_gemm_desc *d,
                               tt_cuda_gemm **gemm_out)
{
    void *made = NULL;
    // Where a product's inner dimension is cut, its parts lie here in f32.
    const int64_t parts = 16 * d->batch * d->m * d->n;
    (void)cuda;
    const char *error = make_note(parts < workspace ? parts : workspace, &made);
    *gemm_out = made;
    return error;
}

static void gemm_destroy(tt_cuda_gemm *gemm)
{
    tt_free(gemm);
}

static int64_t gemm_scratch(const tt_cuda_gemm *gemm)
{
    return ((const note *)(const void *)gemm)->scratch;
}

static const char *sdpa_create(tt_cuda *cuda, const tt_cuda_attention_args *a,
                               bool is_grad, tt_cuda_sdpa **sdpa_out)
{
    const bool is_low = a->type == TT_BF16 || a->type == TT_F16;
    void *made = NULL;
    const char *error = NULL;
    (void)cuda;
    // Sums of dQ in f32, and what softmax needs of a row.
    const int64_t sums = 4 * a->batch * a->q_heads * a->q_len * (a->head + 2);
    if (is_low && a->head % 8 == 0 && a->head <= 256)
        error = make_note(is_grad ? sums : 256, &made);
    *sdpa_out = made;
    return error;
}

static void sdpa_destroy(tt_cuda_sdpa *sdpa)
{
    tt_free(sdpa);
}

static int64_t sdpa_scratch(const tt_cuda_sdpa *sdpa)
{
    return ((const note *)(const void *)sdpa)->scratch;
}

static const char *conv_create(tt_cuda *cuda, const tt_cuda_conv_desc *d,
                               tt_cuda_conv **conv_out)
{
    void *made = NULL;
    int64_t weights = d->groups * d->c * d->o;
    (void)cuda;
    for (int i = 0; i < TT_CUDA_SPACE; i++)
        weights *= d->slide[i].kernel;
    const char *error = make_note(workspace + 8 * weights, &made);
    *conv_out = made;
    return error;
}

static void conv_destroy(tt_cuda_conv *conv)
{
    tt_free(conv);
}

static int64_t conv_scratch(const tt_cuda_conv *conv)
{
    return ((const note *)(const void *)conv)->scratch;
}

const tt_cuda_api tt__cuda_paper = {
    .version = "",
    .bytes = sizeof(tt_cuda_api),
    .devices = devices,
    .open = open,
    .close = close,
    .info = info,
    .beside = {.create = beside_create, .destroy = beside_destroy},
    .reduce_scratch = reduce_scratch,
    .norm_scratch = norm_scratch,
    .embed_scratch = embed_scratch,
    .bn_scratch = bn_scratch,
    .route_scratch = route_scratch,
    .topk_scratch = topk_scratch,
    .fp8_pack_open = fp8_pack_open,
    .fp8_pack_scratch = fp8_pack_scratch,
    .gemm_create = gemm_create,
    .gemm_destroy = gemm_destroy,
    .gemm_scratch = gemm_scratch,
    .sdpa_create = sdpa_create,
    .sdpa_destroy = sdpa_destroy,
    .sdpa_scratch = sdpa_scratch,
    .conv_create = conv_create,
    .conv_destroy = conv_destroy,
    .conv_scratch = conv_scratch,
};
