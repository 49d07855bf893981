// ranks_text - what ranks did, as a sentence and as JSON.

#include "train/ranks.h"

#include <math.h>
#include <stddef.h>

static void add_grouped(tt_str *out, int64_t value)
{
    if (value >= 1000) {
        add_grouped(out, value / 1000);
        tt_str_addf(out, ",%03d", (int)(value % 1000));
    } else {
        tt_str_addf(out, "%d", (int)value);
    }
}

static void add_seconds(tt_str *out, double seconds)
{
    if (seconds < 0.9995e-3)
        tt_str_addf(out, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        tt_str_addf(out, "%.3g ms", seconds * 1e3);
    else
        tt_str_addf(out, "%.1f s", seconds);
}

void tt_ranks_report_sentence(const tt_ranks *ranks, tt_str *out)
{
    if (ranks->straggler < 0)
        return;
    const tt_rank_row *row = &ranks->rank[ranks->straggler];
    tt_str_addf(out, "rank %d (%s) came last in %.0f%% of ", ranks->straggler,
                row->host,
                100 * (double)row->n_last / (double)ranks->n_collectives);
    add_grouped(out, ranks->n_collectives);
    tt_str_add(out, " collectives, on average ");
    add_seconds(out, row->late);
    tt_str_add(out, " after the first");
}

double tt_rank_hidden(const tt_rank_row *row)
{
    return fmax(0, row->busy - row->exposed);
}

static void print_rank(const tt_rank_row *row, int32_t rank, tt_json *j)
{
    tt_json_open(j, NULL, '{');
    tt_json_i64(j, "rank", rank);
    tt_json_str(j, "host", row->host);
    tt_json_i64(j, "messages", row->messages);
    tt_json_i64(j, "bytes", row->bytes);
    tt_json_f64(j, "busy_seconds", row->busy);
    tt_json_f64(j, "exposed_seconds", row->exposed);
    tt_json_f64(j, "hidden_seconds", tt_rank_hidden(row));
    tt_json_f64(j, "waited_seconds", row->waited);
    tt_json_f64(j, "kernel_seconds", row->kernels);
    tt_json_f64(j, "feed_seconds", row->feed);
    if (row->raw > 0) {
        tt_json_i64(j, "raw_bytes", row->raw);
        tt_json_i64(j, "coded_bytes", row->coded);
        tt_json_f64(j, "coding_seconds", row->coding);
    }
    if (row->time.total > 0)
        tt_report_time_json(&row->time, j);
    tt_json_i64(j, "last", row->n_last);
    tt_json_f64(j, "late_seconds", row->late);
    tt_json_close(j, '}');
}

static void print_name(const tt_collective_row *row, tt_json *j)
{
    tt_json_open(j, NULL, '{');
    tt_json_str(j, "name", row->name);
    tt_json_i64(j, "count", row->n);
    tt_json_f64(j, "spread_seconds", row->spread);
    tt_json_f64(j, "spread_max_seconds", row->spread_max);
    tt_json_i64(j, "straggler", row->straggler);
    tt_json_i64(j, "last", row->n_last);
    tt_json_close(j, '}');
}

void tt_ranks_report_print_json(const tt_ranks *ranks, tt_json *j)
{
    tt_str sentence = {0};
    tt_ranks_report_sentence(ranks, &sentence);
    tt_json_open(j, "ranks", '[');
    for (int32_t r = 0; r < ranks->n; r++)
        print_rank(&ranks->rank[r], r, j);
    tt_json_close(j, ']');
    tt_json_open(j, "collectives", '{');
    tt_json_i64(j, "count", ranks->n_collectives);
    tt_json_f64(j, "spread_seconds", ranks->spread);
    tt_json_f64(j, "spread_max_seconds", ranks->spread_max);
    tt_json_i64(j, "straggler", ranks->straggler);
    tt_json_str(j, "sentence", tt_str_text(&sentence));
    tt_json_f64(j, "clock_error_seconds", ranks->clock_error);
    tt_json_open(j, "by_name", '[');
    for (int32_t i = 0; i < ranks->n_names; i++)
        print_name(&ranks->name[i], j);
    tt_json_close(j, ']');
    tt_json_close(j, '}');
    tt_json_bool(j, "paced", ranks->is_paced);
    if (ranks->pipe != NULL)
        tt_ranks_pipe_print_json(ranks->pipe, j);
    tt_str_fini(&sentence);
}
