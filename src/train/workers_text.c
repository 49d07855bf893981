#include "train/workers_text.h"

#include <math.h>

// A worker that takes so much longer for a gradient than the median worker is slow. Drawn
// speeds differ by less, unless they are asked to.
static const double slow = 1.3;

enum { NAMED = 4 }; // workers in a sentence

// ---- sentences -----------------------------------------------------------

static double sum_of(const tt_workers *w, tt_cause cause)
{
    double sum = 0;
    for (int32_t i = 0; i < w->n; i++)
        sum += w->worker[i].time[cause];
    return sum;
}

static void add_rounds(const tt_workers *w, tt_str *out)
{
    const tt_rounds *r = w->rounds;
    tt_str_addf(out,
                "%d clients, %lld rounds in %.4g local steps of time: %lld "
                "were asked, %lld too late, %lld dropped out, %lld refused",
                w->n, (long long)r->made, w->now, (long long)r->asked,
                (long long)r->late, (long long)r->dropped,
                (long long)w->refused);
    if (r->epsilon >= 0)
        tt_str_addf(out, "; privacy spent: epsilon %.4g at delta %g",
                    r->epsilon, r->delta);
    if (r->lost > 0)
        tt_str_addf(out, "; %lld round%s without an update", (long long)r->lost,
                    r->lost == 1 ? " was" : "s were");
}

void tt_workers_sentence(const tt_workers *w, tt_str *out)
{
    if (w->rounds != NULL) {
        add_rounds(w, out);
        return;
    }
    const int32_t most = w->n_bins > 0 ? w->n_bins - 1 : 0;
    double all = 0;
    for (int c = 0; c < TT_N_CAUSES; c++)
        all += sum_of(w, c);
    tt_str_addf(out,
                "%d workers: %lld gradients in %lld updates, staleness %.2f on "
                "average and %d%s at most, %lld dropped, %lld refused",
                w->n, (long long)w->pushed, (long long)w->updates, w->staleness,
                most, w->n_bins == w->bins_max ? " or more" : "",
                (long long)w->dropped, (long long)w->refused);
    if (w->messages > 0)
        tt_str_addf(out, "; %lld messages between them",
                    (long long)w->messages);
    if (w->server.proxies > 0)
        tt_str_addf(out, "; %lld proxies pushed %lld sums to the server",
                    (long long)w->server.proxies, (long long)w->server.pushes);
    if (w->server.chain > 1)
        tt_str_addf(out, "; %lld ranks hold each shard of the weights",
                    (long long)w->server.chain);
    if (all > 0)
        tt_str_addf(out, "; held by the clock %.1f%% of their time",
                    100 * sum_of(w, TT_CAUSE_HELD) / all);
}

void tt_workers_load_sentence(const tt_workers *w, tt_str *out)
{
    if (!(w->seconds > 0))
        return;
    tt_str_addf(out, "%s made %.3g updates per second",
                w->has_server ? "the server" : "workers",
                (double)w->n_made / w->seconds);
    if (w->has_server)
        tt_str_addf(out, " and was busy %.1f%% of the time",
                    100 * w->busy / w->seconds);
}

void tt_workers_slow_sentence(const tt_workers *w, tt_str *out)
{
    int32_t n = 0;
    for (int32_t i = 0; i < w->n; i++)
        if (w->worker[i].slow >= slow) {
            n++;
            if (n <= NAMED)
                tt_str_addf(out, "%sworker %d (rank %d) %.1f times",
                            n > 1 ? ", " : "slow: ", i, w->worker[i].rank,
                            w->worker[i].slow);
        }
    if (n > NAMED)
        tt_str_addf(out, " and %d more", n - NAMED);
    if (n > 0)
        tt_str_add(out, " as long for a gradient as the median worker");
}

static void add_name(const tt_workers *w, int32_t i, tt_str *out)
{
    tt_str_addf(out, "%s %d", w->rounds != NULL ? "client" : "worker", i);
    if (w->worker[i].rank >= 0)
        tt_str_addf(out, " (rank %d)", w->worker[i].rank);
}

// The worker that was refused most, of those below `limit` and not before `from`.
static int32_t next_refused(const tt_workers *w, int64_t limit, int32_t from)
{
    int32_t at = -1;
    for (int32_t i = 0; i < w->n; i++) {
        const int64_t r = w->worker[i].refused;
        const bool is_left = r < limit || (r == limit && i >= from);
        if (r > 0 && is_left && (at < 0 || r > w->worker[at].refused))
            at = i;
    }
    return at;
}

void tt_workers_refused_sentence(const tt_workers *w, tt_str *out)
{
    if (w->refused == 0)
        return;
    const bool is_one = w->refused == 1;
    tt_str_addf(out,
                "the server has refused %lld %s%s that %s not finite, too "
                "long, or of a loss beyond train.spike: ",
                (long long)w->refused,
                w->rounds != NULL ? "change" : "gradient", is_one ? "" : "s",
                is_one ? "was" : "were");
    int64_t limit = INT64_MAX, left = w->refused;
    int32_t from = 0;
    for (int n = 0; n < NAMED; n++) {
        const int32_t i = next_refused(w, limit, from);
        if (i < 0)
            break;
        limit = w->worker[i].refused;
        from = i + 1;
        left -= limit;
        tt_str_addf(out, "%s%lld of ", n > 0 ? ", " : "", (long long)limit);
        add_name(w, i, out);
    }
    if (left > 0)
        tt_str_addf(out, ", %lld of others", (long long)left);
}

