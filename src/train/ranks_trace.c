// ranks_trace - one trace file of all ranks, which chrome://tracing and Perfetto
// read. Ranks send their texts to rank 0 one after another and in pieces, so that
// rank 0 needs memory for one piece only.

#include "base/file.h"
#include "train/ranks_parts.h"

#include <limits.h>

enum { EVENTS = 250000 }; // in the file: about 50 MB

static void print_part(const tt_ranks_report *r, tt_str *out)
{
    tt_trace_part part = {
        .rank = r->rank,
        .host = r->my_host,
        .exec = r->options.exec,
        .worker = r->options.worker,
        .mark = r->mark,
        .n_marks = r->n_marks,
        .zero = r->opened,
        .max_events = EVENTS / r->size,
    };
    if (r->size > 1) {
        part.zero = r->clock.zero + r->clock.offset[r->rank];
        part.n_flights = tt_comm_wire_events(r->options.wire, &part.flight);
    }
    if (r->rank == 0)
        tt_trace_begin(out);
    else
        tt_trace_next(out);
    tt_trace_add(&part, out);
}

// Of every rank's text; one that found no memory for it has none.
static tt_status share_lengths(const tt_ranks_report *r, const tt_str *mine)
{
    const int64_t bytes = tt_str_status(mine) == TT_OK ? mine->n : 0;
    const tt_coll_call call = {.kind = TT_ALL_GATHER,
                               .fold = {TT_FOLD_COPY, TT_NUM_I64},
                               .count = r->size,
                               .in = &bytes,
                               .out = r->length};
    return tt_comm_wire_call(r->options.wire, tt__ranks_call, &call);
}

// Bytes [first, first + n) of rank `from`'s text, to rank 0's piece.
static tt_status fetch(const tt_ranks_report *r, int32_t from,
                       const tt_str *mine, int64_t first, int64_t n)
{
    for (int32_t i = 0; i <= r->size; i++)
        r->bound[i] = i > from ? n : 0;
    const tt_coll_call call = {.kind = TT_GATHER,
                               .fold = {TT_FOLD_COPY, TT_NUM_U8},
                               .count = n,
                               .bound = r->bound,
                               .in = r->rank == from ? tt_str_text(mine) + first
                                                     : r->piece,
                               .out = r->piece};
    return tt_comm_wire_call(r->options.wire, tt__ranks_call, &call);
}

static void write_to(tt_file *file, const char *text, int64_t n,
                     tt_status *status)
{
    if (*status == TT_OK && file != NULL)
        *status = tt_file_write(file, text, n);
}

// Whatever happens to the file, what the others send is taken.
static tt_status fetch_all(const tt_ranks_report *r, const tt_str *mine,
                           tt_file *file, tt_status *written)
{
    TT_TRY(share_lengths(r, mine));
    for (int32_t from = 1; from < r->size; from++) {
        for (int64_t at = 0; at < r->length[from]; at += TT__PIECE_BYTES) {
            const int64_t left = r->length[from] - at;
            const int64_t n = left < TT__PIECE_BYTES ? left : TT__PIECE_BYTES;
            TT_TRY(fetch(r, from, mine, at, n));
            write_to(file, r->piece, n, written);
        }
    }
    return TT_OK;
}

static tt_status write_trace(const tt_ranks_report *r, const tt_str *mine,
                             const char *path)
{
    char temporary[PATH_MAX];
    tt_file file = TT_FILE_CLOSED;
    tt_str foot = {0};
    tt_status written = tt_str_status(mine);
    if (written == TT_OK)
        written = tt_file_begin(&file, path, temporary);
    const bool is_open = written == TT_OK;
    tt_file *out = is_open ? &file : NULL;
    write_to(out, tt_str_text(mine), mine->n, &written);
    const tt_status status =
        r->size > 1 ? fetch_all(r, mine, out, &written) : TT_OK;
    tt_trace_end(&foot);
    if (written == TT_OK)
        written = tt_str_status(&foot);
    write_to(out, tt_str_text(&foot), foot.n, &written);
    tt_str_fini(&foot);
    if (is_open)
        written =
            tt_file_end(&file, temporary, status == TT_OK ? written : status);
    return status == TT_OK ? written : status;
}

void tt_ranks_report_worker(tt_ranks_report *r, const tt_exec *worker)
{
    r->options.worker = worker;
}

tt_status tt_ranks_report_trace(tt_ranks_report *r, const char *path)
{
    tt_str mine = {0};
    tt_status written = TT_OK;
    print_part(r, &mine);
    const tt_status status = r->rank == 0 ? write_trace(r, &mine, path)
                                          : fetch_all(r, &mine, NULL, &written);
    tt_str_fini(&mine);
    return status;
}
