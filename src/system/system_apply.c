// system_apply - a system on n ranks: n in its values becomes a number, and its
// settings join those of the user.

#include "base/str.h"
#include "system/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAR = 128 }; // ranks up to which another number is looked for

static const char typed[] = "command line"; // words.c calls it so

static bool is_axis(const char *key)
{
    return strncmp(key, "mesh.", 5) == 0 && strcmp(key, "mesh.order") != 0;
}

static int64_t root_of(int64_t n)
{
    int64_t best = 1;
    for (int64_t d = 1; d * d <= n; d++)
        if (n % d == 0)
            best = d;
    return best;
}

// "n", "2n", "n/2", "sqrt" or a number; 0: it is none of them, or not whole.
static int64_t value_of(const char *text, int64_t n)
{
    char *end = NULL;
    if (strcmp(text, "sqrt") == 0)
        return root_of(n);
    const long long times = strtoll(text, &end, 10);
    const int64_t factor = end == text ? 1 : times;
    if (*end == '\0')
        return end == text ? 0 : factor;
    if (*end != 'n')
        return 0;
    if (end[1] == '\0')
        return factor * n;
    if (end[1] != '/')
        return 0;
    const long long divisor = strtoll(end + 2, &end, 10);
    return *end == '\0' && divisor > 0 && factor * n % divisor == 0
               ? factor * n / divisor
               : 0;
}

// The ranks of all axes but data; 0: n cannot be cut so.
static int64_t ranks_of(const tt_system *s, int64_t n)
{
    int64_t product = 1;
    for (int64_t i = 0; i < s->settings.n; i++) {
        const tt_setting *one = &s->settings.v[i];
        if (!is_axis(one->key))
            continue;
        const int64_t value = value_of(one->value, n);
        product *= value > 0 ? value : 0;
    }
    return product > 0 && n % product == 0 ? product : 0;
}

static tt_status fail_ranks(const tt_system *s, int64_t n)
{
    int64_t below = n - 1, above = n + 1;
    while (below > 1 && ranks_of(s, below) == 0)
        below--;
    while (above < n + FAR && ranks_of(s, above) == 0)
        above++;
    const bool has_below = below > 1, has_above = above < n + FAR;
    char will_do[80] = "";
    if (has_below && has_above)
        snprintf(will_do, sizeof will_do, "; -n %lld or -n %lld will do",
                 (long long)below, (long long)above);
    else if (has_below || has_above)
        snprintf(will_do, sizeof will_do, "; -n %lld will do",
                 (long long)(has_below ? below : above));
    return tt_fail(TT_ERR_ARG,
                   "system %s: its mesh cannot be made of %lld %s%s", s->name,
                   (long long)n, n == 1 ? "rank" : "ranks", will_do);
}

// Micro-batches: as many as wanted, but so that each has a sample for every replica.
static int64_t micro_batches(int64_t wanted, int64_t replicas,
                             const tt_settings *given)
{
    const tt_setting *batch = tt_settings_find(given, "batch");
    const int64_t share = batch != NULL && atoll(batch->value) > 0
                              ? atoll(batch->value) / replicas
                              : wanted;
    int64_t best = 1;
    for (int64_t d = 1; d <= wanted && d <= share; d++)
        if (share % d == 0)
            best = d;
    return best;
}

// Whether it is a layout along an axis that the system makes of one rank: nothing is cut
// there, and nothing is to be said about it.
static bool cuts_nothing(const tt_system *system, const tt_setting *one,
                         int64_t n, const tt_settings *given)
{
    char axis[64];
    if (strncmp(one->key, "layout.", 7) != 0)
        return false;
    snprintf(axis, sizeof axis, "mesh.%s", one->value);
    const tt_setting *ranks = tt_settings_find(&system->settings, axis);
    const tt_setting *mine = tt_settings_find(given, axis);
    return ranks != NULL && value_of(ranks->value, n) == 1 &&
           (mine == NULL || atoll(mine->value) <= 1);
}

tt_status tt_system_settings(const tt_system *system, int64_t n,
                             const tt_settings *given, tt_arena *arena,
                             tt_settings *out)
{
    const int64_t others = ranks_of(system, n);
    if (others == 0)
        return fail_ranks(system, n);
    for (int64_t i = 0; i < system->settings.n; i++) {
        const tt_setting *s = &system->settings.v[i];
        char number[24];
        const char *value = s->value;
        const bool is_micro = strcmp(s->key, "accumulate") == 0;
        if (cuts_nothing(system, s, n, given))
            continue;
        int64_t whole = is_axis(s->key) || is_micro ||
                                strcmp(s->key, "exchange.replicas") == 0
                            ? value_of(s->value, n)
                            : 0;
        if (is_micro && whole > 0)
            whole = micro_batches(whole, n / others, given);
        if (whole > 0) {
            snprintf(number, sizeof number, "%lld", (long long)whole);
            value = number;
        }
        TT_TRY(tt_settings_set(out, s->key, value, s->origin, arena));
    }
    return TT_OK;
}

// Whether what the user says counts more than what the system says.
static bool is_kept(const tt_setting *mine, const tt_setting *system)
{
    return strcmp(mine->origin, typed) == 0 ||
           strcmp(system->origin, typed) != 0;
}

// Axes that the user has set leave fewer ranks to the system's.
static int64_t ranks_left(const tt_settings *settings, const tt_setting *system,
                          int64_t n)
{
    int64_t taken = 1;
    for (int64_t i = 0; i < settings->n; i++) {
        const tt_setting *s = &settings->v[i];
        if (is_axis(s->key) && is_kept(s, system) && atoll(s->value) > 0)
            taken *= atoll(s->value);
    }
    return n % taken == 0 ? n / taken : n;
}

// A micro-batch of the file would speak against the number of them.
static bool is_in_the_way(const char *key, const tt_settings *new)
{
    return strcmp(key, "micro") == 0 &&
           tt_settings_find(new, "accumulate") != NULL;
}

tt_status tt_system_apply(tt_settings *settings, int64_t n, tt_arena *arena)
{
    const tt_setting *found = tt_settings_find(settings, "system");
    tt_system system;
    tt_settings new = {0};
    if (found == NULL || found->value[0] == '\0')
        return TT_OK;
    const tt_setting which = *found;
    tt_status status = tt_system_read(which.value, arena, &system);
    if (status != TT_OK)
        return tt_fail_context(status, "%s", which.origin);
    TT_TRY(tt_system_settings(&system, ranks_left(settings, &which, n),
                              settings, arena, &new));
    for (int64_t i = 0; i < settings->n; i++)
        if (!is_kept(&settings->v[i], &which) &&
            is_in_the_way(settings->v[i].key, &new))
            settings->v[i].value = "0";
    for (int64_t i = 0; i < new.n; i++) {
        const tt_setting *s = &new.v[i];
        const tt_setting *mine = tt_settings_find(settings, s->key);
        const bool is_mine = mine != NULL && is_kept(mine, &which);
        if (!is_mine)
            TT_TRY(
                tt_settings_set(settings, s->key, s->value, s->origin, arena));
    }
    return TT_OK;
}
