// data_sniff - what a file is, and a source that reads it.
//
// Formats with a magic number are tried first, then names, then sizes, and text last,
// since almost everything looks like some text. A .bin file without a header is taken
// for nanoGPT's tokens: nothing in it says so.

#include "base/alloc.h"
#include "base/file.h"
#include "base/utf8.h"
#include "cli/prepare/data.h"
#include "data/format.h"
#include "data/number.h"
#include "data/source/text_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOK = 64 << 10, CIFAR10 = 3073, CIFAR100 = 3074, PIECE = 1 << 18 };

static bool sniff_llmc(const tt_blob *b, tt_sniff *s)
{
    const uint32_t magic = b->n >= 1024 ? tt_u32_at(b->p) : 0;
    if (magic != 20240520 && magic != 20240801)
        return false;
    *s = (tt_sniff){.format = "llm.c tokens",
                    .source = "tokens",
                    .dtype = magic == 20240520 ? "uint16" : "uint32",
                    .kind = TT_SNIFF_TOKENS};
    return true;
}

static bool sniff_megatron(tt_cli *cli, const char *path, const tt_blob *b,
                           tt_sniff *s)
{
    static const char magic[9] = "MMIDIDX";
    const bool is = (b->n >= 9 && memcmp(b->p, magic, sizeof magic) == 0) ||
                    tt_cmd_data_beside(cli, path, ".bin", ".idx") != NULL;
    if (is)
        *s = (tt_sniff){.format = "Megatron tokens",
                        .source = "megatron",
                        .kind = TT_SNIFF_TOKENS};
    return is;
}

// IDX: two zero bytes, the type, the number of dimensions, then the dimensions in
// big-endian order.
static bool sniff_idx(const tt_blob *b, tt_sniff *s)
{
    static const char *const types[] = {
        [0x08] = "uint8", [0x09] = "int8",    [0x0b] = "int16",
        [0x0c] = "int32", [0x0d] = "float32", [0x0e] = "float64"};
    if (b->n < 8 || b->p[0] != 0 || b->p[1] != 0 || b->p[2] > 0x0e ||
        types[b->p[2]] == NULL || b->p[3] < 1 || b->p[3] > 8 ||
        b->n < 4 + 4 * b->p[3])
        return false;
    *s = (tt_sniff){.format = "IDX",
                    .source = "idx",
                    .dtype = types[b->p[2]],
                    .kind = TT_SNIFF_ARRAY,
                    .ndim = b->p[3]};
    for (int i = 0; i < s->ndim; i++)
        s->dim[i] = __builtin_bswap32(tt_u32_at(b->p + 4 * (int64_t)(i + 1)));
    return true;
}

static const struct {
    const char *descr, *name;
} npy_types[] = {
    {"u1", "uint8"},   {"u2", "uint16"},  {"u4", "uint32"},  {"u8", "uint64"},
    {"i1", "int8"},    {"i2", "int16"},   {"i4", "int32"},   {"i8", "int64"},
    {"f2", "float16"}, {"f4", "float32"}, {"f8", "float64"}, {"b1", "bool"},
};

// The source checks the whole header. Here only its two interesting fields are read.
static bool sniff_npy(const tt_blob *b, tt_sniff *s)
{
    char header[512];
    if (b->n < 10 || memcmp(b->p, "\x93NUMPY", 6) != 0)
        return false;
    const int64_t most = b->n - 8 < 511 ? b->n - 8 : 511;
    memcpy(header, b->p + 8, (size_t)most);
    header[most] = '\0';
    for (int64_t i = 0; i < most; i++)
        header[i] = header[i] == '\0' ? ' ' : header[i];
    *s = (tt_sniff){
        .format = "NumPy array", .source = "npy", .kind = TT_SNIFF_ARRAY};
    const char *descr = strstr(header, "'descr': '");
    for (size_t i = 0; descr && i < sizeof npy_types / sizeof *npy_types; i++)
        if (strncmp(descr + 11, npy_types[i].descr, 2) == 0)
            s->dtype = npy_types[i].name;
    const char *p = strstr(header, "'shape': (");
    for (p = p != NULL ? p + 10 : ""; *p >= '0' && *p <= '9' && s->ndim < 8;) {
        char *end = NULL;
        s->dim[s->ndim++] = strtoll(p, &end, 10);
        p = end + strspn(end, ", ");
    }
    if (s->ndim == 1 && s->dtype != NULL && strstr(s->dtype, "int") != NULL)
        s->kind = TT_SNIFF_TOKENS;
    return true;
}

static bool sniff_images(const char *path, const tt_blob *b, tt_sniff *s)
{
    // CIFAR-100's two files have no typical names, but typical sizes.
    const bool is_cifar =
        tt_path_ends(path, ".bin") && b->n > 0 &&
        ((b->n % CIFAR10 == 0 && strstr(tt_path_base(path), "batch") != NULL) ||
         b->n == (int64_t)CIFAR100 * 50000 ||
         b->n == (int64_t)CIFAR100 * 10000);
    const bool is_tar = b->n > 512 && memcmp(b->p + 257, "ustar", 5) == 0;
    if (is_cifar)
        *s = (tt_sniff){.format = "CIFAR",
                        .source = "cifar",
                        .dtype = "uint8",
                        .kind = TT_SNIFF_IMAGES};
    else if (is_tar)
        *s = (tt_sniff){
            .format = "tar", .source = "webdataset", .kind = TT_SNIFF_IMAGES};
    return s->format != NULL;
}

