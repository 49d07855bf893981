// compare_print - the comparison as a table, as JSON and as CSV.

#include "base/json.h"
#include "cli/columns.h"
#include "cli/compare/compare.h"
#include "cli/table.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

typedef void text_fn(tt_str *out, double value);

static void add_cell(tt_columns *columns, text_fn *print, double value)
{
    tt_str text = {0};
    if (isfinite(value))
        print(&text, value);
    else
        tt_str_add(&text, "-");
    tt_columns_add(columns, tt_str_text(&text));
    tt_str_fini(&text);
}

static void print_loss(tt_str *out, double value)
{
    tt_add_loss(out, value);
}

// "3.1 ms", and half the range of the rounds: "3.1 ms ±4%".
static void add_seconds(tt_columns *columns, const tt_interval *v)
{
    tt_str text = {0};
    if (isfinite(v->mid)) {
        tt_add_seconds(&text, v->mid);
        if (v->high > v->low && v->mid > 0)
            tt_str_addf(&text, " +-%.0f%%", 50 * (v->high - v->low) / v->mid);
    } else {
        tt_str_add(&text, "-");
    }
    tt_columns_add(columns, tt_str_text(&text));
    tt_str_fini(&text);
}

static void add_heading(tt_columns *columns, const tt_compared *c)
{
    tt_str text = {0};
    static const char *const names[] = {"system", "step", "exposed", "sent",
                                        "memory"};
    for (int i = 0; i < 5; i++)
        tt_columns_add(columns, names[i]);
    tt_columns_addf(columns, "%s/s", c->unit != NULL ? c->unit : "samples");
    tt_str_add(&text, "loss at ");
    tt_add_grouped(&text, llround(c->units));
    tt_columns_addf(columns, "%s %s", tt_str_text(&text),
                    c->unit != NULL ? c->unit : "samples");
    tt_str_clear(&text);
    tt_str_add(&text, "loss at ");
    tt_add_seconds(&text, c->seconds);
    tt_columns_add(columns, tt_str_text(&text));
    tt_columns_addf(columns, "time to %.4g", c->target);
    if (tt_compared_has_staleness(c))
        tt_columns_add(columns, "staleness");
    tt_str_fini(&text);
}

static void add_row(tt_columns *columns, const tt_compared *c,
                    const tt_compared_system *s)
{
    tt_columns_add(columns, s->name);
    add_seconds(columns, &s->step);
    if (isfinite(s->exposed.mid) && s->step.mid > 0)
        tt_columns_addf(columns, "%.0f%%", 100 * s->exposed.mid / s->step.mid);
    else
        tt_columns_add(columns, "-");
    add_cell(columns, tt__systems_bytes, s->bytes);
    add_cell(columns, tt__systems_bytes, s->memory);
    add_cell(columns, tt_add_count, s->units / s->step.mid);
    add_cell(columns, print_loss, s->at_samples.mid);
    add_cell(columns, print_loss, s->at_time.mid);
    add_seconds(columns, &s->to_loss);
    if (tt_compared_has_staleness(c))
        tt_columns_add_number(columns, s->staleness, 3);
}

// Who made all its steps before it came to the loss that was to end it.
static void add_unreached(const tt_compare *c, const tt_compared *compared,
                          tt_str *out)
{
    for (int i = 0; i < compared->n && !isnan(c->until_loss); i++) {
        const tt_compared_system *s = &compared->system[i];
        if (s->refusal == NULL && !isfinite(s->to_loss.mid))
            tt_str_addf(out,
                        "%s did not come to a loss of %g in %lld steps; "
                        "train.steps=N allows more\n",
                        s->name, c->until_loss,
                        (long long)s->loss->step[s->loss->n - 1]);
    }
}

tt_status tt_compare_table(const tt_compare *c, const tt_compared *compared,
                           tt_str *out)
{
    tt_term term;
    tt_term_init(&term, STDOUT_FILENO);
    tt_columns columns = {.arena = c->cli->arena,
                          .n = tt_compared_has_staleness(compared) ? 10 : 9,
                          .right = 0x3fe,
                          .width = term.is_live ? tt_term_width(&term) : 0,
                          .drop = {5, 8, 7, 2, 0}};
    bool has_any = false;
    add_heading(&columns, compared);
    for (int i = 0; i < compared->n; i++)
        if (compared->system[i].refusal == NULL) {
            add_row(&columns, compared, &compared->system[i]);
            has_any = true;
        }
    if (has_any)
        TT_TRY(tt_columns_print(&columns, &term, out));
    for (int i = 0; i < compared->n; i++)
        if (compared->system[i].refusal != NULL)
            tt_str_addf(out, "%s did not run: %s\n", compared->system[i].name,
                        compared->system[i].refusal);
        else if (compared->system[i].failure != NULL)
            tt_str_addf(out, "%s ran %d of %d rounds: %s\n",
                        compared->system[i].name, compared->system[i].n_rounds,
                        compared->rounds, compared->system[i].failure);
    add_unreached(c, compared, out);
    tt_str drawn = {0};
    tt_compared_drawn(compared, &drawn);
    if (drawn.n > 0)
        tt_str_addf(out, "%s\n", tt_str_text(&drawn));
    tt_str_fini(&drawn);
    return tt_str_status(out);
}

