// megatron - PREFIX.bin with token ids and PREFIX.idx that says where sequences
// are. The stream is all sequences in the order of the index.
//
//   0   "MMIDIDX\0\0"   9   u64 version   17  u8 type   18  u64 sequences
//   26  u64 documents + 1   34  i32 lengths   then i64 offsets, i64 documents
//
// Both files are mapped. To find token number k, one must know how many tokens come
// before each sequence, which the index does not say. A sum per sequence would take
// memory for all of them. So only the place of every STRIDE-th sequence is remembered:
// a binary search finds the nearest one, and lengths are added up from there.

#include "base/alloc.h"
#include "data/files.h"
#include "data/number.h"
#include "data/source/source.h"
#include "data/source/source_tokenizer.h"

#include <string.h>

enum { HEADER_BYTES = 34, STRIDE = 64 };

static const char magic[9] = "MMIDIDX";

static const tt_number types[] = {
    [1] = {'u', 1, false}, [2] = {'i', 1, false}, [3] = {'i', 2, false},
    [4] = {'i', 4, false}, [5] = {'i', 8, false}, [8] = {'u', 2, false},
};

typedef struct megatron {
    tt_source source;
    tt_arena *arena;
    const char *bin_path, *idx_path;
    tt_blob bin, idx;
    tt_number type;
    int64_t n; // sequences
    const uint8_t *lengths, *offsets;
    int64_t *place; // in the stream, of sequence i * STRIDE
    int64_t first;  // token of the index that is the stream's first
} megatron;

static int64_t length_of(const megatron *m, int64_t i)
{
    return (int32_t)tt_u32_at(m->lengths + 4 * i);
}

static int64_t offset_of(const megatron *m, int64_t i)
{
    return (int64_t)tt_u64_at(m->offsets + 8 * i);
}

static tt_status read_type(megatron *m)
{
    const int code = m->idx.p[17];
    if (code == 6 || code == 7)
        return tt_fail(TT_ERR_ARG,
                       "holds floating-point numbers, and ids are whole");
    if (code >= (int)(sizeof types / sizeof *types) || types[code].bytes == 0)
        return tt_fail(TT_ERR_ARG, "has an unknown type of ids, %d", code);
    m->type = types[code];
    return TT_OK;
}

static tt_status read_header(megatron *m)
{
    const tt_blob *idx = &m->idx;
    if (idx->n < HEADER_BYTES || memcmp(idx->p, magic, sizeof magic) != 0)
        return tt_fail(TT_ERR_ARG, "not an index of Megatron");
    if (tt_u64_at(idx->p + 9) != 1)
        return tt_fail(TT_ERR_ARG, "has version %llu; only 1 is known",
                       (unsigned long long)tt_u64_at(idx->p + 9));
    TT_TRY(read_type(m));
    const uint64_t s = tt_u64_at(idx->p + 18), d = tt_u64_at(idx->p + 26);
    const uint64_t room = (uint64_t)idx->n - HEADER_BYTES;
    const bool is_plain =
        s <= room / 12 && d <= room / 8 && s * 12 + d * 8 == room;
    const bool has_modes =
        s <= room / 13 && d <= room / 8 && s * 13 + d * 8 == room;
    if (!is_plain && !has_modes)
        return tt_fail(TT_ERR_ARG,
                       "says it has %llu sequences and %llu documents, which "
                       "do not make its %lld bytes",
                       (unsigned long long)s, (unsigned long long)d,
                       (long long)idx->n);
    m->n = (int64_t)s;
    m->lengths = idx->p + HEADER_BYTES;
    m->offsets = m->lengths + 4 * m->n;
    return TT_OK;
}

static tt_status check_sequence(const megatron *m, int64_t i)
{
    const int64_t n = length_of(m, i), at = offset_of(m, i);
    if (n < 0 || at < 0 || at > m->bin.n || n > (m->bin.n - at) / m->type.bytes)
        return tt_fail(TT_ERR_ARG,
                       "sequence %lld is %lld ids from byte %lld on, and the "
                       ".bin file has %lld bytes",
                       (long long)i, (long long)n, (long long)at,
                       (long long)m->bin.n);
    return TT_OK;
}

static tt_status index_sequences(megatron *m)
{
    const int64_t n = (m->n + STRIDE - 1) / STRIDE;
    m->place = tt_arena_alloc(m->arena, (n + 1) * (int64_t)sizeof *m->place);
    if (m->place == NULL)
        return TT_ERR_NOMEM;
    int64_t total = 0;
    for (int64_t i = 0; i < m->n; i++) {
        TT_TRY(check_sequence(m, i));
        if (i % STRIDE == 0)
            m->place[i / STRIDE] = total;
        if (__builtin_add_overflow(total, length_of(m, i), &total))
            return tt_fail(TT_ERR_ARG, "has more tokens than can be counted");
    }
    m->source.n = total;
    return TT_OK;
}

