// compare_lanes - one step of a run as boxes, from its trace: what each rank computed
// and sent. A kernel takes microseconds and a step has thousands, so neighbours of one
// kind become one box.

#include "base/file.h"
#include "base/json_read.h"
#include "cli/compare/compare.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS_MAX = 64, BOXES_MAX = 20000, COMPUTE = 1, NETWORK = 2 };
static const int64_t trace_max = 256 << 20;
static const double smallest = 1e-3; // of a step: shorter gaps are not seen

typedef struct window { // the step that is shown, in microseconds
    double from, to;
} window;

static double number(const tt_json_value *event, const char *key)
{
    return tt_json_number(tt_json_get(event, key), (double)NAN);
}

// The last step but one of rank 0: a whole one, with warm caches.
static window find_step(const tt_json_value *events)
{
    window last = {0}, before = {0};
    for (const tt_json_value *e = events; e != NULL; e = e->next) {
        const char *name = tt_json_text(tt_json_get(e, "name"), "");
        if (strncmp(name, "step ", 5) != 0 || number(e, "pid") != 0)
            continue;
        before = last;
        last = (window){number(e, "ts"), number(e, "ts") + number(e, "dur")};
    }
    return before.to > before.from ? before : last;
}

// The kind of an event; -1: it is not shown.
static int kind_of(const tt_json_value *e)
{
    static const struct {
        const char *cat;
        tt_lane_kind kind;
    } kinds[] = {{"forward", TT_LANE_FORWARD},
                 {"backward", TT_LANE_BACKWARD},
                 {"weight_grad", TT_LANE_WEIGHTS},
                 {"update", TT_LANE_UPDATE}};
    const double lane = number(e, "tid");
    const char *cat = tt_json_text(tt_json_get(e, "cat"), "");
    if (lane == NETWORK)
        return TT_LANE_NETWORK;
    for (int i = 0; i < 4 && lane == COMPUTE; i++)
        if (strcmp(cat, kinds[i].cat) == 0)
            return (int)kinds[i].kind;
    return -1;
}

static int by_time(const void *a, const void *b)
{
    const tt_lane_box *x = a, *y = b;
    const bool is_wire_x = x->kind == TT_LANE_NETWORK;
    const bool is_wire_y = y->kind == TT_LANE_NETWORK;
    if (is_wire_x != is_wire_y)
        return is_wire_x - is_wire_y;
    return (x->from > y->from) - (x->from < y->from);
}

// Joins neighbours of one kind; returns how many are left.
static int64_t join(tt_lane_box *box, int64_t n, double gap)
{
    int64_t kept = 0;
    if (n == 0)
        return 0;
    qsort(box, (size_t)n, sizeof *box, by_time);
    for (int64_t i = 0; i < n; i++) {
        tt_lane_box *last = kept > 0 ? &box[kept - 1] : NULL;
        if (last != NULL && last->kind == box[i].kind &&
            box[i].from - last->to < gap)
            last->to = fmax(last->to, box[i].to);
        else
            box[kept++] = box[i];
    }
    return kept;
}

static tt_status read_rank(const tt_json_value *events, int rank, window w,
                           tt_arena *arena, tt_lane *out)
{
    tt_lane_box *box = NULL;
    int64_t n = 0;
    for (int pass = 0; pass < 2; pass++) {
        n = 0;
        for (const tt_json_value *e = events; e != NULL; e = e->next) {
            const double from = number(e, "ts"), to = from + number(e, "dur");
            const int kind = number(e, "pid") == rank ? kind_of(e) : -1;
            if (kind < 0 || !(to > w.from) || !(from < w.to) || n >= BOXES_MAX)
                continue;
            if (box != NULL)
                box[n] = (tt_lane_box){1e-6 * (fmax(from, w.from) - w.from),
                                       1e-6 * (fmin(to, w.to) - w.from),
                                       (tt_lane_kind)kind};
            n++;
        }
        if (pass == 0)
            box = tt_arena_alloc(arena, (n + 1) * (int64_t)sizeof *box);
        if (box == NULL)
            return TT_ERR_NOMEM;
    }
    *out =
        (tt_lane){rank, join(box, n, smallest * 1e-6 * (w.to - w.from)), box};
    return TT_OK;
}

static tt_status read_ranks(const tt_compare *c, const tt_json_value *events,
                            tt_compared_system *out)
{
    tt_arena *arena = c->cli->arena;
    const window w = find_step(events);
    const int n = c->ranks < RANKS_MAX ? c->ranks : RANKS_MAX;
    tt_lane *lane = tt_arena_alloc(arena, n * (int64_t)sizeof *lane);
    if (lane == NULL)
        return TT_ERR_NOMEM;
    if (!(w.to > w.from))
        return TT_OK;
    for (int i = 0; i < n; i++)
        TT_TRY(read_rank(events, i, w, arena, &lane[i]));
    out->lane = lane;
    out->n_lanes = n;
    out->lane_seconds = 1e-6 * (w.to - w.from);
    return TT_OK;
}

tt_status tt_compare_lanes(const tt_compare *c, const char *name,
                           tt_compared_system *out)
{
    tt_str text = {0};
    const tt_json_value *root = NULL;
    const char *path = tt_compare_path(c, name, "/trace.json");
    tt_arena *tree = tt_arena_create();
    tt_status status = TT_OK;
    if (path != NULL && tree != NULL && tt_file_exists(path) &&
        tt_file_read(path, trace_max, &text) == TT_OK &&
        tt_json_read(tt_str_text(&text), text.n, path, tree, &root) == TT_OK) {
        const tt_json_value *events = tt_json_get(root, "traceEvents");
        status = read_ranks(c, events != NULL ? events->first : NULL, out);
    }
    tt_str_fini(&text);
    tt_arena_destroy(tree);
    return status;
}
