// left_out - counts by the ends of names.

#include "data/source/left_out.h"

#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

void tt_left_out_add(tt_left_out *left, const char *name)
{
    char end[TT_LEFT_OUT_CHARS] = "";
    const char *slash = strrchr(name, '/');
    const char *dot = strrchr(slash != NULL ? slash : name, '.');
    if (dot != NULL)
        snprintf(end, sizeof end, "%s", dot + 1);
    for (char *p = end; *p != '\0'; p++)
        *p =
            isalnum((unsigned char)*p) ? (char)tolower((unsigned char)*p) : '?';
    left->n++;
    for (int i = 0; i < left->n_kinds; i++)
        if (strcmp(left->kind[i].end, end) == 0) {
            left->kind[i].n++;
            return;
        }
    if (left->n_kinds == TT_LEFT_OUT_KINDS) {
        left->others++;
        return;
    }
    memcpy(left->kind[left->n_kinds].end, end, sizeof end);
    left->kind[left->n_kinds++].n = 1;
}

const char *tt_left_out_text(const tt_left_out *left, tt_arena *arena)
{
    tt_str text = {0};
    if (left->n == 0)
        return NULL;
    tt_str_addf(&text, "%lld file%s left out:", (long long)left->n,
                left->n == 1 ? " is" : "s are");
    for (int i = 0; i < left->n_kinds; i++)
        tt_str_addf(&text, "%s %lld %s%s", i > 0 ? "," : "",
                    (long long)left->kind[i].n,
                    left->kind[i].end[0] != '\0' ? "." : "without an ending",
                    left->kind[i].end);
    if (left->others > 0)
        tt_str_addf(&text, ", %lld others", (long long)left->others);
    const char *copy = tt_str_status(&text) == TT_OK
                           ? tt_arena_strdup(arena, text.text)
                           : NULL;
    tt_str_fini(&text);
    return copy;
}