// ---- JSON ----------------------------------------------------------------

static void print_times(const tt_worker_row *row, tt_json *j)
{
    tt_json_open(j, "time", '{');
    for (int c = 0; c < TT_N_CAUSES; c++)
        tt_json_f64(j, tt_cause_name[c], row->time[c]);
    tt_json_close(j, '}');
    tt_json_f64(j, "pace", row->pace);
    tt_json_f64(j, "slow", row->slow);
}

// Parts of a bar in thousandths, since there are many.
static void print_bars(const tt_workers *w, int32_t lane, tt_json *j)
{
    const int n = tt_diary_used(&w->diary);
    tt_json_open(j, "bars", '[');
    for (int b = 0; b < n; b++) {
        const double *bar = tt_diary_bar(&w->diary, lane, b);
        tt_json_open(j, NULL, '[');
        for (int c = 0; c < TT_N_CAUSES; c++)
            tt_json_i64(j, NULL, llround(1000 * bar[c] / w->diary.width));
        tt_json_close(j, ']');
    }
    tt_json_close(j, ']');
}

static void print_worker(const tt_workers *w, int32_t i, bool has_bars,
                         tt_json *j)
{
    const tt_worker_row *row = &w->worker[i];
    tt_json_open(j, NULL, '{');
    tt_json_i64(j, "worker", i);
    if (row->rank >= 0)
        tt_json_i64(j, "rank", row->rank);
    tt_json_i64(j, "gradients", row->pushed);
    tt_json_i64(j, "dropped", row->dropped);
    tt_json_i64(j, "refused", row->refused);
    tt_json_f64(j, "staleness", row->staleness);
    tt_json_i64(j, "bytes_up", row->up);
    tt_json_i64(j, "bytes_down", row->down);
    if (w->unit != NULL)
        print_times(row, j);
    if (w->unit != NULL && has_bars && i < w->diary.lanes)
        print_bars(w, i, j);
    tt_json_close(j, '}');
}

typedef void sentence_fn(const tt_workers *workers, tt_str *out);

static void print_sentence(const tt_workers *w, const char *key,
                           sentence_fn *say, tt_json *j)
{
    tt_str text = {0};
    say(w, &text);
    if (text.n > 0)
        tt_json_str(j, key, tt_str_text(&text));
    tt_str_fini(&text);
}

static void print_rounds(const tt_rounds *r, tt_json *j)
{
    tt_json_open(j, "rounds", '{');
    tt_json_i64(j, "made", r->made);
    tt_json_i64(j, "lost", r->lost);
    tt_json_i64(j, "asked", r->asked);
    tt_json_i64(j, "late", r->late);
    tt_json_i64(j, "dropped_out", r->dropped);
    if (r->epsilon >= 0) {
        tt_json_f64(j, "epsilon", r->epsilon);
        tt_json_f64(j, "delta", r->delta);
    }
    tt_json_close(j, '}');
}

void tt_workers_print_json(const tt_workers *w, bool has_bars, tt_json *j)
{
    tt_json_i64(j, "updates", w->updates);
    tt_json_i64(j, "gradients", w->pushed);
    tt_json_i64(j, "dropped", w->dropped);
    tt_json_i64(j, "refused", w->refused);
    tt_json_i64(j, "messages", w->messages);
    tt_json_f64(j, "staleness", w->staleness);
    tt_json_open(j, "histogram", '[');
    for (int32_t i = 0; i < w->n_bins; i++)
        tt_json_i64(j, NULL, w->histogram[i]);
    tt_json_close(j, ']');
    tt_json_open(j, "server", '{');
    tt_json_f64(j, "seconds", w->seconds);
    tt_json_f64(j, "busy_seconds", w->busy);
    tt_json_i64(j, "updates", w->n_made);
    if (w->has_server) {
        tt_json_i64(j, "proxies", w->server.proxies);
        tt_json_i64(j, "chain", w->server.chain);
        tt_json_i64(j, "pushes", w->server.pushes);
        tt_json_i64(j, "answers", w->server.answers);
        tt_json_i64(j, "bytes_in", w->server.bytes_in);
        tt_json_i64(j, "bytes_out", w->server.bytes_out);
        tt_json_i64(j, "bytes_passed", w->server.bytes_passed);
    }
    tt_json_close(j, '}');
    if (w->unit != NULL) {
        tt_json_str(j, "unit", w->unit);
        tt_json_f64(j, "time", w->now);
        tt_json_f64(j, "bar", w->diary.width);
    }
    if (w->rounds != NULL)
        print_rounds(w->rounds, j);
    print_sentence(w, "sentence", tt_workers_sentence, j);
    print_sentence(w, "load", tt_workers_load_sentence, j);
    print_sentence(w, "slow", tt_workers_slow_sentence, j);
    print_sentence(w, "bad", tt_workers_refused_sentence, j);
    tt_json_open(j, "workers", '[');
    for (int32_t i = 0; i < w->n; i++)
        print_worker(w, i, has_bars, j);
    tt_json_close(j, ']');
}
