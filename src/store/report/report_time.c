// report_time - where the time went, as one bar. The parts of a rank's time add up
// to its total, so nothing is hidden. With several ranks ranks.json has the account
// of each, else facts.json has the only one.

#include "store/report/report_parts.h"

#include <math.h>
#include <stddef.h>

enum { RANKS_MAX = 256 }; // rows that are shown

typedef struct piece { // of the bar
    const char *name, *key, *color;
} piece;

static const piece pieces[] = {
    {"computing", "computing", "t-compute"},
    {"waiting for the network", "network", "t-net"},
    {"waiting for data", "data", "t-data"},
    {"evaluation and samples", "evaluation", "val"},
    {"waiting for checkpoints", "checkpoints", "t-save"},
    {"writing the last checkpoint", "last", "t-last"},
    {"starting and the rest", "other", "t-other"},
};
enum { N_PIECES = sizeof pieces / sizeof pieces[0] };

typedef struct account {
    double part[N_PIECES], total;
} account;

static double number(const tt_json_value *row, const char *key)
{
    const double v = tt_json_number(tt_json_get(row, key), 0);
    return isfinite(v) && v > 0 && v < 1e12 ? v : 0;
}

void tt_report_time_read(const tt_json_value *value, tt_report_time *time_out)
{
    *time_out = (tt_report_time){
        .total = number(value, "total"),
        .computing = number(value, "computing"),
        .network = number(value, "network"),
        .data = number(value, "data"),
        .evaluation = number(value, "evaluation"),
        .checkpoints = number(value, "checkpoints"),
        .last = number(value, "last"),
        .other = number(value, "other"),
    };
}

static account account_of(const tt_json_value *owner)
{
    const tt_json_value *time = tt_json_get(owner, "time");
    account a = {.total = 0};
    for (int i = 0; i < N_PIECES; i++) {
        a.part[i] = number(time, pieces[i].key);
        a.total += a.part[i];
    }
    return a;
}

static void add_words(const account *a, tt_str *out)
{
    for (int i = 0; i < N_PIECES; i++)
        if (a->part[i] > 0)
            tt_str_addf(out, "%s %.1f%%; ", pieces[i].name,
                        100 * a->part[i] / a->total);
}

// Draws a bar; its length is the share of the longest rank's time.
static void add_bar(const account *a, double longest, tt_str *out)
{
    tt_str_add(out, "<div class=\"split\" role=\"img\" aria-label=\"");
    add_words(a, out);
    tt_str_addf(out, "\" style=\"width:%.1f%%\">", 100 * a->total / longest);
    for (int i = 0; i < N_PIECES; i++)
        if (a->part[i] > 0)
            tt_str_addf(out, "<i class=\"%s\" style=\"flex-grow:%.5f\"></i>",
                        pieces[i].color, a->part[i] / a->total);
    tt_str_add(out, "</div>");
}

static void add_keys(const account *a, tt_str *out)
{
    tt_str_add(out, "<p class=\"keys\">");
    for (int i = 0; i < N_PIECES; i++)
        if (a->part[i] > 0)
            tt_str_addf(out, "<span class=\"key box %s\">%s %.1f%%</span> ",
                        pieces[i].color, pieces[i].name,
                        100 * a->part[i] / a->total);
    tt_str_add(out, "</p>\n");
}

static void add_rank(const tt_json_value *row, double longest, tt_str *out)
{
    const account a = account_of(row);
    if (a.total <= 0)
        return;
    tt_str_addf(out, "<tr><th scope=\"row\">rank %.0f ", number(row, "rank"));
    tt__html_add(out, tt_json_text(tt_json_get(row, "host"), ""));
    tt_str_add(out, "</th><td class=\"bar\">");
    add_bar(&a, longest, out);
    tt_str_add(out, "</td></tr>\n");
}

// Computes the mean over all ranks; returns the total of the longest.
static double mean_of(const tt_json_value *ranks, account *mean)
{
    double longest = 0;
    int64_t n = 0;
    for (const tt_json_value *v = ranks->first; v != NULL; v = v->next) {
        const account a = account_of(v);
        for (int i = 0; i < N_PIECES; i++)
            mean->part[i] += a.part[i];
        mean->total += a.total;
        longest = fmax(longest, a.total);
        n += a.total > 0;
    }
    for (int i = 0; i < N_PIECES && n > 0; i++)
        mean->part[i] /= (double)n;
    mean->total /= n > 0 ? (double)n : 1;
    return longest;
}

static void add_ranks(const tt_json_value *ranks, tt_str *out)
{
    account mean = {.total = 0};
    const double longest = mean_of(ranks, &mean);
    int n = 0;
    if (longest <= 0)
        return;
    tt_str_add(out, "<section><h2>Where the time went <small>last start that "
                    "made steps, mean over ranks</small></h2>\n");
    add_bar(&mean, longest, out);
    add_keys(&mean, out);
    tt_str_add(out, "<div class=\"rows\"><table class=\"bars\">\n");
    for (const tt_json_value *v = ranks->first; v != NULL && n < RANKS_MAX;
         v = v->next, n++)
        add_rank(v, longest, out);
    tt_str_add(out, "</table></div></section>\n");
}

void tt__report_time_add(const tt_report_data *d, tt_str *out)
{
    const tt_json_value *ranks = tt_json_get(d->ranks, "ranks");
    const account alone = account_of(d->facts);
    if (ranks != NULL && ranks->type == TT_JSON_ARRAY && ranks->first != NULL) {
        add_ranks(ranks, out);
        return;
    }
    if (alone.total <= 0)
        return;
    tt_str_add(out, "<section><h2>Where the time went <small>all starts");
    if (tt_json_get(tt_json_get(d->facts, "facts"), "ranks") != NULL)
        tt_str_add(out, ", rank 0");
    tt_str_add(out, "</small></h2>\n");
    add_bar(&alone, alone.total, out);
    add_keys(&alone, out);
    tt_str_add(out, "</section>\n");
}
