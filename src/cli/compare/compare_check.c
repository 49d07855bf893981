// compare_check - what no run of a comparison could work with: it is said once, before the
// first one, not once for every system.

#include "base/file.h"
#include "cli/compare/compare_parts.h"
#include "config/keys.h"
#include "config/pace.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static tt_status check_pace(const tt_compare *c)
{
    const char *pace = tt_cli_value(c->cli, "--pace");
    double speed = 0;
    return pace != NULL ? tt_pace_speed(pace, c->ranks, 0, &speed) : TT_OK;
}

// The table is written when all is over: too late to find that there is no such folder.
static tt_status check_csv(const tt_compare *c)
{
    const char *path = tt_cli_value(c->cli, "--csv");
    const char *slash = path != NULL ? strrchr(path, '/') : NULL;
    char folder[PATH_MAX];
    if (path == NULL)
        return TT_OK;
    if (path[0] == '\0' || tt_file_is_folder(path))
        return tt_fail(TT_ERR_ARG,
                       "--csv %s: is no name of a file, as --csv table.csv",
                       path);
    const int n = slash == NULL ? 0 : slash == path ? 1 : (int)(slash - path);
    snprintf(folder, sizeof folder, "%.*s", n, path);
    if (n == 0)
        snprintf(folder, sizeof folder, ".");
    if (!tt_file_is_folder(folder))
        return tt_fail(TT_ERR_ARG, "--csv %s: there is no folder %s", path,
                       folder);
    return tt_fail_context(tt_file_check_folder(folder), "--csv %s", path);
}

tt_status tt__compare_settings(const tt_compare *c, const tt_compare_one *one,
                               tt_settings *out)
{
    tt_arena *arena = c->cli->arena;
    const tt_settings *given = &c->cli->settings;
    for (int64_t i = 0; i < given->n; i++)
        TT_TRY(tt_settings_set(out, given->v[i].key, given->v[i].value,
                               given->v[i].origin, arena));
    TT_TRY(tt_settings_set(out, "system", one->word, "command line", arena));
    return tt_system_apply(out, c->ranks, arena);
}

static tt_status check_one(const tt_compare *c, const tt_compare_one *one)
{
    tt_settings all = {0};
    TT_TRY(tt__compare_settings(c, one, &all));
    return tt_keys_check(&all, NULL, c->cli->arena);
}

// A setting that every system refuses in the same words is the user's, not theirs.
static tt_status check_settings(const tt_compare *c)
{
    char first[1024] = "";
    for (int i = 0; i < c->n; i++) {
        if (!c->one[i].is_known)
            continue;
        const tt_status status = check_one(c, &c->one[i]);
        if (status == TT_OK || status == TT_ERR_NOMEM)
            return status;
        const char *why = tt_error_message();
        if (first[0] == '\0')
            snprintf(first, sizeof first, "%s", why);
        else if (strncmp(first, why, sizeof first - 1) != 0)
            return TT_OK;
    }
    return first[0] == '\0' ? TT_OK : tt_fail(TT_ERR_ARG, "%s", first);
}

// Names of which none is known: nothing is to be left behind that another try would meet.
static tt_status check_known(const tt_compare *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->one[i].is_known)
            return TT_OK;
    return tt_fail(TT_ERR_ARG, "%s", c->one[0].refusal);
}

tt_status tt__compare_check(const tt_compare *c)
{
    TT_TRY(check_known(c));
    TT_TRY(check_pace(c));
    TT_TRY(check_csv(c));
    return check_settings(c);
}
