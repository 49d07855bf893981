// meet - makes sure that all ranks are about to do the same.
//
// Ranks are separate processes, perhaps on several hosts, with their own copies of
// program, configuration and data. If one differs, the result is a hang in a
// collective or, worse, a model trained on something else. So before the first step
// ranks compare program, settings, data, graph and the order of collectives, from
// the cause to the effect: a difference in the settings is reported as such, not as
// "another graph".

#include "session/meet.h"

#include "base/alloc.h"
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

// A line for each stage: the order of collectives of its first rank; for this rank's own
// stage, this rank's. So all texts are equal if all ranks of each stage have one order.
// Stages have other layers, and so other collectives.
static void print_flights(const tt_job *job, const uint64_t *all, tt_str *out)
{
    const tt_mesh *mesh = &job->graph->mesh;
    const int32_t rank = job->peers.rank;
    const int axis = tt_mesh_pipe(mesh);
    const int32_t stages = axis < 0 ? 1 : mesh->axis[axis].size;
    const int32_t own = axis < 0 ? 0 : tt_mesh_coord(mesh, rank, axis);
    for (int32_t s = 0; s < stages; s++) {
        const int32_t first = axis < 0 ? 0 : tt_mesh_rank_at(mesh, 0, axis, s);
        tt_str_addf(out, "%llx\n",
                    (unsigned long long)all[s == own ? rank : first]);
    }
}

static tt_status compare_flights(const tt_job *job)
{
    const tt_peers *peers = &job->peers;
    const uint64_t mine = tt_plan_flights_hash(job->plan);
    uint64_t *all = tt_alloc(peers->size * (int64_t)sizeof *all);
    tt_str text = {0};
    tt_status status = tt_peers_agree(
        peers, "comparison",
        all != NULL ? TT_OK
                    : tt_fail(TT_ERR_NOMEM, "no memory to compare ranks"));
    if (status == TT_OK)
        status = tt_peers_collect(peers, "comparison", &mine, sizeof mine, all);
    if (status == TT_OK && all != NULL) {
        print_flights(job, all, &text);
        status = tt_peers_agree(peers, "comparison", tt_str_status(&text));
    }
    const tt_peers_fact fact = {"another order of collectives",
                                tt_str_text(&text), NULL};
    if (status == TT_OK)
        status = tt_peers_compare(peers, &fact, 1);
    tt_str_fini(&text);
    tt_free(all);
    return status;
}

tt_status tt_meet_job(const tt_job *job, const tt_settings *settings,
                      const char *program)
{
    tt_str config = {0}, graph = {0};
    if (job->peers.size == 1)
        return TT_OK;
    print_settings(settings, false, &config);
    tt_graph_print(job->graph, &graph);
    const tt_peers_fact facts[] = {
        {"another program", program, NULL},
        {"another configuration", tt_str_text(&config), tt_peers_explain_lines},
        {"another graph", tt_str_text(&graph), NULL},
    };
    tt_status status = tt_str_status(&config);
    if (status == TT_OK)
        status = tt_str_status(&graph);
    if (status == TT_OK)
        status = tt_peers_compare(&job->peers, facts, 3);
    if (status == TT_OK)
        status = compare_flights(job);
    tt_str_fini(&config);
    tt_str_fini(&graph);
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