static void add_interval(tt_json *json, const char *key, const tt_interval *v)
{
    tt_json_open(json, key, '{');
    tt_json_f64(json, "median", v->mid);
    tt_json_f64(json, "low", v->low);
    tt_json_f64(json, "high", v->high);
    tt_json_close(json, '}');
}

static void add_curve(tt_json *json, const tt_compared_system *s)
{
    tt_json_open(json, "curve", '[');
    for (int64_t i = 0; s->loss != NULL && i < s->loss->n; i++) {
        tt_json_open(json, NULL, '[');
        tt_json_i64(json, NULL, s->loss->step[i]);
        tt_json_f64(json, NULL, (double)s->loss->seconds[i]);
        tt_json_f64(json, NULL, s->loss->value[i]);
        tt_json_close(json, ']');
    }
    tt_json_close(json, ']');
}

static void add_system(tt_json *json, const tt_compared *c,
                       const tt_compared_system *s)
{
    tt_json_open(json, NULL, '{');
    tt_json_str(json, "system", s->name);
    if (s->refusal != NULL)
        tt_json_str(json, "refusal", s->refusal);
    if (s->failure != NULL)
        tt_json_str(json, "failure", s->failure);
    for (int f = 0; s->field != NULL && c->field_name[f] != NULL; f++)
        tt_json_str(json, c->field_name[f], s->field[f]);
    if (s->settings != NULL)
        tt_json_str(json, "settings", s->settings);
    if (s->refusal == NULL) {
        tt_json_i64(json, "rounds", s->n_rounds);
        if (s->is_drawn)
            tt_json_str(json, "clock", "drawn");
        add_interval(json, "step_seconds", &s->step);
        add_interval(json, "exposed_seconds", &s->exposed);
        tt_json_f64(json, "bytes", s->bytes);
        tt_json_f64(json, "memory_bytes", s->memory);
        tt_json_f64(json, "rate", s->units / s->step.mid);
        add_interval(json, "loss_at_samples", &s->at_samples);
        add_interval(json, "loss_at_time", &s->at_time);
        add_interval(json, "seconds_to_loss", &s->to_loss);
        if (isfinite(s->staleness))
            tt_json_f64(json, "staleness", s->staleness);
        add_curve(json, s);
    }
    tt_json_close(json, '}');
}

void tt_compare_json(const tt_compare *c, const tt_compared *compared,
                     const char *page, tt_str *out)
{
    tt_json json = {.out = out};
    tt_json_open(&json, NULL, '{');
    tt_json_str(&json, "folder", c->folder);
    tt_json_str(&json, "page", page);
    tt_json_i64(&json, "ranks", c->ranks);
    tt_json_i64(&json, "rounds", c->rounds);
    tt_json_str(&json, "unit", compared->unit);
    tt_json_f64(&json, "samples", compared->units);
    tt_json_f64(&json, "seconds", compared->seconds);
    tt_json_f64(&json, "loss", compared->target);
    tt_json_open(&json, "systems", '[');
    for (int i = 0; i < compared->n; i++)
        add_system(&json, compared, &compared->system[i]);
    tt_json_close(&json, ']');
    tt_json_close(&json, '}');
    tt_str_add(out, "\n");
}

static void add_number(tt_str *out, double value)
{
    tt_str_add(out, ",");
    if (isfinite(value))
        tt_str_add_f64(out, value);
}

static void add_quoted(tt_str *out, const char *text)
{
    tt_str_add(out, "\"");
    for (; *text != '\0'; text++)
        tt_str_addf(out, *text == '"' ? "\"%c" : "%c", *text);
    tt_str_add(out, "\"");
}

void tt_compare_csv(const tt_compared *compared, tt_str *out)
{
    tt_str_add(out, "system,step_seconds,step_low,step_high,exposed_seconds,"
                    "bytes,memory_bytes,rate,loss_at_samples,loss_at_time,"
                    "seconds_to_loss,staleness,refusal\n");
    for (int i = 0; i < compared->n; i++) {
        const tt_compared_system *s = &compared->system[i];
        const double v[] = {s->step.mid,
                            s->step.low,
                            s->step.high,
                            s->exposed.mid,
                            s->bytes,
                            s->memory,
                            s->units / s->step.mid,
                            s->at_samples.mid,
                            s->at_time.mid,
                            s->to_loss.mid,
                            s->staleness};
        add_quoted(out, s->name);
        for (int k = 0; k < 11; k++)
            add_number(out, s->refusal == NULL ? v[k] : (double)NAN);
        tt_str_add(out, ",");
        add_quoted(out, s->refusal != NULL   ? s->refusal
                        : s->failure != NULL ? s->failure
                                             : "");
        tt_str_add(out, "\n");
    }
}
