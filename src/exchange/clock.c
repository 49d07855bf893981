#include "exchange/clock.h"

#include "base/registry.h"

#include <math.h>

static bool never_late(const tt_server *s, const tt_server_push *push)
{
    (void)s;
    (void)push;
    return false;
}

static bool is_applied(const tt_server *s, int32_t worker)
{
    return s->worker[worker].n_pending == 0;
}

static int64_t slowest(const tt_server *s)
{
    int64_t least = s->worker[0].pushed;
    for (int32_t i = 1; i < s->rules.workers; i++)
        if (s->worker[i].pushed < least)
            least = s->worker[i].pushed;
    return least;
}

// ---- bsp, async, softsync ------------------------------------------------

static bool has_all(const tt_server *s)
{
    return s->n_pending == s->rules.workers;
}

static bool has_any(const tt_server *s)
{
    return s->n_pending > 0;
}

static bool has_enough(const tt_server *s)
{
    return s->n_pending >= (int32_t)s->rules.bound;
}

static const tt_clock_def bsp = {
    .name = "bsp",
    .doc = "all workers' gradients are one update, and all wait for it",
    .is_late = never_late,
    .is_time = has_all,
    .goes_on = is_applied};

static const tt_clock_def async = {
    .name = "async",
    .doc = "each gradient is an update when it arrives; nobody waits",
    .is_late = never_late,
    .is_time = has_any,
    .goes_on = is_applied};

static const tt_clock_def softsync = {
    .name = "softsync",
    .doc = "so many gradients, of whichever workers, are one update",
    .bound = "gradients of an update",
    .usual = -2,
    .is_whole = true,
    .min = 1,
    .upto_all = true,
    .is_late = never_late,
    .is_time = has_enough,
    .goes_on = is_applied};

// ---- ssp -----------------------------------------------------------------

static bool is_near(const tt_server *s, int32_t worker)
{
    return (double)(s->worker[worker].pushed - slowest(s)) <= s->rules.bound;
}

// Somebody is about to read.
static bool has_reader(const tt_server *s)
{
    for (int32_t i = 0; s->n_pending > 0 && i < s->rules.workers; i++)
        if (s->worker[i].is_waiting && is_near(s, i))
            return true;
    return false;
}

static const tt_clock_def ssp = {
    .name = "ssp",
    .doc = "no worker is further ahead of the slowest than so many gradients",
    .bound = "gradients ahead of the slowest worker",
    .usual = 3,
    .is_whole = true,
    .min = 0,
    .is_late = never_late,
    .is_time = has_reader,
    .goes_on = is_near};

static const tt_clock_def essp = {
    .name = "essp",
    .doc = "as ssp, but each gradient is an update when it arrives, and the "
           "server sends weights unasked",
    .bound = "gradients ahead of the slowest worker",
    .usual = 3,
    .is_whole = true,
    .min = 0,
    .is_eager = true,
    .is_late = never_late,
    .is_time = has_any,
    .goes_on = is_near};

// ---- absp ----------------------------------------------------------------

static const tt_clock_def absp = {
    .name = "absp",
    .doc = "when so many workers have delivered, the others give what they "
           "have finished, and all go on",
    .bound = "workers that nobody hurries",
    .usual = -2,
    .is_whole = true,
    .min = 1,
    .upto_all = true,
    .takes_parts = true,
    .is_late = never_late,
    .is_time = has_all,
    .goes_on = is_applied};

bool tt_clock_is_hurried(const tt_server *server)
{
    return server->rules.clock->takes_parts && has_enough(server);
}

// ---- backup, quorum ------------------------------------------------------

static bool is_old(const tt_server *s, const tt_server_push *push)
{
    return push->version < s->version;
}

static bool has_all_but(const tt_server *s)
{
    return s->n_pending >= s->rules.workers - (int32_t)s->rules.bound;
}

static const tt_clock_def backup = {
    .name = "backup",
    .doc = "the first gradients of all but so many workers are an update; what "
           "comes later is dropped",
    .bound = "workers that nobody waits for",
    .usual = 1,
    .is_whole = true,
    .min = 0,
    .below_all = true,
    .is_late = is_old,
    .is_time = has_all_but,
    .goes_on = is_applied};