static bool sniff_name(const char *path, const tt_blob *b, tt_sniff *s)
{
    static const char *const tokenizers[] = {"tokenizer.json", "vocab.json",
                                             "encoder.json", "merges.txt",
                                             "vocab.bpe"};
    for (int i = 0; i < 5; i++)
        if (tt_path_ends(path, tokenizers[i])) {
            *s = (tt_sniff){.format = "tokenizer", .kind = TT_SNIFF_TOKENIZER};
            return true;
        }
    if (tt_path_ends(path, ".safetensors"))
        *s = (tt_sniff){.format = "safetensors", .kind = TT_SNIFF_OTHER};
    else if (b->n > 3 && memcmp(b->p, "\xff\xd8\xff", 3) == 0)
        *s = (tt_sniff){.format = "JPEG image", .kind = TT_SNIFF_OTHER};
    else if (b->n > 8 && memcmp(b->p, "\x89PNG\r\n\x1a\n", 8) == 0)
        *s = (tt_sniff){.format = "PNG image", .kind = TT_SNIFF_OTHER};
    return s->format != NULL;
}

static bool is_text(const tt_blob *b)
{
    const int64_t n = b->n < LOOK ? b->n : LOOK;
    const int64_t valid = tt_utf8_valid((const char *)b->p, n);
    // The last character may be cut off where the look ends.
    return (valid == n || (n == LOOK && valid >= n - 3)) &&
           (n == 0 || memchr(b->p, 0, (size_t)n) == NULL);
}

tt_status tt_cmd_data_sniff(tt_cli *cli, const char *path, const tt_blob *blob,
                            tt_sniff *sniff_out)
{
    tt_sniff s = {0};
    if (sniff_llmc(blob, &s) || sniff_megatron(cli, path, blob, &s) ||
        sniff_npy(blob, &s) || sniff_name(path, blob, &s) ||
        sniff_images(path, blob, &s) || sniff_idx(blob, &s)) {
        *sniff_out = s;
        return TT_OK;
    }
    const char *other = tt_format_name(blob->p, blob->n);
    if (other != NULL && tt_path_ends(path, ".npz"))
        s = (tt_sniff){
            .format = "NumPy arrays", .source = "npy", .kind = TT_SNIFF_IMAGES};
    else if (other != NULL)
        s = (tt_sniff){.format = other, .kind = TT_SNIFF_OTHER};
    else if (blob->n == 0)
        s = (tt_sniff){.format = "empty", .kind = TT_SNIFF_OTHER};
    else if (tt_path_ends(path, ".bin"))
        s = (tt_sniff){.format = "tokens without a header (nanoGPT)",
                       .source = "tokens",
                       .kind = TT_SNIFF_TOKENS};
    else if (is_text(blob))
        s = (tt_sniff){.format =
                           tt_text_is_lines(path, "") ? "JSON lines" : "text",
                       .kind = TT_SNIFF_TEXT};
    else
        s = (tt_sniff){.format = "of no known kind", .kind = TT_SNIFF_OTHER};
    *sniff_out = s;
    return TT_OK;
}

tt_status tt_cmd_data_source(tt_cli *cli, const char *path, const char *source,
                             const char *dtype, tt_source **source_out)
{
    const tt_source_def *def = NULL;
    void *params = NULL;
    const tt_source_request request = {
        .path = path, .val = "", .tokenizer = "", .split = TT_SPLIT_TRAIN};
    TT_TRY(tt_source_find(source, &def));
    params = tt_arena_alloc(cli->arena, def->params_bytes);
    if (params == NULL)
        return TT_ERR_NOMEM;
    if (def->options != NULL)
        TT_TRY(tt_opt_defaults(def->options, params, cli->arena));
    if (def->options != NULL && tt_opt_find(def->options, "dtype") != NULL)
        TT_TRY(tt_opt_set(def->options, params, "dtype", dtype, cli->arena));
    return tt_source_open(def, &request, params, source_out);
}

tt_status tt_cmd_data_range(const tt_source *source, int64_t *min_out,
                            int64_t *max_out)
{
    int32_t *ids = tt_alloc(PIECE * (int64_t)sizeof(*ids));
    int32_t min = INT32_MAX, max = INT32_MIN;
    tt_status status = TT_OK;
    if (ids == NULL)
        return tt_fail(TT_ERR_NOMEM, "out of memory");
    for (int64_t at = 0; at < source->n && status == TT_OK; at += PIECE) {
        const int64_t n = source->n - at < PIECE ? source->n - at : PIECE;
        status = tt_source_read_tokens(source, at, n, ids);
        for (int64_t i = 0; i < n && status == TT_OK; i++) {
            min = ids[i] < min ? ids[i] : min;
            max = ids[i] > max ? ids[i] : max;
        }
        if (status == TT_OK && tt_cmd_data_is_stopped())
            status = tt_cmd_data_interrupted();
    }
    tt_free(ids);
    *min_out = source->n > 0 ? min : 0;
    *max_out = source->n > 0 ? max : -1;
    return status;
}
