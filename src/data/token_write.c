// token_write - see token_write.h.
//
// Headers hold counts that are known only at the end. So room is left for a header, ids
// are streamed after it, and the header is written over the room when the shard is
// full. Files have temporary names until everything is on the disk; only then does a set of
// files rename them. A run that is killed leaves no file that looks complete.

#include "data/token_write.h"

#include "base/alloc.h"
#include "base/file.h"
#include "data/source/token_index.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
    BUFFER = 1 << 20,
    LLMC_HEADER = 1024,
    NPY_HEADER = 128,
    SHARDS_MAX = 100000,
};

typedef struct shard {
    char temporary[PATH_MAX];
} shard;

struct tt_token_writer {
    tt_token_target target;
    char *prefix;
    int bytes; // of an id
    int64_t n; // tokens
    uint8_t *buffer;
    int64_t n_buffer;
    tt_file file; // of the last shard
    int64_t in_shard, shard_max;
    shard *shards;
    int64_t n_shards;
    int64_t n_given;      // shards that a set of files has taken over
    tt_token_index index; // of megatron
};

static tt_status no_memory(void)
{
    return tt_fail(TT_ERR_NOMEM, "out of memory for writing tokens");
}

static bool is_format(const tt_token_writer *w, tt_token_format format)
{
    return w->target.format == format;
}

static const char *ending(const tt_token_writer *w)
{
    return is_format(w, TT_TOKENS_NPY) ? ".npy" : ".bin";
}

static int64_t header_bytes(const tt_token_writer *w)
{
    return is_format(w, TT_TOKENS_LLMC)  ? LLMC_HEADER
           : is_format(w, TT_TOKENS_NPY) ? NPY_HEADER
                                         : 0;
}

// ---- shards --------------------------------------------------------------

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (8 * i));
}

static void make_header(const tt_token_writer *w, uint8_t *to)
{
    if (is_format(w, TT_TOKENS_LLMC)) {
        memset(to, 0, LLMC_HEADER);
        put_u32(to, w->bytes == 2 ? 20240520 : 20240801);
        put_u32(to + 4, w->bytes == 2 ? 1 : 7);
        put_u32(to + 8, (uint32_t)w->in_shard);
    } else {
        char *text = (char *)to + 10;
        memset(to, ' ', NPY_HEADER);
        memcpy(to, "\x93NUMPY\x01\x00", 8);
        to[8] = NPY_HEADER - 10;
        to[9] = 0;
        const int n = snprintf(
            text, NPY_HEADER - 10,
            "{'descr': '<u%d', 'fortran_order': False, 'shape': (%lld,), }",
            w->bytes, (long long)w->in_shard);
        text[n] = ' ';
        to[NPY_HEADER - 1] = '\n';
    }
}

static tt_status flush(tt_token_writer *w)
{
    TT_TRY(tt_file_write(&w->file, w->buffer, w->n_buffer));
    w->n_buffer = 0;
    return TT_OK;
}

static tt_status end_shard(tt_token_writer *w)
{
    uint8_t header[LLMC_HEADER];
    const int64_t n = header_bytes(w);
    TT_TRY(flush(w));
    if (n > 0) {
        make_header(w, header);
        if (lseek(w->file.fd, 0, SEEK_SET) != 0)
            return tt_fail(TT_ERR_IO, "%s: cannot be written: %s", w->file.path,
                           strerror(errno));
        TT_TRY(tt_file_write(&w->file, header, n));
    }
    return tt_file_finish(&w->file, TT_OK);
}

static tt_status begin_shard(tt_token_writer *w)
{
    static const uint8_t room[LLMC_HEADER];
    if (w->n_shards == SHARDS_MAX)
        return tt_fail(TT_ERR_ARG,
                       "more than %d files would be needed; make them larger",
                       SHARDS_MAX);
    shard *grown = tt_realloc(w->shards, w->n_shards * (int64_t)sizeof(*grown),
                              (w->n_shards + 1) * (int64_t)sizeof(*grown));
    if (grown == NULL)
        return no_memory();
    w->shards = grown;
    shard *s = &w->shards[w->n_shards];
    TT_TRY(tt_file_begin(&w->file, w->prefix, s->temporary));
    w->n_shards++;
    w->in_shard = 0;
    return tt_file_write(&w->file, room, header_bytes(w));
}

// ---- the writer ----------------------------------------------------------

static tt_status init(tt_token_writer *w)
{
    const tt_token_target *t = &w->target;
    const bool is_small =
        t->vocab <= (t->format == TT_TOKENS_MEGATRON ? 65499 : 65536);
    const int64_t n = (int64_t)strlen(t->prefix);
    const int64_t most = t->format == TT_TOKENS_LLMC ? INT32_MAX : INT64_MAX;
    w->file = TT_FILE_CLOSED;
    w->bytes = is_small ? 2 : 4;
    w->shard_max =
        t->shard > 0 && t->shard < most && t->format != TT_TOKENS_MEGATRON
            ? t->shard
            : most;
    w->prefix = tt_alloc(n + 1);
    w->buffer = tt_alloc(BUFFER);
    if (w->prefix == NULL || w->buffer == NULL)
        return no_memory();
    memcpy(w->prefix, t->prefix, (size_t)n);
    return begin_shard(w);
}

