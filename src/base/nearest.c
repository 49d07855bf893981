// nearest - the "did you mean" of every message: edit distance with swaps of
// neighbours (Damerau-Levenshtein, restricted), accepted up to about a third of
// the longer word. Upper and lower case are the same.
//
// The distance of two words is computed row by row: row[j] is that of the first i
// letters of one and the first j of the other. A swap of neighbours looks two rows
// back, so three rows are kept. Words have at most 64 letters, so all of it is on the
// stack.

#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { WORD_MAX = 64 };

static int min2(int a, int b)
{
    return a < b ? a : b;
}

static bool is_same(char a, char b)
{
    return tolower((unsigned char)a) == tolower((unsigned char)b);
}

static int distance(const char *a, int na, const char *b, int nb)
{
    int rows[3][WORD_MAX + 1]; // rows i-2, i-1 and i, in turn
    for (int j = 0; j <= nb; j++)
        rows[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *const row = rows[i % 3];
        const int *const above = rows[(i + 2) % 3];
        const int *const above2 = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            const int replace = above[j - 1] + !is_same(a[i - 1], b[j - 1]);
            row[j] = min2(replace, min2(above[j], row[j - 1]) + 1);
            if (i > 1 && j > 1 && is_same(a[i - 1], b[j - 2]) &&
                is_same(a[i - 2], b[j - 1]))
                row[j] = min2(row[j], above2[j - 2] + 1);
        }
    }
    return rows[na % 3][nb];
}

void tt_near_try(tt_near *near, const char *candidate)
{
    const size_t na = strlen(near->word), nb = strlen(candidate);
    if (na == 0 || na > WORD_MAX || nb == 0 || nb > WORD_MAX)
        return;
    const int longer = (int)(na > nb ? na : nb);
    const int d = distance(near->word, (int)na, candidate, (int)nb);
    const int limit = longer / 3 < 2 ? 2 : longer / 3;
    if (d <= limit && d < longer &&
        (near->best == NULL || d < near->distance)) {
        near->best = candidate;
        near->distance = d;
    }
}

tt_status tt_near_unknown(const tt_near *near, const char *kind,
                          const char *otherwise)
{
    if (near->best != NULL)
        return tt_fail(TT_ERR_ARG, "unknown %s \"%s\"; did you mean %s?", kind,
                       near->word, near->best);
    return tt_fail(TT_ERR_ARG, "unknown %s \"%s\"%s%s", kind, near->word,
                   otherwise != NULL ? "; " : "",
                   otherwise != NULL ? otherwise : "");
}

const char *tt_nearest(const char *name, const char *const *candidates, int n)
{
    tt_near near = {.word = name};
    for (int i = 0; i < n; i++)
        tt_near_try(&near, candidates[i]);
    return near.best;
}
