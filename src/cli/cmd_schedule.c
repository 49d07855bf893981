// schedule - a schedule of pipelines: checked, timed and drawn, without a model.

#include "base/file.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/term.h"
#include "pipe/draw.h"
#include "pipe/text.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef struct params {
    int64_t ranks, chunks, micro, steps, capacity;
    tt_f64s forward, input_grad, weight_grad, update, move;
} params;

#define AT(name) offsetof(params, name)
#define SECONDS                                                                \
    "seconds; one number, or one per chunk (at most 16), separated by commas"

static const tt_opt table[] = {
    {"ranks", "4", "ranks along the pipe", TT_OPT_I64, AT(ranks), NULL, 1,
     TT_PIPE_RANKS_MAX},
    {"chunks", "1", "chunks per rank", TT_OPT_I64, AT(chunks), NULL, 1,
     TT_PIPE_CHUNKS_MAX},
    {"micro", "8", "micro-batches per step", TT_OPT_I64, AT(micro), NULL, 1,
     TT_PIPE_MICRO_MAX},
    {"steps", "1", "steps in the table", TT_OPT_I64, AT(steps), NULL, 1,
     TT_PIPE_MICRO_MAX},
    {"capacity", "0", "room for messages from a rank to another; 0: no limit",
     TT_OPT_I64, AT(capacity), NULL, 0, TT_PIPE_MICRO_MAX},
    {"forward", "1", SECONDS, TT_OPT_F64S, AT(forward), NULL, 0, 1e9},
    {"input_grad", "1", SECONDS, TT_OPT_F64S, AT(input_grad), NULL, 0, 1e9},
    {"weight_grad", "1", SECONDS, TT_OPT_F64S, AT(weight_grad), NULL, 0, 1e9},
    {"update", "0", SECONDS, TT_OPT_F64S, AT(update), NULL, 0, 1e9},
    {"move", "0", "of sending a chunk's output; " SECONDS, TT_OPT_F64S,
     AT(move), NULL, 0, 1e9},
    {0},
};

// What is shown.
typedef struct shown {
    const params *o;
    const tt_pipe_def *def; // NULL: the table is from a file
    tt_pipe *p;
    tt_pipe_times *times;
    int32_t least;  // room for messages
    double formula; // seconds of bubble; negative: there is none
} shown;

// ---- the table -----------------------------------------------------------

static tt_status unknown(const char *word)
{
    enum { MOST = 64 };
    const char *names[MOST];
    int n = 0;
    const tt_pipe_def *const *all = tt_pipe_all(&n);
    for (int i = 0; i < n && i < MOST; i++)
        names[i] = all[i]->name;
    const char *near = tt_nearest(word, names, n < MOST ? n : MOST);
    if (near != NULL)
        return tt_fail(TT_ERR_ARG,
                       "\"%s\" is neither a schedule nor a file; did you mean "
                       "%s?",
                       word, near);
    return tt_fail(TT_ERR_ARG,
                   "\"%s\" is neither a schedule nor a file; `tutti list "
                   "schedules` names the schedules",
                   word);
}

static tt_status read_table(tt_cli *cli, shown *s)
{
    static const char *const sizes[] = {"ranks", "chunks", "micro", "steps"};
    if (!tt_file_exists(cli->word[0]))
        return unknown(cli->word[0]);
    for (int i = 0; i < 4; i++)
        if (tt_settings_find(&cli->settings, sizes[i]) != NULL)
            return tt_fail(TT_ERR_ARG,
                           "%s: a table from a file has its own; leave this "
                           "out",
                           sizes[i]);
    return tt_pipe_read(cli->word[0], &s->p);
}

static tt_pipe_shape shape_of(const params *o)
{
    return (tt_pipe_shape){(int32_t)o->ranks, (int32_t)o->chunks,
                           (int32_t)o->micro, (int32_t)o->steps};
}

// The schedule's own options are given like the command's.
static tt_status take_options(tt_cli *cli, const tt_pipe_def *def, tt_str *out)
{
    for (const tt_opt *o = def->options; o != NULL && o->name != NULL; o++) {
        const char *value = tt_settings_get(&cli->settings, o->name);
        if (value != NULL)
            tt_str_addf(out, "%s=\"%s\" ", o->name, value);
    }
    return tt_str_status(out);
}

static bool is_even(const tt_f64s *list)
{
    return list->n == 1;
}

static tt_status make_table(shown *s, const char *options)
{
    const params *o = s->o;
    const tt_pipe_shape shape = shape_of(o);
    TT_TRY(tt_pipe_create(s->def, &shape, options, &s->p));
    if (is_even(&o->forward) && is_even(&o->input_grad) &&
        is_even(&o->weight_grad) && is_even(&o->update) &&
        o->update.v[0] == 0 && is_even(&o->move) && o->move.v[0] == 0)
        return tt_pipe_bubble(s->def, &shape, options,
                              &(tt_pipe_even){o->forward.v[0],
                                              o->input_grad.v[0],
                                              o->weight_grad.v[0]},
                              &s->formula);
    return TT_OK;
}

