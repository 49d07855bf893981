// glob - see the header.

#include "base/glob.h"

#include <stddef.h>

// Whether c is in the set that begins after '['; *end_out is after its ']', or
// NULL when there is none: then the '[' stands for itself.
static bool in_set(const char *p, char c, const char **end_out)
{
    const bool is_not = *p == '!' || *p == '^';
    bool found = false;
    p += is_not;
    const char *first = p;
    for (; *p != '\0' && (*p != ']' || p == first); p++) {
        const bool is_range = p[1] == '-' && p[2] != '\0' && p[2] != ']';
        found |= is_range ? p[0] <= c && c <= p[2] : *p == c;
        p += is_range ? 2 : 0;
    }
    *end_out = *p == ']' ? p + 1 : NULL;
    return found != is_not;
}

// One element of the pattern that is not '*'; NULL: c is not it.
static const char *step(const char *pattern, char c)
{
    const char *end = NULL;
    if (*pattern == '\0' || c == '\0')
        return NULL;
    if (*pattern == '[') {
        const bool is_in = in_set(pattern + 1, c, &end);
        if (end != NULL)
            return is_in ? end : NULL;
    }
    return *pattern == '?' || *pattern == c ? pattern + 1 : NULL;
}

// Matching without recursion. When the text after a star does not match, the star takes
// one character more and matching is tried again from there. Only the last star needs
// that: what an earlier one took was enough to reach the later one. So the time is at
// most length of pattern times length of name.
bool tt_glob_match(const char *pattern, const char *name)
{
    const char *star = NULL, *from = NULL;
    for (;;) {
        while (*pattern == '*') {
            star = ++pattern;
            from = name;
        }
        if (*pattern == '\0' && *name == '\0')
            return true;
        const char *next = step(pattern, *name);
        if (next != NULL) {
            pattern = next;
            name++;
        } else if (star != NULL && *from != '\0') {
            pattern = star;
            name = ++from;
        } else {
            return false;
        }
    }
}
