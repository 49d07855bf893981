// report_ranks - the section about ranks, from RUN/ranks.json: what each rank sent,
// how long that took, and which rank the others waited for (the straggler). Seconds
// are those of steps, without evaluations and checkpoints.

#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>

enum { RANKS_MAX = 256 }; // rows that are shown

static double number(const tt_json_value *row, const char *key)
{
    const double v = tt_json_number(tt_json_get(row, key), 0);
    return isfinite(v) && v > 0 ? v : 0;
}

static void add_seconds(tt_str *out, double s)
{
    if (s < 0.9995e-3)
        tt_str_addf(out, "%.0f \xc2\xb5s", s * 1e6); // micro
    else if (s < 0.9995)
        tt_str_addf(out, "%.3g ms", s * 1e3);
    else
        tt_str_addf(out, "%.1f s", s);
}

static void add_bytes(tt_str *out, double bytes)
{
    static const char *const unit[] = {"B", "kB", "MB", "GB", "TB", "PB"};
    int i = 0;
    for (; bytes >= 999.5 && i < 5; i++)
        bytes /= 1000;
    tt_str_addf(out, i == 0 ? "%.0f %s" : "%.3g %s", bytes, unit[i]);
}

// ---- one rank ------------------------------------------------------------

static void add_rank(const tt_json_value *row, tt_str *out)
{
    static const char *const keys[] = {"busy_seconds", "hidden_seconds",
                                       "exposed_seconds", "waited_seconds"};
    tt_str_addf(out, "<tr><th scope=\"row\">%.0f ", number(row, "rank"));
    tt__html_add(out, tt_json_text(tt_json_get(row, "host"), ""));
    tt_str_add(out, "</th><td>");
    add_bytes(out, number(row, "bytes"));
    tt_str_addf(out, "</td><td>%.0f</td>", number(row, "messages"));
    for (int i = 0; i < 4; i++) {
        tt_str_add(out, "<td>");
        add_seconds(out, number(row, keys[i]));
        tt_str_add(out, "</td>");
    }
    tt_str_addf(out, "<td>%.0f</td></tr>\n", number(row, "last"));
}

static void add_codes(const tt_json_value *ranks, tt_str *out)
{
    int n = 0;
    if (ranks->first == NULL || number(ranks->first, "raw_bytes") <= 0)
        return;
    tt_str_add(out, "<div class=\"rows\"><table>\n<tr><th>rank</th>"
                    "<th>before codes</th><th>codes</th>"
                    "<th>encoding and decoding</th></tr>\n");
    for (const tt_json_value *v = ranks->first; v != NULL && n < RANKS_MAX;
         v = v->next, n++) {
        tt_str_addf(out, "<tr><th scope=\"row\">%.0f</th><td>",
                    number(v, "rank"));
        add_bytes(out, number(v, "raw_bytes"));
        tt_str_add(out, "</td><td>");
        add_bytes(out, number(v, "coded_bytes"));
        tt_str_add(out, "</td><td>");
        add_seconds(out, number(v, "coding_seconds"));
        tt_str_add(out, "</td></tr>\n");
    }
    tt_str_add(out, "</table></div>\n");
}

static void add_rank_table(const tt_json_value *ranks, tt_str *out)
{
    int n = 0;
    tt_str_add(out, "<div class=\"rows\"><table>\n<tr><th>rank</th>"
                    "<th>sent</th><th>messages</th><th>network busy</th>"
                    "<th>hidden by computing</th><th>waiting for it</th>"
                    "<th>until all had come</th><th>came last</th></tr>\n");
    for (const tt_json_value *v = ranks->first; v != NULL && n < RANKS_MAX;
         v = v->next, n++)
        add_rank(v, out);
    tt_str_add(out, "</table></div>\n");
}

// ---- collectives ---------------------------------------------------------

static void add_collective(const tt_json_value *row, tt_str *out)
{
    tt_str_add(out, "<tr><th>");
    tt__html_add(out, tt_json_text(tt_json_get(row, "name"), ""));
    tt_str_addf(out, "</th><td>%.0f</td><td>", number(row, "count"));
    add_seconds(out, number(row, "spread_seconds"));
    tt_str_add(out, "</td><td>");
    add_seconds(out, number(row, "spread_max_seconds"));
    tt_str_addf(out, "</td><td>rank %.0f, %.0f times</td></tr>\n",
                number(row, "straggler"), number(row, "last"));
}

static void add_collectives(const tt_json_value *c, tt_str *out)
{
    const tt_json_value *names = tt_json_get(c, "by_name");
    if (names == NULL || names->first == NULL)
        return;
    tt_str_add(out, "<details><summary>Arrival at collectives</summary>\n"
                    "<div class=\"rows\"><table>\n<tr><th>collective</th>"
                    "<th>times</th><th>spread, mean</th><th>largest</th>"
                    "<th>straggler</th></tr>\n");
    for (const tt_json_value *v = names->first; v != NULL; v = v->next)
        add_collective(v, out);
    tt_str_add(out, "</table></div></details>\n");
}

void tt__report_ranks(const tt_json_value *all, tt_str *out)
{
    const tt_json_value *ranks = tt_json_get(all, "ranks");
    const tt_json_value *c = tt_json_get(all, "collectives");
    if (ranks == NULL || ranks->type != TT_JSON_ARRAY || ranks->first == NULL)
        return;
    tt_str_add(out, "<section><h2>Ranks</h2>\n");
    const char *sentence = tt_json_text(tt_json_get(c, "sentence"), "");
    if (sentence[0] != '\0') {
        const bool is_small = sentence[0] >= 'a' && sentence[0] <= 'z';
        tt_str_add(out, "<p>");
        if (is_small)
            tt_str_addf(out, "%c", sentence[0] - 'a' + 'A');
        tt__html_add(out, sentence + is_small);
        tt_str_add(out, ".</p>\n");
    }
    add_rank_table(ranks, out);
    add_codes(ranks, out);
    add_collectives(c, out);
    tt_str_add(out, "</section>\n");
}
