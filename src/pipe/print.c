// print - a table as text, see text.h.

#include "pipe/inside.h"
#include "pipe/text.h"

enum { COLUMNS = 96 };

static const char letters[] = {
    [TT_PIPE_FORWARD] = 'F',    [TT_PIPE_BACKWARD] = 'B',
    [TT_PIPE_INPUT_GRAD] = 'I', [TT_PIPE_WEIGHT_GRAD] = 'W',
    [TT_PIPE_UPDATE] = 'U',
};

void tt_pipe_print_row(const tt_pipe_row *row, tt_str *out)
{
    tt_str_addf(out, "%c%d%s.%d", letters[row->phase], row->chunk,
                row->copy == 1 ? "'" : "", row->micro);
    if (row->slot != -1)
        tt_str_addf(out, ":%d", row->slot);
    if (row->version != 0)
        tt_str_addf(out, "@%d", row->version);
    if (row->ahead != 0)
        tt_str_addf(out, "+%d", row->ahead);
    tt_str_add(out, row->is_first ? "<" : "");
    tt_str_add(out, row->is_last ? ">" : "");
}

// A list line in the order of tt_pipe_at.
static void print_list(const tt_pipe *p, const char *word, const int32_t *list,
                       tt_str *out)
{
    tt_str_add(out, word);
    for (int32_t i = 0; i < p->n_copies * p->n_chunks; i++)
        tt_str_addf(out, " %d", list[i]);
    tt_str_add(out, "\n");
}

static void print_rank(const tt_pipe *p, int32_t rank, tt_str *out)
{
    tt_str_addf(out, "rank %d\n", rank);
    int64_t begin = 0;
    for (int32_t i = 0; i < p->rank[rank].n; i++) {
        if (i == 0 || out->n - begin > COLUMNS) {
            tt_str_add(out, i == 0 ? " " : "\n ");
            begin = out->n;
        }
        tt_str_add(out, " ");
        tt_pipe_print_row(&p->rank[rank].row[i], out);
    }
    if (p->rank[rank].n > 0)
        tt_str_add(out, "\n");
}

void tt_pipe_print(const tt_pipe *p, tt_str *out)
{
    tt_str_addf(out, "schedule %s\nranks %d\nchunks %d\n", p->name, p->n_ranks,
                p->n_chunks);
    if (p->n_copies > 1)
        tt_str_addf(out, "copies %d\n", p->n_copies);
    tt_str_addf(out, "micro %d\nsteps %d\nrule %s\n", p->n_micro, p->n_steps,
                tt_pipe_rule_name(p->rule));
    if (p->bound > 0)
        tt_str_addf(out, "bound %d\n", p->bound);
    print_list(p, "place", p->place, out);
    print_list(p, "versions", p->n_versions, out);
    print_list(p, "slots", p->n_slots, out);
    for (int32_t r = 0; r < p->n_ranks; r++)
        print_rank(p, r, out);
}
