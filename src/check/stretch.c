// stretch - multiplies dimensions in the text of a sample.

#include "check/stretch.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAMES = 24, FACTOR = 19 };

typedef struct names {
    int n;
    char name[MAX_NAMES][TT_NAME_BYTES];
} names;

// Collects the dimension names of a sample's text, each once. A shape is "name:size"
// separated by blanks or dots (factors of one dimension).
static void collect(const char *text, names *all)
{
    const char *p = text + strcspn(text, " ");
    while (*p != '\0') {
        while (*p == ' ' || *p == '.')
            p++;
        const char *colon = strchr(p, ':');
        if (colon == NULL)
            return;
        const size_t n = (size_t)(colon - p);
        bool known = n >= TT_NAME_BYTES || all->n == MAX_NAMES;
        for (int i = 0; i < all->n; i++)
            known |=
                strncmp(all->name[i], p, n) == 0 && all->name[i][n] == '\0';
        if (!known) {
            memcpy(all->name[all->n], p, n);
            all->name[all->n++][n] = '\0';
        }
        for (p = colon + 1; isdigit((unsigned char)*p);)
            p++;
    }
}

// The text with the size of dimension `name` multiplied.
static char *multiply(const char *text, const char *name, tt_arena *arena)
{
    const int64_t room = (int64_t)strlen(text) + 8;
    char *out = tt_arena_alloc(arena, room);
    const size_t n = strlen(name);
    if (out == NULL)
        return NULL;
    snprintf(out, (size_t)room, "%s", text);
    for (char *p = strchr(out, ' '); p != NULL; p = strpbrk(p + 1, " .")) {
        if (strncmp(p + 1, name, n) != 0 || p[1 + n] != ':')
            continue;
        char rest[128];
        char *end = NULL;
        const long size = strtol(p + n + 2, &end, 10);
        snprintf(rest, sizeof rest, "%s", end);
        snprintf(p + n + 2, (size_t)(room - (p + (ptrdiff_t)n + 2 - out)),
                 "%ld%s", size * FACTOR, rest);
        break; // a name stands once in a shape
    }
    return out;
}

bool tt_stretch(const tt_sample *sample, int k, tt_arena *arena, tt_sample *out)
{
    names all = {0};
    *out = *sample;
    if (k == 0)
        return true;
    for (int i = 0; i < 12 && sample->in[i] != NULL; i++)
        collect(sample->in[i], &all);
    if (k > all.n)
        return false;
    for (int i = 0; i < 12 && sample->in[i] != NULL; i++) {
        out->in[i] = multiply(sample->in[i], all.name[k - 1], arena);
        if (out->in[i] == NULL)
            return false;
    }
    return true;
}
