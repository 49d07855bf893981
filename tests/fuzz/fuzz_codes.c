// fuzz_codes - the decoders of codecs. Codes come from other machines: any bytes may.
//
//   byte 0   which decoder
//   byte 1   how many numbers, which options; the highest bit: what follows is a whole
//            packet, else it is a body that gets a right header
//
// The reference and the kernel of the CPU read the same code. They must come to the same
// verdict, and to the same numbers where they accept it. Memory ends where the packet
// ends, so that the sanitizers see what is read beyond it.

#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "ops/codec/codes.h"
#include "ops/ops.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const tt_op_def *const ops[] = {
    &tt_op_int8_sum,      &tt_op_onebit_sum,  &tt_op_sign_sum,
    &tt_op_twobit_sum,    &tt_op_ternary_sum, &tt_op_natural_sum,
    &tt_op_qsgd_sum,      &tt_op_threelc_sum, &tt_op_topk_sum,
    &tt_op_threshold_sum,
};
enum { N_OPS = sizeof ops / sizeof ops[0] };

static const tt_kernel_def *const kernels[2][3] = {
    {tt__ref_code_blocks_kernels, tt__ref_code_entropy_kernels,
     tt__ref_code_sparse_kernels},
    {tt__cpu_code_kernels, tt__cpu_code_entropy_kernels,
     tt__cpu_code_sparse_kernels},
};

static const tt_kernel_def *find(int backend, const tt_op_def *op)
{
    for (int f = 0; f < 3; f++)
        for (const tt_kernel_def *k = kernels[backend][f]; k->run != NULL; k++)
            if (k->op == op)
                return k;
    abort();
}

static tt_operand operand(tt_dtype dtype, int64_t n)
{
    tt_operand o = {.dtype = dtype};
    if (tt_shape_push(&o.local.shape, "n", n) != TT_OK)
        abort();
    tt_operand_set_dense(&o);
    return o;
}

static void *room(int64_t bytes)
{
    void *data = tt_alloc(bytes);
    if (data == NULL)
        abort();
    return data;
}

// Whether a decoder takes the packet.
static bool decode(int backend, tt_site *site, const void *packet, float *y)
{
    const tt_kernel_def *kernel = find(backend, site->op);
    tt_prepared prepared = {0};
    if (kernel->prepare != NULL &&
        kernel->prepare(NULL, site, &prepared) != TT_OK)
        abort();
    void *scratch = prepared.scratch_bytes > 0
                        ? tt_alloc_aligned(prepared.scratch_bytes, 64)
                        : NULL;
    const void *in[] = {packet, NULL};
    void *out[] = {y};
    const tt_args args = {.in = in, .out = out, .scratch = scratch};
    const tt_status status = kernel->run(NULL, site, &args);
    if (status != TT_OK && status != TT_ERR_PEER)
        abort();
    tt_free_aligned(scratch);
    return status == TT_OK;
}

static void write_packet(const tt_site *site, tt_packet about, bool is_whole,
                         const uint8_t *data, int64_t n, uint8_t *packet)
{
    uint8_t *body = packet + TT_PACKET_HEADER;
    const int64_t most =
        is_whole ? about.capacity : about.capacity - TT_PACKET_HEADER;
    const int64_t bytes = n < most ? n : most;
    memcpy(is_whole ? packet : body, data, (size_t)bytes);
    if (is_whole)
        return;
    const tt_packet_kind kind = about.kind;
    if (kind != TT_PACKET_SPARSE && kind != TT_PACKET_THRESHOLD)
        about.options = tt_code_digest(site->params);
    tt_packet_close(&about, packet, TT_PACKET_HEADER + bytes,
                    tt_packet_hash(body, bytes));
}

static void compare(const float *a, const float *b, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (a[i] != b[i] && !(isnan(a[i]) && isnan(b[i])))
            abort();
}

FUZZ(codes)
{
    static const int64_t counts[] = {1, 7, 64, 77, 600, 1000, 1025, 5000};
    static const char *const options[4] = {"", "block=8", "levels=127",
                                           "levels=3 block=64"};
    if (n < 2)
        return;
    const tt_op_def *op = ops[data[0] % N_OPS];
    const int64_t count = counts[data[1] % 8];
    const char *text = options[data[1] / 8 % 4];
    tt_arena *arena = tt_arena_create();
    void *params =
        arena == NULL ? NULL : tt_arena_alloc(arena, op->params_bytes);
    if (params == NULL || tt_opt_defaults(op->options, params, arena) != TT_OK)
        abort();
    // What an operator does not know it refuses; its defaults stay.
    (void)tt_opt_parse(op->options, params, text, arena);
    const tt_packet_form *form = op->family;
    const tt_packet about = {.kind = form->kind,
                             .n = count,
                             .capacity = tt_packet_capacity(
                                 tt_packet_body(form, params, count, TT_F32))};
    tt_operand in[] = {operand(TT_U8, about.capacity), operand(TT_F32, count)};
    tt_operand out[] = {operand(TT_F32, count)};
    tt_site site = {.op = op,
                    .params = params,
                    .origin = "fuzz",
                    .n_in = 2,
                    .n_out = 1,
                    .in = in,
                    .out = out};
    uint8_t *packet = room(about.capacity);
    float *y[2] = {room(4 * count), room(4 * count)};
    write_packet(&site, about, data[1] >= 128, data + 2, (int64_t)n - 2,
                 packet);
    const bool ref = decode(0, &site, packet, y[0]);
    const bool cpu = decode(1, &site, packet, y[1]);
    if (ref != cpu)
        abort();
    if (ref)
        compare(y[0], y[1], count);
    tt_free(y[0]);
    tt_free(y[1]);
    tt_free(packet);
    tt_arena_destroy(arena);
}
