// kept - micro-batches that are fed out of their order.
//
// A loader gives micro-batch after micro-batch. A table by hand may begin with another one
// than the first: then those before it are read too and kept in memory of the host until
// their rows come. Tables of generators ascend, and keep nothing.
//
//   rows     F2 F0 F1          loader   0 1 2          kept   0 1

#include "job/kept.h"

#include "base/alloc.h"
#include "job/endless.h"
#include "job/feed.h"

static int64_t bytes_of(const tt_plan *plan, const char *name)
{
    const tt_val v = tt_graph_find(plan->graph, name);
    return tt_feed_count(plan, name) *
           tt_dtype_bytes(plan->graph->value[v.id].type.dtype);
}

static tt_status keep(const tt__feeding *f, int32_t micro)
{
    tt_job *job = f->job;
    tt_kept *kept = &job->kept;
    const int64_t x = (bytes_of(job->plan, "x") + 63) / 64 * 64;
    if (kept->data == NULL) {
        kept->n = job->plan->n_micro;
        kept->data = tt_alloc(kept->n * (int64_t)sizeof *kept->data);
    }
    if (kept->data != NULL && kept->data[micro] == NULL)
        kept->data[micro] = tt_alloc(x + bytes_of(job->plan, "y"));
    if (kept->data == NULL || kept->data[micro] == NULL)
        return tt_fail(TT_ERR_NOMEM,
                       "no memory for micro-batch %d, which the "
                       "schedule runs after a later one",
                       micro);
    char *data = kept->data[micro];
    TT_TRY(f->feed(f->user, job, micro, data, data + x));
    tt_feed_leave_out(job->plan, data + x);
    return TT_OK;
}

tt_status tt__kept_take(const tt__feeding *f, int32_t micro, bool *is_taken_out)
{
    tt_job *job = f->job;
    tt_kept *kept = &job->kept;
    const int64_t x = (bytes_of(job->plan, "x") + 63) / 64 * 64;
    *is_taken_out = false;
    if (tt__is_endless(job->pipe)) // its rows ascend, over steps
        return TT_OK;
    *is_taken_out = micro < kept->next;
    if (*is_taken_out) {
        TT_TRY(tt_exec_write(job->exec, tt_graph_find(job->graph, "x"),
                             kept->data[micro]));
        return tt_exec_write(job->exec, tt_graph_find(job->graph, "y"),
                             kept->data[micro] + x);
    }
    for (; kept->next < micro; kept->next++)
        TT_TRY(keep(f, kept->next));
    kept->next = micro + 1;
    return TT_OK;
}

void tt__kept_free(tt_kept *kept)
{
    for (int32_t m = 0; kept->data != NULL && m < kept->n; m++)
        tt_free(kept->data[m]);
    tt_free(kept->data);
}