// ---- times ---------------------------------------------------------------

static tt_status spread(tt_arena *arena, const char *name, const tt_f64s *list,
                        int32_t n, const double **out)
{
    if (list->n != 1 && list->n != n)
        return tt_fail(TT_ERR_ARG, "%s has %lld numbers; give 1 or %d", name,
                       (long long)list->n, n);
    double *all = tt_arena_alloc(arena, n * (int64_t)sizeof(*all));
    if (all == NULL)
        return TT_ERR_NOMEM;
    for (int32_t i = 0; i < n; i++)
        all[i] = list->v[list->n == 1 ? 0 : i];
    *out = all;
    return TT_OK;
}

static tt_status measure(tt_arena *arena, shown *s)
{
    const params *o = s->o;
    const int32_t n = s->p->n_chunks;
    tt_pipe_seconds t = {0};
    TT_TRY(spread(arena, "forward", &o->forward, n, &t.row[TT_PIPE_FORWARD]));
    TT_TRY(spread(arena, "input_grad", &o->input_grad, n,
                  &t.row[TT_PIPE_INPUT_GRAD]));
    TT_TRY(spread(arena, "weight_grad", &o->weight_grad, n,
                  &t.row[TT_PIPE_WEIGHT_GRAD]));
    TT_TRY(spread(arena, "update", &o->update, n, &t.row[TT_PIPE_UPDATE]));
    if (n > 1)
        TT_TRY(spread(arena, "move", &o->move, o->move.n == 1 ? n : n - 1,
                      &t.move));
    return tt_pipe_measure(s->p, &t, &s->times);
}

// ---- what is printed -----------------------------------------------------

static void add_sum(const shown *s, tt_str *out)
{
    double span = 0;
    for (int32_t r = 0; r < s->p->n_ranks; r++)
        span = fmax(span, s->times->rank[r].last - s->times->rank[r].first);
    tt_str_add(out, "\nbubble ");
    tt_pipe_add_seconds(fmax(s->times->bubble, 0), out);
    tt_str_addf(out, " (%.1f %%)",
                span > 0 ? 100 * fabs(s->times->bubble) / span : 0);
    if (s->formula >= 0) {
        tt_str_add(out, "; by the formula ");
        tt_pipe_add_seconds(s->formula, out);
    }
    tt_str_add(out, "\nall ranks are done after ");
    tt_pipe_add_seconds(s->times->makespan, out);
    tt_str_addf(out,
                "\nno deadlock with room for %d message%s from a rank to "
                "another\n",
                s->least, s->least == 1 ? "" : "s");
    if (s->def != NULL)
        tt_str_addf(out, "%s\n", s->def->paper);
}

static void add_rows(const shown *s, int32_t rank, tt_json *j)
{
    tt_json_open(j, "rows", '[');
    for (int32_t i = 0; i < s->p->rank[rank].n; i++) {
        const tt_pipe_row *row = &s->p->rank[rank].row[i];
        tt_json_open(j, NULL, '{');
        tt_json_str(j, "phase", tt_pipe_phase_name(row->phase));
        tt_json_i64(j, "chunk", row->chunk);
        tt_json_i64(j, "copy", row->copy);
        tt_json_i64(j, "micro", row->micro);
        tt_json_i64(j, "slot", row->slot);
        tt_json_i64(j, "version", row->version);
        tt_json_i64(j, "ahead", row->ahead);
        tt_json_bool(j, "first", row->is_first);
        tt_json_bool(j, "last", row->is_last);
        if (tt_pipe_source(s->p, row) >= 0)
            tt_json_i64(j, "from", tt_pipe_source(s->p, row));
        if (tt_pipe_target(s->p, row) >= 0)
            tt_json_i64(j, "to", tt_pipe_target(s->p, row));
        tt_json_f64(j, "start", s->times->rank[rank].start[i]);
        tt_json_f64(j, "finish", s->times->rank[rank].finish[i]);
        tt_json_close(j, '}');
    }
    tt_json_close(j, ']');
}

