// llmc - see the header. The sixteen kinds of tensors are a table; reading and
// writing go through it in the file's order. Nothing in such a file names its
// tensors, so the order and the sizes in the header are all there is to check
// against: the file's length must be exactly what they give.

#include "store/llmc.h"

#include "base/alloc.h"
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    MAGIC = 20240326,
    HEADER = 256,
    HEADER_BYTES = 4 * HEADER,
    FP32 = 3,
    BF16 = 5,
    PAD = 128,
    N_KINDS = 16,
    MAX_EXTENT = 1 << 24,
};

// A kind of tensor. Extents are multiples of the width, or one of the two below.
typedef struct kind {
    const char *name; // after "transformer.", or "transformer.h.LAYER."
    int rows, cols;   // in Hugging Face's order; cols 0: a vector
    bool is_layered;  // one per layer
    bool is_turned;   // the file has it transposed: (cols, rows)
} kind;

enum { POSITIONS = -1, VOCAB = -2 };

static const kind kinds[N_KINDS] = {
    {"wte.weight", VOCAB, 1, false, false},
    {"wpe.weight", POSITIONS, 1, false, false},
    {"ln_1.weight", 1, 0, true, false},
    {"ln_1.bias", 1, 0, true, false},
    {"attn.c_attn.weight", 1, 3, true, true},
    {"attn.c_attn.bias", 3, 0, true, false},
    {"attn.c_proj.weight", 1, 1, true, true},
    {"attn.c_proj.bias", 1, 0, true, false},
    {"ln_2.weight", 1, 0, true, false},
    {"ln_2.bias", 1, 0, true, false},
    {"mlp.c_fc.weight", 1, 4, true, true},
    {"mlp.c_fc.bias", 4, 0, true, false},
    {"mlp.c_proj.weight", 4, 1, true, true},
    {"mlp.c_proj.bias", 1, 0, true, false},
    {"ln_f.weight", 1, 0, false, false},
    {"ln_f.bias", 1, 0, false, false},
};

static void print_name(const kind *k, int layer, char *name, size_t bytes)
{
    if (k->is_layered)
        snprintf(name, bytes, "transformer.h.%d.%s", layer, k->name);
    else
        snprintf(name, bytes, "transformer.%s", k->name);
}

static int64_t extent(const tt_llmc_sizes *s, int units)
{
    return units == POSITIONS ? s->positions
           : units == VOCAB   ? s->vocab
                              : units * s->width;
}

static int64_t padded_vocab(const tt_llmc_sizes *s)
{
    return (s->vocab + PAD - 1) / PAD * PAD;
}

static int64_t element(const tt_llmc_sizes *s)
{
    return s->is_bf16 ? 2 : 4;
}

// Elements of one tensor; for the embedding without the padding of the vocabulary.
static int64_t count(const tt_llmc_sizes *s, const kind *k)
{
    const int64_t rows = extent(s, k->rows);
    return k->cols == 0 ? rows : rows * extent(s, k->cols);
}

static int64_t padding(const tt_llmc_sizes *s, const kind *k)
{
    return k->rows == VOCAB ? (padded_vocab(s) - s->vocab) * s->width : 0;
}

static int64_t layers_of(const tt_llmc_sizes *s, const kind *k)
{
    return k->is_layered ? s->layers : 1;
}

static int64_t all_elements(const tt_llmc_sizes *s)
{
    int64_t n = 0;
    for (int i = 0; i < N_KINDS; i++)
        n += layers_of(s, &kinds[i]) *
             (count(s, &kinds[i]) + padding(s, &kinds[i]));
    return n;
}

// Transposes a matrix of elements of any size.
static void turn(const char *from, int64_t rows, int64_t cols, int64_t bytes,
                 char *to)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            memcpy(to + (c * rows + r) * bytes, from + (r * cols + c) * bytes,
                   (size_t)bytes);
}

// ---- reading -------------------------------------------------------------

