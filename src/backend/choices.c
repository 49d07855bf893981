// choices - a small file of "key TAB value" lines that several processes share.
//
// The file is read once, when it is opened, and searched in memory from then on.
// Each new choice rewrites it: what is on disk by then is read again and merged, and
// the whole replaces the old file in one rename. There is no lock. Two processes that
// write at the same moment may lose one of the two choices, which costs one
// measurement in some later run. A file that is torn or foreign fails its checksum
// and counts as empty.
//
//   tutti choices 1
//   KEY <TAB> VALUE
//   ...
//   end 0123456789abcdef      a hash of everything above

#include "backend/choices.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/rng.h"

#include <stdio.h>
#include <string.h>

enum { MOST_BYTES = 4 << 20 };
static const char first_line[] = "tutti choices 1\n";

struct tt_choices {
    char folder[PATH_MAX], path[PATH_MAX]; // "": no file
    tt_str lines;                          // "key TAB value" each
    tt_str value;                          // that was asked for last
};

// ---- lines -------------------------------------------------------------------

// The line of a key of n characters, or NULL. Its value stands after the tab.
static const char *find_line(const tt_str *lines, const char *key, size_t n)
{
    const char *line = tt_str_text(lines);
    for (; *line != '\0'; line = strchr(line, '\n') + 1)
        if (strncmp(line, key, n) == 0 && line[n] == '\t')
            return line;
    return NULL;
}

// Adds the lines of `from` whose keys `to` does not have.
static void add_lines(tt_str *to, const tt_str *from)
{
    const char *line = tt_str_text(from), *end = NULL;
    for (; *line != '\0'; line = end + 1) {
        end = strchr(line, '\n');
        const size_t key_n = (size_t)(strchr(line, '\t') - line);
        if (find_line(to, line, key_n) == NULL)
            tt_str_add_bytes(to, line, end + 1 - line);
    }
}

// ---- the file ----------------------------------------------------------------

static void print_end(const tt_str *text, char end[32])
{
    snprintf(end, 32, "end %016llx\n",
             (unsigned long long)tt_hash(tt_str_text(text), text->n));
}

// Whether every line has one tab, which is neither its beginning nor its end.
static bool are_lines(const char *text)
{
    for (const char *end; *text != '\0'; text = end + 1) {
        end = strchr(text, '\n');
        const char *tab = strchr(text, '\t');
        if (end == NULL || tab == NULL || tab == text || tab + 1 >= end ||
            memchr(tab + 1, '\t', (size_t)(end - tab - 1)) != NULL)
            return false;
    }
    return true;
}

// The lines between the first line and the checksum; nothing if the checksum is wrong.
static void parse(tt_str *text, tt_str *lines_out)
{
    const int64_t head = (int64_t)sizeof first_line - 1;
    char end[32];
    if (text->n < head || strlen(text->text) != (size_t)text->n ||
        strncmp(text->text, first_line, (size_t)head) != 0)
        return;
    char *last = strstr(text->text + head - 1, "\nend ");
    if (last == NULL)
        return;
    tt_str body = {.text = text->text, .n = last + 1 - text->text};
    print_end(&body, end);
    if (strcmp(last + 1, end) != 0)
        return;
    last[1] = '\0';
    if (are_lines(text->text + head))
        tt_str_add(lines_out, text->text + head);
}

static void read_file(const tt_choices *c, tt_str *lines_out)
{
    tt_str text = {0};
    if (tt_file_exists(c->path) &&
        tt_file_read(c->path, MOST_BYTES, &text) == TT_OK && text.n > 0)
        parse(&text, lines_out);
    tt_str_fini(&text);
}

// Other processes may have written since the file was read, so their lines are merged.
static void write_file(const tt_choices *c)
{
    tt_str all = {0}, text = {0};
    char end[32];
    read_file(c, &all);
    tt_str_add(&text, first_line);
    tt_str_add(&text, tt_str_text(&c->lines));
    add_lines(&text, &all);
    print_end(&text, end);
    tt_str_add(&text, end);
    if (tt_str_status(&all) == TT_OK && tt_str_status(&text) == TT_OK &&
        text.n < MOST_BYTES && tt_file_make_folder(c->folder) == TT_OK)
        (void)tt_file_replace(c->path, text.text, text.n);
    tt_str_fini(&all);
    tt_str_fini(&text);
}

// ---- choices -----------------------------------------------------------------

tt_status tt_choices_open(const char *folder, const char *name,
                          tt_choices **choices_out)
{
    tt_choices *c = tt_alloc(sizeof *c);
    if (c == NULL)
        return tt_fail(TT_ERR_NOMEM, "no memory for choices");
    if (folder != NULL) {
        const int n = snprintf(c->path, sizeof c->path, "%s/choices-%s.txt",
                               folder, name);
        snprintf(c->folder, sizeof c->folder, "%s", folder);
        if (n >= (int)sizeof c->path) // no file can lie there
            c->path[0] = '\0';
    }
    if (c->path[0] != '\0')
        read_file(c, &c->lines);
    *choices_out = c;
    return TT_OK;
}

void tt_choices_close(tt_choices *choices)
{
    if (choices == NULL)
        return;
    tt_str_fini(&choices->lines);
    tt_str_fini(&choices->value);
    tt_free(choices);
}

const char *tt_choices_find(tt_choices *choices, const char *key)
{
    const char *line = find_line(&choices->lines, key, strlen(key));
    if (line == NULL)
        return NULL;
    const char *value = strchr(line, '\t') + 1;
    tt_str_clear(&choices->value);
    tt_str_add_bytes(&choices->value, value, strchr(value, '\n') - value);
    return tt_str_status(&choices->value) == TT_OK
               ? tt_str_text(&choices->value)
               : NULL;
}

void tt_choices_keep(tt_choices *choices, const char *key, const char *value)
{
    tt_str lines = {0};
    tt_str_addf(&lines, "%s\t%s\n", key, value);
    add_lines(&lines, &choices->lines);
    tt_str_fini(&choices->lines);
    choices->lines = lines;
    if (choices->path[0] != '\0' && tt_str_status(&lines) == TT_OK)
        write_file(choices);
}
