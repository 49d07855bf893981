#include "cli/term.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *value)
{
    return value != NULL && value[0] != '\0';
}

// The first of these variables that is set decides, as in the C library.
static bool locale_is_utf8(void)
{
    const char *const names[] = {"LC_ALL", "LC_CTYPE", "LANG"};
    for (int i = 0; i < 3; i++) {
        const char *value = getenv(names[i]);
        if (is_set(value))
            return strcasestr(value, "utf-8") != NULL ||
                   strcasestr(value, "utf8") != NULL;
    }
    return false;
}

void tt_term_init(tt_term *term, int fd)
{
    const char *kind = getenv("TERM");
    *term = (tt_term){.fd = fd, .own = -1};
    term->is_live =
        isatty(fd) == 1 && is_set(kind) && strcmp(kind, "dumb") != 0;
    term->has_color = term->is_live && !is_set(getenv("NO_COLOR"));
    term->has_utf8 = locale_is_utf8();
}

// O_NONBLOCK belongs to the open file, which is shared with the shell. Setting it
// there would change the shell's terminal too, so the terminal is opened once more.
static int find_own(tt_term *term)
{
    char path[64];
    if (term->own >= 0 || isatty(term->fd) != 1)
        return term->own >= 0 ? term->own : term->fd;
    snprintf(path, sizeof path, "/proc/self/fd/%d", term->fd);
    term->own = open(path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return term->own >= 0 ? term->own : term->fd;
}

void tt_term_fini(tt_term *term)
{
    if (term->own >= 0)
        (void)close(term->own);
    term->own = -1;
}

int tt_term_width(const tt_term *term)
{
    struct winsize size = {0};
    if (ioctl(term->fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0)
        return size.ws_col;
    return 80;
}

// A PIECE fits wherever poll reports room.
enum { PATIENCE_MS = 3000, PIECE = 512 };

static bool has_room(tt_term *term)
{
    struct pollfd room = {.fd = term->fd, .events = POLLOUT};
    const int n = poll(&room, 1, term->is_stuck ? 0 : PATIENCE_MS);
    // Interrupted by a signal: try to write, since a dead terminal answers with an
    // error.
    term->is_stuck = n == 0;
    return !term->is_stuck;
}

void tt_term_write(tt_term *term, const tt_str *text)
{
    int64_t done = 0;
    const int fd = find_own(term);
    while (done < text->n && !term->is_broken && has_room(term)) {
        const int64_t left = text->n - done;
        const ssize_t n =
            write(fd, text->text + done, (size_t)(left < PIECE ? left : PIECE));
        if (n > 0)
            done += n;
        else if (n < 0 && errno == EAGAIN)
            break; // less room than it seemed
        else if (n < 0 && errno != EINTR)
            term->is_broken = true;
    }
}

void tt_term_add(const tt_term *term, tt_style style, const char *text,
                 tt_str *out)
{
    static const char *const code[] = {
        [TT_STYLE_NONE] = "",         [TT_STYLE_DIM] = "\033[2m",
        [TT_STYLE_BOLD] = "\033[1m",  [TT_STYLE_BAR] = "\033[36m",
        [TT_STYLE_GOOD] = "\033[32m", [TT_STYLE_WARNING] = "\033[33m",
    };
    const bool has_style = term->has_color && style != TT_STYLE_NONE;
    tt_str_add(out, has_style ? code[style] : "");
    tt_str_add(out, text);
    tt_str_add(out, has_style ? "\033[0m" : "");
}

void tt_term_add_foreign(const char *text, bool keep_lines, tt_str *out)
{
    for (const char *c = text; *c != '\0'; c++) {
        const unsigned char byte = (unsigned char)*c;
        const bool is_c1 = byte == 0xc2 && (unsigned char)c[1] >= 0x80 &&
                           (unsigned char)c[1] < 0xa0;
        if (byte == '\n' && keep_lines)
            tt_str_add(out, "\n");
        else if (byte == '\n' || byte == '\t' || byte == '\r')
            tt_str_add(out, " ");
        else if (byte < 0x20 || byte == 0x7f || is_c1)
            tt_str_add(out, "?");
        else
            tt_str_add_bytes(out, c, 1);
        c += is_c1 ? 1 : 0;
    }
}

void tt_term_print_foreign(FILE *stream, const char *text)
{
    tt_str clean = {0};
    tt_term_add_foreign(text, true, &clean);
    fputs(tt_str_text(&clean), stream); // without memory: nothing
    tt_str_fini(&clean);
}

int64_t tt_term_columns(const char *text)
{
    int64_t n = 0;
    for (const char *c = text; *c != '\0'; c++)
        n += ((unsigned char)*c & 0xc0) != 0x80;
    return n;
}
