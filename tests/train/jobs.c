// jobs - see the header.

#include "jobs.h"

#include "base/alloc.h"
#include "base/rng.h"
#include "test.h"

#include <math.h>
#include <string.h>

const family *family_named(const char *name)
{
    for (const family *f = families; f->name != NULL; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    CHECK_MSG(false, "no family %s", name);
    return NULL;
}

made make_job(const family *f, const char *const *more)
{
    made m = {.arena = tt_arena_create()};
    family_settings(f, more, &m.settings, m.arena);
    CHECK_OK(tt_job_configure(&m.settings, NULL, &m.job));
    return m;
}

made start_job(const family *f, const char *const *more, bool guard)
{
    made m = make_job(f, more);
    m.job->guard = guard;
    CHECK_OK(tt_job_start(m.job, NULL));
    return m;
}

void close_job(made *m)
{
    tt_job_close(m->job);
    tt_arena_destroy(m->arena);
}

void check_refused(const char *const *settings, const char *message)
{
    tt_arena *arena = tt_arena_create();
    tt_settings s = {0};
    tt_job *job = NULL;
    for (; *settings != NULL; settings++)
        CHECK_OK(tt_settings_assign(&s, *settings, "test", arena));
    tt_status status = tt_job_configure(&s, NULL, &job);
    if (status == TT_OK)
        status = tt_job_plan(job);
    CHECK(status == TT_ERR_ARG);
    CHECK_MSG(strstr(tt_error_message(), message) != NULL,
              "\"%s\" lacks \"%s\"", tt_error_message(), message);
    tt_job_close(job);
    tt_arena_destroy(arena);
}

tt_step_result step_job(made *m)
{
    tt_step_result result;
    CHECK_OK(tt_job_step(m->job, tt_job_feed_random, NULL, &result));
    return result;
}

states read_states(const made *m)
{
    const tt_graph *g = m->job->graph;
    states s = {0};
    for (int pass = 0; pass < 2; pass++) {
        int64_t at = 0;
        for (int32_t v = 0; v < g->n_values; v++) {
            const tt_value *value = &g->value[v];
            if (!tt_role_is_state(value->role))
                continue;
            if (pass == 1)
                CHECK_OK(tt_exec_read(m->job->exec, (tt_val){v}, s.data + at));
            at += tt_shape_count(&value->type.shape) *
                  tt_dtype_bytes(value->type.dtype);
        }
        if (pass == 0) {
            s = (states){at, tt_alloc(at)};
            CHECK(s.data != NULL);
        }
    }
    return s;
}

bool same_states(states a, states b)
{
    const bool is_same =
        a.bytes == b.bytes && memcmp(a.data, b.data, (size_t)a.bytes) == 0;
    tt_free(a.data);
    tt_free(b.data);
    return is_same;
}

tt_status feed_one_batch(void *user, const tt_job *job, int64_t micro, void *x,
                         void *y)
{
    static const char *const name[] = {"x", "y"};
    void *const data[] = {x, y};
    (void)user;
    for (int k = 0; k < 2; k++) {
        const tt_type *type =
            &job->graph->value[tt_graph_find(job->graph, name[k]).id].type;
        const int64_t n = tt_shape_count(&type->shape);
        const int64_t first = micro % job->options.accumulate * n;
        const uint64_t key = tt_rng_key(5, name[k], 0);
        for (int64_t i = 0; i < n; i++) {
            const double u = tt_rng_uniform(key, (uint64_t)(first + i));
            tt_dtype_store(type->dtype, data[k], i,
                           tt_dtype_is_float(type->dtype) ? 2 * u - 1
                                                          : floor(7 * u));
        }
    }
    return TT_OK;
}
