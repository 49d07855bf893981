// What every operator computes on its samples, as two numbers per output, against
// tests/golden/values.txt. Kernels are compared with the reference elsewhere, and
// the reference with PyTorch; this list says that the reference did not change.
//
// After an intended change, look at the difference and copy the new list.

#include "base/str.h"
#include "check/sample.h"
#include "interp/interp.h"
#include "ops/ops.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A sum in which every place counts differently, and the sum of sizes.
static void print_output(tt_interp *it, const tt_graph *g, tt_val v,
                         tt_str *out)
{
    const tt_type *type = &g->value[v.id].type;
    const int64_t n = tt_shape_count(&type->shape);
    double sum = 0, size = 0;
    for (int64_t i = 0; i < n; i++) {
        const double x =
            tt_dtype_load(type->dtype, tt_interp_data(it, 0, v), i);
        CHECK(!isnan(x));
        if (isfinite(x)) {
            sum += x * cos((double)(i + 1));
            size += fabs(x);
        }
    }
    tt_str_addf(out, " %.17g %.17g", sum, size);
}

static void print_outputs(tt_interp *it, const tt_case *c, tt_str *out)
{
    CHECK_OK(tt_interp_run(it));
    for (int i = 0; i < c->n_out; i++)
        print_output(it, c->b.graph, c->out[i], out);
    tt_str_add(out, "\n");
}

static void print_sample(const tt_op_def *op, const tt_sample *s, tt_str *out)
{
    tt_case c;
    tt_interp *it = NULL;
    tt_str first = {0}, again = {0};
    CHECK_OK(tt_case_init(&c, op, s, TT_F64, NULL, NULL));
    CHECK_OK(tt_interp_create(c.b.graph, &it));
    for (int i = 0; i < c.n_in; i++)
        if (c.data[i] != NULL)
            tt_interp_write(it, c.in[i], c.data[i]);
    print_outputs(it, &c, &first);
    for (int i = 0; i < c.n_in; i++)
        if (c.data[i] != NULL)
            tt_interp_echo(it, c.in[i]);
    print_outputs(it, &c, &again);
    CHECK_MSG(strcmp(tt_str_text(&first), tt_str_text(&again)) == 0,
              "%s %d reads past the end of its inputs", op->name,
              (int)(s - op->samples));
    tt_str_addf(out, "%s %d:%s", op->name, (int)(s - op->samples),
                tt_str_text(&first));
    tt_str_fini(&first);
    tt_str_fini(&again);
    tt_interp_destroy(it);
    tt_case_fini(&c);
}

// Words are the same; numbers are close: libraries round differently.
static bool is_same(const char *a, const char *b)
{
    while (*a != '\0' || *b != '\0') {
        const size_t n = strcspn(a, " \n"), m = strcspn(b, " \n");
        char *end = NULL;
        const double x = strtod(a, &end);
        const bool is_number = n > 0 && end == a + n;
        const double y = strtod(b, NULL);
        const bool equal = n == m && memcmp(a, b, n) == 0;
        if (!equal && !(is_number && fabs(x - y) <= 1e-9 * fmax(1, fabs(y))))
            return false;
        if (a[n] != b[m])
            return false;
        a += a[n] == '\0' ? n : n + 1;
        b += b[m] == '\0' ? m : m + 1;
    }
    return true;
}

static void compare(const char *text)
{
    char path[128], want[1024], got[1024];
    const char *build = getenv("TUTTI_BUILD");
    snprintf(path, sizeof path, "%s/values.txt", build ? build : "build");
    FILE *f = fopen(path, "w");
    CHECK_MSG(f != NULL, "cannot write %s", path);
    CHECK(fputs(text, f) >= 0 && fclose(f) == 0);
    f = fopen("tests/golden/values.txt", "r");
    CHECK_MSG(f != NULL, "no tests/golden/values.txt");
    while (fgets(want, sizeof want, f) != NULL) {
        const size_t n = strcspn(text, "\n") + (*text != '\0');
        snprintf(got, sizeof got, "%.*s", (int)n, text);
        CHECK_MSG(is_same(got, want),
                  "now %.*s, not %.*s; if that is right (a new operator, a new "
                  "sample): cp %s tests/golden/values.txt",
                  (int)strcspn(got, "\n"), got, (int)strcspn(want, "\n"), want,
                  path);
        text += n;
    }
    fclose(f);
    CHECK_MSG(
        *text == '\0',
        "tests/golden/values.txt ends before %.*s; if that is right: cp %s "
        "tests/golden/values.txt",
        (int)strcspn(text, "\n"), text, path);
}

TEST(golden_values)
{
    int n = 0;
    tt_str text = {0};
    const tt_op_def *const *ops = tt_op_all(&n);
    for (int i = 0; i < n; i++)
        for (const tt_sample *s = ops[i]->samples; s->in[0] != NULL; s++)
            if ((ops[i]->flags & TT_OP_COLLECTIVE) == 0)
                print_sample(ops[i], s, &text);
    CHECK_OK(tt_str_status(&text));
    compare(tt_str_text(&text));
    tt_str_fini(&text);
}
