// meet - the texts that are compared.

#include "train/meet.h"

#include "train/session.h"

#include <string.h>

// What may differ: files are rank 0's, and how fast a rank works is its own affair.
static bool is_own(const char *key)
{
    static const char *const own[] = {"run", "threads", "data.workers",
                                      "data.ahead"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(key, own[i]) == 0)
            return true;
    return strncmp(key, "log.", 4) == 0;
}

static void print_settings(const tt_settings *settings, tt_str *out)
{
    tt_settings shared = *settings;
    for (int64_t i = 0; i < settings->n; i++) {
        shared.n = 1;
        shared.v = &settings->v[i];
        if (!is_own(settings->v[i].key))
            tt_settings_print(&shared, out);
    }
}

tt_status tt_job_meet(const tt_job *job, const tt_settings *settings,
                      const char *program)
{
    tt_str config = {0}, graph = {0}, flights = {0};
    if (job->peers.size == 1)
        return TT_OK;
    print_settings(settings, &config);
    tt_graph_print(job->graph, &graph);
    tt_str_addf(&flights, "%llx",
                (unsigned long long)tt_plan_flights_hash(job->plan));
    const tt_peers_fact facts[] = {
        {"program", program, false},
        {"configuration", tt_str_text(&config), true},
        {"graph", tt_str_text(&graph), false},
        {"order of collectives", tt_str_text(&flights), false},
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