static tt_status read_index(megatron *m)
{
    tt_status status = read_header(m);
    if (status == TT_OK)
        status = index_sequences(m);
    return status == TT_OK ? TT_OK : tt_fail_context(status, "%s", m->idx_path);
}

// The prefix may be given with either ending.
static tt_status name_files(megatron *m, const char *setting, const char *path)
{
    size_t n = strlen(path);
    if (n == 0)
        return tt_fail(TT_ERR_ARG, "%s is not set: the prefix of .bin and .idx",
                       setting);
    if (tt_path_ends(path, ".bin") || tt_path_ends(path, ".idx"))
        n -= 4;
    m->bin_path = tt_arena_printf(m->arena, "%.*s.bin", (int)n, path);
    m->idx_path = tt_arena_printf(m->arena, "%.*s.idx", (int)n, path);
    return m->bin_path != NULL && m->idx_path != NULL ? TT_OK : TT_ERR_NOMEM;
}

static tt_status fill(megatron *m, const tt_source_request *r)
{
    const bool has_val = r->val[0] != '\0';
    const bool is_own = has_val && r->split == TT_SPLIT_VAL;
    TT_TRY(name_files(m, is_own ? "data.val" : "data.path",
                      is_own ? r->val : r->path));
    TT_TRY(tt_blob_open(m->idx_path, &m->idx));
    TT_TRY(tt_blob_open(m->bin_path, &m->bin));
    TT_TRY(read_index(m));
    TT_TRY(tt__source_tokenizer(r, m->bin_path, m->arena, &m->source));
    if (!has_val)
        tt_source_part(r, m->source.n, &m->first, &m->source.n);
    return TT_OK;
}

static void close_source(tt_source *source)
{
    megatron *m = (megatron *)source;
    tt_blob_close(&m->bin);
    tt_blob_close(&m->idx);
    tt_tokenizer_close(source->tokenizer);
    tt_arena_destroy(m->arena);
    tt_free(m);
}

extern const tt_source_def tt_source_megatron;

static tt_status open_source(const tt_source_request *request,
                             const void *params, tt_source **source_out)
{
    tt_status status = TT_ERR_NOMEM;
    (void)params;
    megatron *m = tt_alloc(sizeof *m);
    if (m == NULL)
        return tt_fail(status, "no memory for a source");
    m->source.def = &tt_source_megatron;
    m->source.kind = TT_DATA_TOKENS;
    m->arena = tt_arena_create();
    if (m->arena == NULL)
        (void)tt_fail(status, "no memory for a source");
    else
        status = fill(m, request);
    if (status != TT_OK) {
        close_source(&m->source);
        return status;
    }
    *source_out = &m->source;
    return TT_OK;
}

// The sequence that holds token `at` of the index, and the token's place in it.
static int64_t sequence_of(const megatron *m, int64_t at, int64_t *within_out)
{
    int64_t low = 0, high = (m->n + STRIDE - 1) / STRIDE;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (m->place[middle] <= at)
            low = middle;
        else
            high = middle;
    }
    int64_t i = low * STRIDE;
    at -= m->place[low];
    for (; at >= length_of(m, i); i++)
        at -= length_of(m, i);
    *within_out = at;
    return i;
}

static tt_status tokens(const tt_source *source, int64_t first, int64_t n,
                        int32_t *out)
{
    const megatron *m = (const megatron *)source;
    int64_t within = 0, bad = 0;
    TT_TRY(tt_blob_check(&m->idx));
    TT_TRY(tt_blob_check(&m->bin));
    int64_t i = n > 0 ? sequence_of(m, m->first + first, &within) : 0;
    for (int64_t done = 0; done < n; i++, within = 0) {
        const int64_t left = length_of(m, i) - within;
        const int64_t part = left < n - done ? left : n - done;
        const uint8_t *from =
            m->bin.p + offset_of(m, i) + within * m->type.bytes;
        if (tt_number_to_i32(m->type, from, part, out + done, &bad) != TT_OK)
            return tt_fail(TT_ERR_ARG,
                           "%s: token %lld of sequence %lld is no id: it has "
                           "more than 32 bits",
                           m->bin_path, (long long)(within + bad),
                           (long long)i);
        done += part;
    }
    return TT_OK;
}

static tt_status files(const tt_source *source, tt_file_list *list)
{
    const megatron *m = (const megatron *)source;
    TT_TRY(tt_file_list_add(list, m->bin_path));
    return tt_file_list_add(list, m->idx_path);
}

const tt_source_def tt_source_megatron = {
    .name = "megatron",
    .doc = "Megatron's indexed data set; data.path is the prefix of .bin and "
           ".idx.",
    .open = open_source,
    .close = close_source,
    .tokens = tokens,
    .files = files,
};