static bool has_quorum(const tt_server *s)
{
    int32_t fresh = 0;
    for (int32_t i = 0; i < s->n_pending; i++)
        fresh += s->pending[i].version == s->version;
    return fresh >= (int32_t)s->rules.bound;
}

// One that came late goes on at once: its gradient stays.
static bool has_no_fresh(const tt_server *s, int32_t worker)
{
    for (int32_t i = 0; i < s->n_pending; i++)
        if (s->pending[i].worker == worker &&
            s->pending[i].version == s->version)
            return false;
    return true;
}

static const tt_clock_def quorum = {
    .name = "quorum",
    .doc = "so many gradients of the newest weights are an update; what comes "
           "later joins the next one",
    .bound = "gradients that make an update due",
    .usual = -2,
    .is_whole = true,
    .min = 1,
    .upto_all = true,
    .is_late = never_late,
    .is_time = has_quorum,
    .goes_on = has_no_fresh};

// ---- delay, value --------------------------------------------------------

// An update is held while it would make the gradient of somebody who computes too old.
static bool is_in_time(const tt_server *s)
{
    for (int32_t i = 0; i < s->rules.workers; i++)
        if (!s->worker[i].is_waiting &&
            (double)(s->version + 1 - s->worker[i].version) > s->rules.bound)
            return false;
    return s->n_pending > 0;
}

static const tt_clock_def delay = {
    .name = "delay",
    .doc = "an update is held while it would make a gradient that is being "
           "computed older than so many updates",
    .bound = "updates that a gradient may be old",
    .usual = -2,
    .is_whole = true,
    .min = 0,
    .is_late = never_late,
    .is_time = is_in_time,
    .goes_on = is_applied};

static bool is_close(const tt_server *s)
{
    for (int32_t i = 0; i < s->rules.workers; i++)
        if (!s->worker[i].is_waiting && s->worker[i].unseen > s->rules.bound)
            return false;
    return s->n_pending > 0;
}

static const tt_clock_def value = {
    .name = "value",
    .doc =
        "an update is held while somebody computes with weights of which one "
        "has moved by more than this",
    .bound = "how far a weight may have moved",
    .usual = 0.01,
    .min = 0,
    .asks_change = true,
    .is_late = never_late,
    .is_time = is_close,
    .goes_on = is_applied};

static const tt_clock_def *const all[] = {&async,  &bsp,    &ssp,   &softsync,
                                          &backup, &quorum, &delay, &value,
                                          &essp,   &absp};
TT_REGISTRY(tt_clock, all)

static tt_status refuse(const tt_clock_def *clock, double setting, double least,
                        double most)
{
    const char *what = clock->is_whole ? "a whole number" : "a number";
    const double inside = fmax(least, fmin(most, setting));
    const double nearest = clock->is_whole ? floor(inside) : inside;
    if (isfinite(most))
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s: exchange.bound=%g is not %s from %g "
                       "to %g (%s); exchange.bound=%g would do",
                       clock->name, setting, what, least, most, clock->bound,
                       nearest);
    return tt_fail(TT_ERR_ARG,
                   "exchange.clock=%s: exchange.bound=%g is not %s of at least "
                   "%g (%s); exchange.bound=%g would do",
                   clock->name, setting, what, least, clock->bound, nearest);
}

tt_status tt_clock_bound(const tt_clock_def *clock, int32_t workers,
                         double setting, double *bound_out)
{
    const double most = clock->upto_all    ? workers
                        : clock->below_all ? workers - 1
                                           : (double)INFINITY;
    double bound = setting;
    if (clock->bound == NULL && setting >= 0)
        return tt_fail(TT_ERR_ARG,
                       "exchange.clock=%s has no number; exchange.bound=-1 "
                       "would do",
                       clock->name);
    const int32_t half = (workers + 1) / 2;
    if (setting < 0)
        bound = clock->usual < 0 ? half : clock->usual;
    if (setting < 0 && bound > most)
        bound = most;
    if (clock->bound != NULL && (bound < clock->min || bound > most ||
                                 (clock->is_whole && bound != floor(bound))))
        return refuse(clock, bound, clock->min, most);
    *bound_out = bound;
    return TT_OK;
}