static tt_status read_header(const char *path, const int32_t *h, int64_t bytes,
                             tt_llmc_sizes *s)
{
    if (bytes < HEADER_BYTES || h[0] != MAGIC)
        return tt_fail(TT_ERR_ARG, "%s: is no model of llm.c", path);
    if (h[1] != FP32 && h[1] != BF16)
        return tt_fail(TT_ERR_UNSUPPORTED,
                       "%s: has version %d; 3 (fp32) and 5 (bf16) are known",
                       path, h[1]);
    *s = (tt_llmc_sizes){.positions = h[2],
                         .vocab = h[3],
                         .layers = h[4],
                         .heads = h[5],
                         .width = h[6],
                         .is_bf16 = h[1] == BF16};
    for (int i = 2; i < 7; i++)
        if (h[i] < 1 || h[i] > MAX_EXTENT)
            return tt_fail(TT_ERR_ARG, "%s: entry %d of the header is %d", path,
                           i, h[i]);
    // With these bounds no product below overflows 64 bits.
    if (s->layers > 1 << 12 || s->width > 1 << 18 || h[7] != padded_vocab(s) ||
        s->width % s->heads != 0)
        return tt_fail(TT_ERR_ARG, "%s: the header makes no sense", path);
    const int64_t want = HEADER_BYTES + all_elements(s) * element(s);
    if (bytes != want)
        return tt_fail(TT_ERR_ARG,
                       "%s: has %lld bytes, but its header asks for %lld", path,
                       (long long)bytes, (long long)want);
    return TT_OK;
}

static tt_status describe(tt_llmc *f, const kind *k, int layer, char *data,
                          tt_safetensor *t)
{
    const tt_llmc_sizes *s = &f->sizes;
    char name[64];
    int64_t *shape = tt_arena_alloc(f->arena, 2 * (int64_t)sizeof *shape);
    print_name(k, layer, name, sizeof name);
    t->name = tt_arena_strdup(f->arena, name);
    if (shape == NULL || t->name == NULL)
        return TT_ERR_NOMEM;
    shape[0] = extent(s, k->rows);
    shape[1] = k->cols > 0 ? extent(s, k->cols) : 0;
    t->dtype = s->is_bf16 ? "BF16" : "F32";
    t->ndim = k->cols > 0 ? 2 : 1;
    t->shape = shape;
    t->bytes = count(s, k) * element(s);
    t->data = data;
    return TT_OK;
}

static tt_status read_tensors(tt_llmc *f, const char *from)
{
    const tt_llmc_sizes *s = &f->sizes;
    const int64_t bytes = element(s);
    char *to = f->memory;
    for (int i = 0; i < N_KINDS; i++)
        for (int l = 0; l < layers_of(s, &kinds[i]); l++) {
            const kind *k = &kinds[i];
            const int64_t n = count(s, k);
            if (k->is_turned)
                turn(from, extent(s, k->cols), extent(s, k->rows), bytes, to);
            else
                memcpy(to, from, (size_t)(n * bytes));
            TT_TRY(describe(f, k, l, to, &f->tensor[f->n++]));
            from += (n + padding(s, k)) * bytes;
            to += n * bytes;
        }
    return TT_OK;
}

static tt_status read_content(tt_llmc *f, const char *path, const char *data,
                              int64_t bytes)
{
    int64_t n = 0;
    TT_TRY(read_header(path, (const int32_t *)(const void *)data, bytes,
                       &f->sizes));
    for (int i = 0; i < N_KINDS; i++)
        n += layers_of(&f->sizes, &kinds[i]);
    f->tensor = tt_arena_alloc(f->arena, n * (int64_t)sizeof *f->tensor);
    f->memory = tt_alloc_aligned(bytes, 64);
    if (f->tensor == NULL || f->memory == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for %lld bytes", path,
                       (long long)bytes);
    return read_tensors(f, data + HEADER_BYTES);
}

// All of the file is read first. A map would kill the process if the file were cut
// short meanwhile.
static tt_status read_bytes(tt_llmc *f, const char *path, int fd, int64_t bytes)
{
    if (bytes < HEADER_BYTES)
        return tt_fail(TT_ERR_ARG, "%s: is too short for a model of llm.c",
                       path);
    char *data = tt_alloc_aligned(bytes, 64);
    if (data == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory for %lld bytes", path,
                       (long long)bytes);
    tt_status status = TT_OK;
    for (int64_t done = 0; done < bytes && status == TT_OK;) {
        const int64_t k =
            tt_file_read_some(fd, data + done, bytes - done, done);
        if (k <= 0)
            status = tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                             k < 0 ? tt_file_reason(errno)
                                   : "it became shorter meanwhile");
        done += k;
    }
    if (status == TT_OK)
        status = read_content(f, path, data, bytes);
    tt_free_aligned(data);
    return status;
}

