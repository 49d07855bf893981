// meet - makes sure that all ranks are about to do the same.
//
// Ranks are separate processes, perhaps on several hosts, with their own copies of
// program, configuration and data. If one differs, the result is a hang in a
// collective or, worse, a model trained on something else. So before the first step
// ranks compare program, settings, data, graph and the order of collectives, from
// the cause to the effect: a difference in the settings is reported as such, not as
// "another graph".

#include "session/meet.h"

#include "session/session.h"

#include <string.h>

// Settings that may differ: files belong to rank 0, and speed is each rank's own
// matter.
static bool is_own(const char *key)
{
    static const char *const own[] = {"run", "threads", "data.workers",
                                      "data.ahead"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(key, own[i]) == 0)
            return true;
    return strncmp(key, "log.", 4) == 0;
}

static bool is_given(const tt_setting *s)
{
    return strcmp(s->origin, tt_session_from_data) != 0;
}

static void print_settings(const tt_settings *settings, bool only_given,
                           tt_str *out)
{
    tt_settings shared = *settings;
    for (int64_t i = 0; i < settings->n; i++) {
        shared.n = 1;
        shared.v = &settings->v[i];
        if (!is_own(settings->v[i].key) &&
            (!only_given || is_given(&settings->v[i])))
            tt_settings_print(&shared, out);
    }
}

tt_status tt_meet_job(const tt_job *job, const tt_settings *settings,
                      const char *program)
{
    tt_str config = {0}, graph = {0}, flights = {0};
    if (job->peers.size == 1)
        return TT_OK;
    print_settings(settings, false, &config);
    tt_graph_print(job->graph, &graph);
    tt_str_addf(&flights, "%llx",
                (unsigned long long)tt_plan_flights_hash(job->plan));
    const tt_peers_fact facts[] = {
        {"another program", program, NULL},
        {"another configuration", tt_str_text(&config), tt_peers_explain_lines},
        {"another graph", tt_str_text(&graph), NULL},
        {"another order of collectives", tt_str_text(&flights), NULL},
    };
    tt_status status = tt_str_status(&config);
    if (status == TT_OK)
        status = tt_str_status(&graph);
    if (status == TT_OK)
        status = tt_str_status(&flights);
    if (status == TT_OK)
        status = tt_peers_compare(&job->peers, facts, 4);
    tt_str_fini(&config);
    tt_str_fini(&graph);
    tt_str_fini(&flights);
    return status;
}

// Compares what the user gave first. Other data follow from another data.path, and
// another vocabulary follows from other data.
static tt_status compare_data(const tt_session *s, const char *program)
{
    tt_str given = {0}, data = {0};
    print_settings(&s->settings, true, &given);
    tt_fingerprint_text(s->fingerprint, &data);
    const tt_peers_fact facts[] = {
        {"another program", program, NULL},
        {"another configuration", tt_str_text(&given), tt_peers_explain_lines},
        {"other data", tt_str_text(&data), tt_fingerprint_explain},
    };
    tt_status status = tt_str_status(&given);
    if (status == TT_OK)
        status = tt_str_status(&data);
    if (status == TT_OK)
        status = tt_peers_compare(&s->job->peers, facts, 3);
    tt_str_fini(&given);
    tt_str_fini(&data);
    return status;
}

tt_status tt_session_meet(tt_session *s, const char *program)
{
    const tt_peers *peers = &s->job->peers;
    if (peers->size == 1)
        return TT_OK;
    TT_TRY(tt_peers_agree(
        peers, "reading the data",
        tt_fingerprint_take(s->data, s->arena, &s->fingerprint)));
    TT_TRY(compare_data(s, program));
    return tt_meet_job(s->job, &s->resolved, program);
}
