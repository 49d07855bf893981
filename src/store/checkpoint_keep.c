// checkpoint_keep - which checkpoints are kept.
//
// Kept are the newest `keep`, every one whose step is a multiple of keep_every, and
// the best. A checkpoint saved in passing (because of a signal or of the clock)
// counts for none of these rules and stays only while it is the newest. So what a
// run leaves in the end does not depend on when it was interrupted.
//
// Steps are visited from the newest to the oldest. Names (`best`, `latest`) are
// changed before a folder that they name is removed.

#include "base/alloc.h"
#include "base/file.h"
#include "store/checkpoint_folder.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

// Reads the first line of state.json only; see checkpoint_state.c.
tt_status tt__checkpoint_is_passing(const char *folder, int64_t step,
                                    bool *is_out)
{
    char path[PATH_MAX], text[128];
    TT_TRY(tt__checkpoint_step_path(folder, step, path));
    const size_t n = strlen(path);
    if (n + sizeof("/state.json") > PATH_MAX)
        return tt_fail(TT_ERR_ARG, "%.200s...: the name is too long", path);
    memcpy(path + n, "/state.json", sizeof("/state.json"));
    *is_out = false;
    const int fd = tt_file_open_read(path);
    if (fd < 0 && tt_file_is_absent(errno))
        return TT_OK;
    const int64_t k =
        fd < 0 ? -1 : tt_file_read_some(fd, text, sizeof text - 1, 0);
    const int error = errno;
    if (fd >= 0)
        close(fd);
    if (k < 0)
        return tt_fail(TT_ERR_IO, "%s: cannot be read: %s", path,
                       strerror(error));
    text[k] = '\0';
    char *line = strchr(text, '\n');
    if (line != NULL)
        *line = '\0';
    *is_out = strstr(text, "\"passing\": true") != NULL;
    return TT_OK;
}

typedef struct rule {
    const tt_checkpoint_rules *rules;
    const char *folder;
    int64_t best, newest; // newest: of those that are there
    int64_t n_newer;      // kept by the rules, so far
} rule;

// Whether a step is kept. Called from the newest step to the oldest, since n_newer
// counts the regular checkpoints seen so far.
static tt_status judge(rule *r, int64_t step, bool *keeps_out)
{
    bool is_passing = false;
    if (step != r->best)
        TT_TRY(tt__checkpoint_is_passing(r->folder, step, &is_passing));
    *keeps_out = step == r->newest;
    if (is_passing)
        return TT_OK;
    const int64_t every = r->rules->keep_every;
    *keeps_out = r->n_newer < r->rules->keep || step == r->best ||
                 (every > 0 && step % every == 0);
    r->n_newer++;
    return TT_OK;
}

// Keeps, removes or sets aside one checkpoint. Steps after `limit` belong to a
// history that was left by a rollback or a resume; they are removed.
static tt_status keep_one(rule *r, const tt__steps *bad, int64_t limit,
                          int64_t step)
{
    bool keeps = false;
    if (tt__saved_steps_has(bad, step))
        return tt__checkpoint_set_aside(r->folder, step);
    if (step <= limit && r->newest < 0)
        r->newest = step;
    if (step <= limit)
        TT_TRY(judge(r, step, &keeps));
    return keeps ? TT_OK : tt__checkpoint_remove(r->folder, step);
}

tt_status tt__checkpoint_keep(const char *folder,
                              const tt_checkpoint_rules *rules,
                              const tt__steps *bad, int64_t newest)
{
    tt__steps steps = {0};
    rule r = {.rules = rules, .folder = folder, .best = -1, .newest = -1};
    tt_status status = tt__checkpoint_named(folder, "best", &r.best);
    if (status == TT_OK)
        status = tt__checkpoint_steps(folder, &steps);
    if (status == TT_OK &&
        (r.best > newest || tt__saved_steps_has(bad, r.best))) {
        status = tt__checkpoint_name(folder, "best", -1);
        r.best = -1;
    }
    for (int64_t i = steps.n; i-- > 0 && status == TT_OK;)
        status = keep_one(&r, bad, newest, steps.v[i]);
    tt_free(steps.v);
    return status;
}

// Names are corrected before folders are removed, so that `latest` and `best` never
// name something that is gone.
static tt_status cut_steps(const char *folder, const tt__steps *steps,
                           const tt__steps *bad, int64_t step)
{
    int64_t newest = -1, best = -1, latest = -1;
    for (int64_t i = 0; i < steps->n; i++)
        if (steps->v[i] <= step && !tt__saved_steps_has(bad, steps->v[i]))
            newest = steps->v[i];
    TT_TRY(tt__checkpoint_named(folder, "best", &best));
    TT_TRY(tt__checkpoint_named(folder, "latest", &latest));
    if (newest < best || tt__saved_steps_has(bad, best))
        TT_TRY(tt__checkpoint_name(folder, "best", -1));
    if (newest != latest)
        TT_TRY(tt__checkpoint_name(folder, "latest", newest));
    for (int64_t i = steps->n; i-- > 0;) {
        if (tt__saved_steps_has(bad, steps->v[i]))
            TT_TRY(tt__checkpoint_set_aside(folder, steps->v[i]));
        else if (steps->v[i] > step)
            TT_TRY(tt__checkpoint_remove(folder, steps->v[i]));
    }
    return TT_OK;
}

tt_status tt__checkpoint_cut(const char *folder, const tt__steps *bad,
                             int64_t step)
{
    tt__steps steps = {0};
    tt_status status = tt__checkpoint_steps(folder, &steps);
    if (status == TT_OK)
        status = cut_steps(folder, &steps, bad, step);
    tt_free(steps.v);
    return status;
}