static tt_status read_file(tt_llmc *f, const char *path)
{
    struct stat about;
    const int fd = tt_file_open_read(path); // a pipe is not waited for
    if (fd < 0 || fstat(fd, &about) != 0 || !S_ISREG(about.st_mode)) {
        const tt_status status =
            tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                    fd < 0 ? strerror(errno) : "it is no file");
        if (fd >= 0)
            (void)close(fd);
        return status;
    }
    const tt_status status = read_bytes(f, path, fd, about.st_size);
    (void)close(fd);
    return status;
}

bool tt_llmc_is(const char *path)
{
    int32_t magic = 0;
    const int fd = tt_file_open_read(path); // a pipe is not waited for
    if (fd < 0)
        return false;
    const bool is = read(fd, &magic, sizeof magic) == sizeof magic;
    (void)close(fd);
    return is && magic == MAGIC;
}

tt_status tt_llmc_read(const char *path, tt_llmc **file_out)
{
    tt_llmc *f = tt_alloc(sizeof *f);
    if (f == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: out of memory", path);
    f->arena = tt_arena_create();
    tt_status status = TT_ERR_NOMEM;
    if (f->arena == NULL)
        (void)tt_fail(status, "%s: out of memory", path);
    else
        status = read_file(f, path);
    if (status == TT_OK)
        *file_out = f;
    else
        tt_llmc_close(f);
    return status;
}

void tt_llmc_close(tt_llmc *file)
{
    if (file == NULL)
        return;
    tt_free_aligned(file->memory);
    tt_arena_destroy(file->arena);
    tt_free(file);
}

// ---- writing -------------------------------------------------------------

// Writes one tensor. The padding of the vocabulary is zero.
static tt_status write_one(tt_file *file, const tt_llmc_sizes *s, const kind *k,
                           const tt_safetensor *t, char *room)
{
    const int64_t bytes = element(s), n = count(s, k);
    if (t->bytes != n * bytes)
        return tt_fail(TT_ERR_ARG, "%s has %lld bytes, not %lld", t->name,
                       (long long)t->bytes, (long long)(n * bytes));
    char *turned = room + (n + padding(s, k)) * bytes;
    memset(room, 0, (size_t)((n + padding(s, k)) * bytes));
    TT_TRY(tt_safetensor_copy(t, 0, n * bytes, k->is_turned ? turned : room));
    if (k->is_turned)
        turn(turned, extent(s, k->rows), extent(s, k->cols), bytes, room);
    return tt_file_write(file, room, (n + padding(s, k)) * bytes);
}

static tt_status write_all(tt_file *file, const tt_llmc_sizes *s, char *room,
                           tt_llmc_find_fn *find, void *user)
{
    const int32_t header[HEADER] = {
        MAGIC,
        s->is_bf16 ? BF16 : FP32,
        (int32_t)s->positions,
        (int32_t)s->vocab,
        (int32_t)s->layers,
        (int32_t)s->heads,
        (int32_t)s->width,
        (int32_t)padded_vocab(s),
    };
    TT_TRY(tt_file_write(file, header, sizeof header));
    for (int i = 0; i < N_KINDS; i++)
        for (int l = 0; l < layers_of(s, &kinds[i]); l++) {
            char name[64];
            print_name(&kinds[i], l, name, sizeof name);
            const tt_safetensor *t = find(user, name);
            if (t == NULL)
                return tt_fail(TT_ERR_ARG,
                               "the model has no %s, which llm.c needs", name);
            TT_TRY(write_one(file, s, &kinds[i], t, room));
        }
    return TT_OK;
}

tt_status tt_llmc_write(const char *path, const tt_llmc_sizes *sizes,
                        tt_llmc_find_fn *find, void *user)
{
    int64_t most = 0;
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    for (int i = 0; i < N_KINDS; i++) {
        const int64_t n = count(sizes, &kinds[i]) + padding(sizes, &kinds[i]);
        most = n > most ? n : most;
    }
    char *room = tt_alloc_aligned(2 * most * element(sizes), 64);
    if (room == NULL)
        return tt_fail(TT_ERR_NOMEM, "%s: no memory to write it", path);
    tt_status status = tt_file_begin(&file, path, temporary);
    if (status == TT_OK)
        status = tt_file_end(&file, temporary,
                             write_all(&file, sizes, room, find, user));
    tt_free_aligned(room);
    return status;
}