static void add_json(const shown *s, tt_str *out)
{
    tt_json j = {.out = out};
    tt_json_open(&j, NULL, '{');
    tt_json_str(&j, "schedule", s->p->name);
    tt_json_str(&j, "rule", tt_pipe_rule_name(s->p->rule));
    tt_json_i64(&j, "chunks", s->p->n_chunks);
    tt_json_i64(&j, "copies", s->p->n_copies);
    tt_json_i64(&j, "micro", s->p->n_micro);
    tt_json_i64(&j, "steps", s->p->n_steps);
    tt_json_f64(&j, "makespan", s->times->makespan);
    tt_json_f64(&j, "bubble", s->times->bubble);
    if (s->formula >= 0)
        tt_json_f64(&j, "formula", s->formula);
    tt_json_i64(&j, "least_capacity", s->least);
    tt_json_open(&j, "ranks", '[');
    for (int32_t r = 0; r < s->p->n_ranks; r++) {
        const tt_pipe_rank_times *t = &s->times->rank[r];
        tt_json_open(&j, NULL, '{');
        tt_json_f64(&j, "computing", t->busy);
        tt_json_f64(&j, "waiting", t->bubble);
        tt_json_open(&j, "waits_for", '[');
        for (int32_t i = 0; i < s->p->n_ranks; i++)
            tt_json_f64(&j, NULL, t->waits[i]);
        tt_json_close(&j, ']');
        tt_json_i64(&j, "in_flight", t->n_live);
        tt_json_i64(&j, "slots", t->n_slots);
        add_rows(s, r, &j);
        tt_json_close(&j, '}');
    }
    tt_json_close(&j, ']');
    tt_json_close(&j, '}');
    tt_str_add(out, "\n");
}

static void add_picture(const shown *s, tt_str *out)
{
    tt_term term;
    tt_term_init(&term, STDOUT_FILENO);
    const tt_pipe_look look = {tt_term_width(&term), term.has_color};
    tt_term_fini(&term);
    tt_pipe_draw(s->p, s->times, &look, out);
    tt_str_add(out, "\n");
    tt_pipe_draw_figures(s->p, s->times, out);
    add_sum(s, out);
}

static tt_status write_svg(const shown *s, const char *path)
{
    tt_str svg = {0};
    tt_pipe_draw_svg(s->p, s->times, &svg);
    tt_status status = tt_str_status(&svg);
    if (status == TT_OK)
        status = tt_file_replace(path, tt_str_text(&svg), svg.n);
    tt_str_fini(&svg);
    return status;
}

static tt_status show(tt_cli *cli, const shown *s)
{
    tt_str text = {0};
    const char *svg = tt_cli_value(cli, "--svg");
    if (tt_cli_has(cli, "--json"))
        add_json(s, &text);
    else if (tt_cli_has(cli, "--text"))
        tt_pipe_print(s->p, &text);
    else
        add_picture(s, &text);
    tt_status status = tt_str_status(&text);
    if (status == TT_OK && svg != NULL)
        status = write_svg(s, svg);
    if (status == TT_OK)
        fputs(tt_str_text(&text), stdout);
    tt_str_fini(&text);
    return status;
}

// ---- the command ---------------------------------------------------------

static tt_status make(tt_cli *cli, params *o, shown *s)
{
    tt_str options = {0};
    s->def = tt_pipe_find(cli->word[0]);
    tt_status status =
        s->def != NULL ? take_options(cli, s->def, &options) : TT_OK;
    if (status == TT_OK)
        status = tt_cli_options(cli, table, o);
    if (status == TT_OK)
        status = s->def != NULL ? make_table(s, tt_str_text(&options))
                                : read_table(cli, s);
    tt_str_fini(&options);
    return status;
}

static tt_status run(tt_cli *cli, int *exit_out)
{
    params o;
    shown s = {.o = &o, .formula = -1};
    (void)exit_out;
    if (cli->n_words == 0)
        return tt_fail(TT_ERR_ARG,
                       "which schedule? `tutti list schedules` names them; a "
                       "file with a table will do too");
    tt_status status = make(cli, &o, &s);
    if (status == TT_OK)
        status = tt_pipe_check(s.p, (int32_t)o.capacity);
    if (status == TT_OK)
        status = tt_pipe_least_capacity(s.p, &s.least);
    if (status == TT_OK)
        status = measure(cli->arena, &s);
    if (status == TT_OK)
        status = show(cli, &s);
    tt_pipe_times_destroy(s.times);
    tt_pipe_destroy(s.p);
    return status;
}

static const tt_flag flags[] = {
    {"--text", "the table as text, as it is read from a file"},
    {"--svg", "writes the picture to FILE too", "FILE"},
    {"--json", "one JSON object"},
    {0},
};

const tt_command_def tt_command_schedule = {
    .name = "schedule",
    .doc = "Checks, times and draws a schedule of pipelines.",
    .usage = "NAME|FILE [ranks=P] [chunks=V] [micro=M] [steps=N] "
             "[key=value ...] [--text] [--svg FILE] [--json]",
    .detail =
        "A schedule by its name, with its options (slots=6), or a table from a "
        "file. Times in seconds:\nforward, input_grad, weight_grad, update, "
        "move; 1,1,2,1 gives one per chunk. capacity=K checks for\ndeadlock "
        "with room for K messages from a rank to another.",
    .flags = flags,
    .max_words = 1,
    .takes_paths = true,
    .run = run,
};
