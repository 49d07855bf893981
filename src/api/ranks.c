// ranks - a program's own work on many ranks, and tutti_verify.
//
// tutti_ranks_run forks the ranks from the calling process, or joins those that mpirun
// has started. Each rank gets a copy of the session, as it was, and calls the user's
// function. When the function returns, what the session had on that rank is closed:
// its tensors lie on ranks that are about to end.

#include "ranks/ranks.h"

#include "api/session.h"
#include "config/keys.h"
#include "verify/verify.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static const char *get(const char *name)
{
    return getenv(name);
}

// Plug-ins lie beside the library, or where TUTTI_PLUGINS says.
static void add_plugins(tt_str *folders)
{
    const char *given = getenv("TUTTI_PLUGINS");
    Dl_info self = {0};
    if (given != NULL)
        tt_str_addf(folders, "%s:", given);
    if (dladdr(tutti_version(), &self) == 0 || self.dli_fname == NULL)
        return;
    const char *slash = strrchr(self.dli_fname, '/');
    if (slash != NULL)
        tt_str_addf(folders, "%.*s", (int)(slash - self.dli_fname),
                    self.dli_fname);
}

// A process with threads cannot be forked safely: the child gets only the thread that
// forked, and whatever the others held stays locked.
static tt_status check_threads(void)
{
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    if (tasks == NULL)
        return TT_OK; // it cannot be known
    for (const struct dirent *e = readdir(tasks); e != NULL; e = readdir(tasks))
        n += e->d_name[0] != '.';
    (void)closedir(tasks);
    return n <= 1 ? TT_OK
                  : tt_fail(TT_ERR_STATE,
                            "this process has %d threads, and ranks are forked "
                            "from a process with one: call tutti_ranks_run "
                            "before anything is built or trained",
                            n);
}

typedef struct rank_work {
    tutti_session *session;
    tutti_rank_fn *fn;
    void *user;
} rank_work;

// What each rank does.
static tt_status work(const tt_peers *peers, void *user, int *exit_out)
{
    const rank_work *w = user;
    (void)exit_out;
    w->session->peers = peers;
    const tt_status status = tt__api_status(w->fn(w->user, w->session));
    tt__api_forget(w->session);
    w->session->peers = NULL;
    return status;
}

// Settings are checked before ranks exist, or each of them would report the same
// mistake.
static tt_status run(tutti_session *session, int32_t n, rank_work *w)
{
    tt_str plugins = {0};
    int exit_status = 0;
    int32_t n_ranks = 0;
    add_plugins(&plugins);
    const tt_ranks_program program = {.get = get,
                                      .plugins = tt_str_text(&plugins),
                                      .name = "tutti_ranks_run with"};
    const tt_ranks_request request = {&program, &session->settings,
                                      session->arena, n};
    tt_world world = {.launcher = "none"};
    tt_status status = tt_str_status(&plugins);
    if (status == TT_OK)
        status = tt_keys_check(&session->settings, NULL, session->arena);
    if (status == TT_OK)
        status = tt_world_find(get, &world);
    if (status == TT_OK)
        status = tt_ranks_count(&request, &n_ranks);
    if (status == TT_OK && n_ranks > 1 && strcmp(world.launcher, "none") == 0)
        status = check_threads();
    if (status == TT_OK)
        status = tt_ranks_run(&request, work, w, &exit_status);
    if (status == TT_OK && exit_status == TT_RANKS_INTERRUPTED)
        status = tt_fail(TT_ERR_STATE, "interrupted; the ranks were ended");
    tt_str_fini(&plugins);
    return status;
}

tutti_status tutti_ranks_run(tutti_session *session, int n, tutti_rank_fn *fn,
                             void *user)
{
    TT_API_NEED(session);
    TT_API_NEED(fn);
    rank_work w = {session, fn, user};
    tt_status status = tt__api_need_unplanned(session);
    if (status == TT_OK && (n < 0 || n > TT_RANKS_MOST))
        status = tt_fail(TT_ERR_ARG,
                         "%d ranks: from 1 to %d, or 0 for those "
                         "that a launcher has started",
                         n, TT_RANKS_MOST);
    if (status == TT_OK && session->peers != NULL)
        status = tt_fail(TT_ERR_STATE, "this is a rank already");
    if (status == TT_OK)
        status = run(session, n, &w);
    return tt__api_result(status);
}

int tutti_rank(const tutti_session *session)
{
    return session != NULL && session->peers != NULL ? session->peers->rank : 0;
}

int tutti_rank_count(const tutti_session *session)
{
    return session != NULL && session->peers != NULL ? session->peers->size : 1;
}

static tt_status verify(tutti_session *session, tutti_verified *result_out)
{
    const char *folder = getenv("TMPDIR");
    const tt_verify_subject subject = {
        .settings = &session->settings,
        .peers = session->peers,
        .folder = folder != NULL && folder[0] != '\0' ? folder : "/tmp",
        .arena = session->arena};
    tt_verify_result r = {0};
    TT_TRY(tt__api_need_unplanned(session));
    if (session->peers == NULL || session->peers->size == 1)
        return tt_fail(TT_ERR_STATE,
                       "verify compares several ranks with one, and there is "
                       "one: call it in tutti_ranks_run");
    TT_TRY(tt_verify_settings(&subject, &r));
    tutti_verified result = {.is_ok = r.ok,
                             .has_same_bits = r.bits_equal,
                             .loss = r.loss_rel,
                             .gradient = r.grad_rel_max,
                             .weight = r.update_rel_max};
    tt_str worst = {0};
    tt_str_add(&worst, r.worst_tensor != NULL ? r.worst_tensor : "");
    tt_status status =
        tt_peers_share_text(session->peers, "the worst tensor", &worst);
    if (status == TT_OK)
        status = tt_peers_broadcast(session->peers, "the result", &result,
                                    sizeof result);
    result.worst = tt_arena_strdup(session->arena, tt_str_text(&worst));
    tt_str_fini(&worst);
    TT_TRY(status);
    *result_out = result;
    return result.worst != NULL ? TT_OK : TT_ERR_NOMEM;
}

tutti_status tutti_verify(tutti_session *session, tutti_verified *result_out)
{
    TT_API_NEED(session);
    TT_API_NEED(result_out);
    return tt__api_result(verify(session, result_out));
}