tt_status tt_token_writer_open(const tt_token_target *target,
                               tt_token_writer **writer_out)
{
    tt_token_writer *w = tt_alloc(sizeof(*w));
    if (w == NULL)
        return no_memory();
    w->target = *target;
    const tt_status status = init(w);
    if (status != TT_OK) {
        tt_token_writer_close(w);
        return status;
    }
    *writer_out = w;
    return TT_OK;
}

void tt_token_writer_close(tt_token_writer *w)
{
    if (w == NULL)
        return;
    (void)tt_file_close(&w->file);
    for (int64_t i = w->n_given; i < w->n_shards; i++)
        (void)unlink(w->shards[i].temporary);
    tt_token_index_fini(&w->index);
    tt_free(w->shards);
    tt_free(w->buffer);
    tt_free(w->prefix);
    tt_free(w);
}

int64_t tt_token_writer_count(const tt_token_writer *w)
{
    return w->n;
}

// As many as fit into the buffer.
static tt_status put_ids(tt_token_writer *w, const int32_t *ids, int64_t n)
{
    uint8_t *to = w->buffer + w->n_buffer;
    for (int64_t i = 0; i < n; i++) {
        const uint32_t id = (uint32_t)ids[i];
        if (id >= (uint64_t)w->target.vocab)
            return tt_fail(
                TT_ERR_ARG, "token %lld is %d, but the vocabulary has %lld",
                (long long)(w->n + i), ids[i], (long long)w->target.vocab);
        *to++ = (uint8_t)id;
        *to++ = (uint8_t)(id >> 8);
        if (w->bytes == 4) {
            *to++ = (uint8_t)(id >> 16);
            *to++ = (uint8_t)(id >> 24);
        }
    }
    w->n_buffer += n * w->bytes;
    w->in_shard += n;
    w->n += n;
    return TT_OK;
}

tt_status tt_token_writer_add(tt_token_writer *w, const int32_t *ids, int64_t n)
{
    if (is_format(w, TT_TOKENS_MEGATRON))
        TT_TRY(tt_token_index_add(&w->index, n));
    while (n > 0) {
        if (w->in_shard == w->shard_max) {
            TT_TRY(end_shard(w));
            TT_TRY(begin_shard(w));
        }
        int64_t part = (BUFFER - w->n_buffer) / w->bytes;
        if (part > w->shard_max - w->in_shard)
            part = w->shard_max - w->in_shard;
        if (part > n)
            part = n;
        TT_TRY(put_ids(w, ids, part));
        if (w->n_buffer == BUFFER)
            TT_TRY(flush(w));
        ids += part;
        n -= part;
    }
    return TT_OK;
}

tt_status tt_token_writer_document(tt_token_writer *w)
{
    return is_format(w, TT_TOKENS_MEGATRON) ? tt_token_index_document(&w->index)
                                            : TT_OK;
}

// ---- names ---------------------------------------------------------------

static tt_status name_shard(tt_token_writer *w, int64_t i, tt_file_set *set,
                            tt_str *paths)
{
    const int64_t from = paths->n;
    tt_str_add(paths, w->prefix);
    if (w->n_shards > 1)
        tt_str_addf(paths, "_%06lld", (long long)i);
    tt_str_add(paths, ending(w));
    TT_TRY(tt_str_status(paths));
    TT_TRY(tt_file_set_add(set, w->shards[i].temporary, paths->text + from));
    w->n_given++;
    tt_str_add(paths, "\n");
    return tt_str_status(paths);
}

static tt_status write_index(const tt_token_writer *w, tt_file_set *set,
                             tt_str *paths)
{
    tt_str path = {0}, bytes = {0};
    tt_str_addf(&path, "%s.idx", w->prefix);
    tt_token_index_print(&w->index, w->bytes, &bytes);
    tt_status status = tt_str_status(&path);
    if (status == TT_OK)
        status = tt_str_status(&bytes);
    if (status == TT_OK)
        status = tt_file_set_write(set, path.text, bytes.text, bytes.n);
    tt_str_addf(paths, "%s\n", tt_str_text(&path));
    tt_str_fini(&path);
    tt_str_fini(&bytes);
    return status;
}

tt_status tt_token_writer_finish(tt_token_writer *w, tt_file_set *set,
                                 tt_str *paths)
{
    TT_TRY(end_shard(w));
    for (int64_t i = 0; i < w->n_shards; i++)
        TT_TRY(name_shard(w, i, set, paths));
    if (is_format(w, TT_TOKENS_MEGATRON))
        TT_TRY(write_index(w, set, paths));
    return tt_str_status(paths);
}
