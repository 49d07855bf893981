// ranks_plan - ranks that are planned and not started, and the memory they may use.

#include "cli/ranks.h"
#include "train/where.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

tt_status tt_cli_ranks_plan(tt_cli *cli, int32_t *n_out)
{
    static const tt_opt table[] = {
        {"-n", "0", "", TT_OPT_I64, 0, NULL, 1, 65536}, {0}};
    const char *text = tt_cli_value(cli, "-n");
    int64_t n = 0;
    tt_where where;
    tt_grid grid;
    char size[24];
    *n_out = 0;
    if (text == NULL)
        return TT_OK;
    TT_TRY(tt_opt_set(table, &n, "-n", text, cli->arena));
    TT_TRY(tt_where_read(&cli->settings, cli->arena, &where));
    TT_TRY(tt_where_grid(&where, (int32_t)n, NULL, cli->arena, &grid));
    *n_out = (int32_t)n;
    snprintf(size, sizeof size, "%lld", (long long)grid.size[TT_AXIS_DATA]);
    return tt_settings_set(&cli->settings, "mesh.data", size, "-n", cli->arena);
}

// Powers of 1000 with B, of 1024 with iB or nothing.
static bool scale_of(const char *unit, double *scale_out)
{
    static const char prefix[] = "kmgtp";
    for (int i = 0; i < 5; i++) {
        const char plain[] = {prefix[i], '\0'};
        const char decimal[] = {prefix[i], 'b', '\0'};
        const char binary[] = {prefix[i], 'i', 'b', '\0'};
        *scale_out = pow(1000, i + 1);
        if (strcasecmp(unit, decimal) == 0)
            return true;
        *scale_out = pow(1024, i + 1);
        if (strcasecmp(unit, plain) == 0 || strcasecmp(unit, binary) == 0)
            return true;
    }
    *scale_out = 1;
    return unit[0] == '\0' || strcasecmp(unit, "b") == 0;
}

tt_status tt_cli_bytes(const char *flag, const char *text, int64_t *bytes_out)
{
    char *unit = NULL;
    double scale = 1;
    const double number = strtod(text, &unit);
    while (*unit == ' ')
        unit++;
    if (unit == text || !scale_of(unit, &scale) || !(number > 0) ||
        !(number * scale < 9e18))
        return tt_fail(TT_ERR_ARG,
                       "%s %s: is no size; it is written as 80GB, 512MiB or a "
                       "number of bytes",
                       flag, text);
    *bytes_out = number * scale < 1 ? 1 : (int64_t)(number * scale);
    return TT_OK;
}
