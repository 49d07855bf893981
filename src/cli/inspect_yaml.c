// inspect_yaml - what a file of settings says.

#include "base/json.h"
#include "cli/inspect.h"
#include "config/keys.h"

#include <stdio.h>

static void add_json(const tt_cli *cli, tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "path", cli->file);
    tt_json_str(&json, "kind", "settings");
    tt_json_open(&json, "settings", '{');
    for (int64_t i = 0; i < cli->settings.n; i++)
        tt_json_str(&json, cli->settings.v[i].key, cli->settings.v[i].value);
    tt_json_close(&json, '}');
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

static void add_text(const tt_cli *cli, tt_str *out)
{
    tt_str_addf(out, "%s: %lld settings\n", cli->file,
                (long long)cli->settings.n);
    for (int64_t i = 0; i < cli->settings.n; i++)
        tt_str_addf(out, "  %-20s %s\n", cli->settings.v[i].key,
                    cli->settings.v[i].value);
    tt_str_addf(out,
                "`tutti plan %s` says what it needs, `tutti train %s` trains "
                "it\n",
                cli->file, cli->file);
}

tt_status tt_inspect_yaml(tt_cli *cli)
{
    tt_str text = {0};
    TT_TRY(tt_keys_check(&cli->settings, NULL, cli->arena));
    if (tt_cli_has(cli, "--json"))
        add_json(cli, &text);
    else
        add_text(cli, &text);
    return tt_cli_print(&text);
}
