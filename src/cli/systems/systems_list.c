// systems_list - the table of systems: which there are, and where each stands.

#include "base/glob.h"
#include "base/json.h"
#include "cli/columns.h"
#include "cli/systems/systems.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A system's field by name, year and network among them; NULL: there is none.
static const char *field_of(const tt_system *s, const char *field,
                            char year[16])
{
    if (strcmp(field, "year") == 0) {
        snprintf(year, 16, "%lld", (long long)s->year);
        return year;
    }
    if (strcmp(field, "exact") == 0)
        return s->exact ? "true" : "false";
    if (strcmp(field, "name") == 0)
        return s->name;
    return tt_system_field(s, field);
}

static tt_status unknown_field(const char *where, const char *field)
{
    tt_near near = {.word = field};
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        tt_near_try(&near, tt_system_fields[i]);
    tt_near_try(&near, "year");
    tt_near_try(&near, "exact");
    tt_near_try(&near, "network");
    return tt_fail_context(
        tt_near_unknown(&near, "field",
                        "`tutti show system ddp` shows the fields"),
        "--where %s", where);
}

// Whether a word of `value` begins so, in any case: "centralised" is no part of
// "decentralised".
static bool has_word(const char *value, const char *begin)
{
    for (const char *at = value; (at = strcasestr(at, begin)) != NULL; at++)
        if (at == value || !isalnum((unsigned char)at[-1]))
            return true;
    return false;
}

tt_status tt_cli_systems_wanted(const tt_cli *cli, const tt_system *system,
                                bool *is_wanted_out)
{
    *is_wanted_out = true;
    for (int i = 0; i < cli->n_flags; i++) {
        char field[64], year[16];
        if (strcmp(cli->flag[i], "--where") != 0)
            continue;
        const char *where = cli->flag_value[i];
        const char *equals = strchr(where, '=');
        if (equals == NULL || equals - where >= (int)sizeof field ||
            equals[1] == '\0')
            return tt_fail(TT_ERR_ARG,
                           "--where %s: is no FIELD=WORD, as in --where "
                           "codec=topk",
                           where);
        memcpy(field, where, (size_t)(equals - where));
        field[equals - where] = '\0';
        const char *value = field_of(system, field, year);
        if (value == NULL)
            return unknown_field(where, field);
        if (!has_word(value, equals + 1))
            *is_wanted_out = false;
    }
    return TT_OK;
}

tt_status tt_cli_systems_none(void)
{
    return tt_fail(TT_ERR_ARG,
                   "no system is so; `tutti list systems` has all %d",
                   tt_system_count);
}

static bool has_pattern(const char *word)
{
    return strpbrk(word, "*?[") != NULL;
}

tt_status tt_cli_systems_find(tt_cli *cli, const char *word,
                              const tt_system **system_out, int *n_out)
{
    const bool is_one = tt_ends_with(word, ".yaml") ||
                        (!has_pattern(word) && strcmp(word, "all") != 0);
    const int most = is_one ? 1 : tt_system_count;
    tt_system *s = tt_arena_alloc(cli->arena, most * (int64_t)sizeof *s);
    if (s == NULL)
        return TT_ERR_NOMEM;
    *system_out = s;
    *n_out = is_one;
    if (is_one)
        return tt_system_read(word, cli->arena, s);
    for (int i = 0; i < tt_system_count; i++)
        if (strcmp(word, "all") == 0 ||
            tt_glob_match(word, tt_system_files[i].name))
            TT_TRY(tt_system_read(tt_system_files[i].name, cli->arena,
                                  &s[(*n_out)++]));
    if (*n_out == 0)
        return tt_fail(TT_ERR_ARG,
                       "no system matches \"%s\"; `tutti list systems` has all",
                       word);
    return TT_OK;
}

static void add_json(const tt_system *s, tt_json *json)
{
    tt_json_open(json, NULL, '{');
    tt_json_str(json, "name", s->name);
    tt_json_str(json, "doc", s->about);
    tt_json_str(json, "source", s->source);
    tt_json_i64(json, "year", s->year);
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        tt_json_str(json, tt_system_fields[i],
                    tt_system_field(s, tt_system_fields[i]));
    tt_json_str(json, "lacks", s->lacks);
    tt_json_str(json, "network", s->network);
    tt_json_str(json, "needs", s->needs);
    tt_json_bool(json, "exact", s->exact);
    tt_json_open(json, "settings", '{');
    for (int64_t i = 0; i < s->settings.n; i++)
        tt_json_str(json, s->settings.v[i].key, s->settings.v[i].value);
    tt_json_close(json, '}');
    tt_json_close(json, '}');
}

static void add_row(const tt_system *s, tt_columns *columns)
{
    tt_columns_add(columns, s->name);
    tt_columns_addf(columns, "%lld", (long long)s->year);
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        tt_columns_add(columns, tt_system_field(s, tt_system_fields[i]));
}

static tt_status print_list(tt_cli *cli, const tt_system *s, int n)
{
    tt_str text = {0};
    tt_json json = {.out = &text};
    tt_term term;
    tt_term_init(&term, STDOUT_FILENO);
    tt_columns columns = {.arena = cli->arena,
                          .n = 10,
                          .right = 2,
                          .width = term.is_live ? tt_term_width(&term) : 0,
                          .drop = {9, 8, 5, 3, 6, 4, 0}};
    if (tt_cli_has(cli, "--json")) {
        tt_json_open(&json, NULL, '[');
        for (int i = 0; i < n; i++)
            add_json(&s[i], &json);
        tt_json_close(&json, ']');
        tt_str_add(&text, "\n");
        return tt_cli_print(&text);
    }
    tt_columns_add(&columns, "system");
    tt_columns_add(&columns, "year");
    for (int i = 0; tt_system_fields[i] != NULL; i++)
        tt_columns_add(&columns, tt_system_fields[i]);
    for (int i = 0; i < n; i++)
        add_row(&s[i], &columns);
    TT_TRY(tt_columns_print(&columns, &term, &text));
    return tt_cli_print(&text);
}

tt_status tt_cli_systems_list(tt_cli *cli)
{
    const char *pattern = cli->n_words > 1 ? cli->word[1] : NULL;
    tt_system *s =
        tt_arena_alloc(cli->arena, tt_system_count * (int64_t)sizeof *s);
    int n = 0;
    if (s == NULL)
        return TT_ERR_NOMEM;
    for (int i = 0; i < tt_system_count; i++) {
        const char *name = tt_system_files[i].name;
        bool is_wanted = true;
        TT_TRY(tt_system_read(name, cli->arena, &s[n]));
        TT_TRY(tt_cli_systems_wanted(cli, &s[n], &is_wanted));
        const bool matches =
            pattern == NULL ||
            (has_pattern(pattern) ? tt_glob_match(pattern, name)
                                  : strcasestr(name, pattern) != NULL);
        n += is_wanted && matches;
    }
    return n == 0 ? tt_cli_systems_none() : print_list(cli, s, n);
}
