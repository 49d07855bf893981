// split_gpt2 - GPT-2's expression, written out for ASCII.
//
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//
// It is by far the most used one, and most text is ASCII. A table gives each byte a
// kind: letter, digit, blank, other, or beyond ASCII. A piece is an optional blank and
// a run of one kind. Where a byte beyond ASCII could belong to the piece, the answer
// is 0, and the real expression decides.

#include "data/tokenizer/split.h"

enum { BEYOND = 0, OTHER = 'o', LETTER = 'l', DIGIT = 'd', BLANK = 'b' };

static const char kind[256] = "ooooooooobbbbboooooooooooooooooo"
                              "boooooooooooooooddddddddddoooooo"
                              "ollllllllllllllllllllllllllooooo"
                              "ollllllllllllllllllllllllllooooo";

// 's 't 're 've 'm 'll 'd at the apostrophe: 0 when it is none of them.
static int64_t contraction(const unsigned char *p, int64_t n)
{
    const int a = n > 1 ? p[1] : 0, b = n > 2 ? p[2] : 0;
    if (a == 's' || a == 't' || a == 'm' || a == 'd')
        return 2;
    if ((b == 'e' && (a == 'r' || a == 'v')) || (a == 'l' && b == 'l'))
        return 3;
    return 0;
}

// A run of blanks leaves its last one to what follows, unless it ends the text.
static int64_t blanks(const unsigned char *p, int64_t n)
{
    int64_t i = 1;
    while (i < n && kind[p[i]] == BLANK)
        i++;
    if (i == n)
        return i;
    if (kind[p[i]] == BEYOND)
        return 0;
    return i > 1 ? i - 1 : 1;
}

int64_t tt_split_gpt2(const char *text, int64_t n)
{
    const unsigned char *p = (const unsigned char *)text;
    if (n < 1)
        return 0;
    if (p[0] == '\'') {
        const int64_t k = contraction(p, n);
        if (k > 0)
            return k;
    }
    int64_t i = p[0] == ' ';
    if (i == n || kind[p[i]] == BLANK)
        return blanks(p, n);
    const char of = kind[p[i]];
    if (of == BEYOND)
        return 0;
    do
        i++;
    while (i < n && kind[p[i]] == of);
    return i < n && kind[p[i]] == BEYOND ? 0 : i;
}
