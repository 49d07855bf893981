// tar_shards - folder, pattern, range or file.

#include "data/source/tar_shards.h"

#include "base/file.h"

#include <ctype.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_SHARDS = 1000000, MAX_DIGITS = 9 };

// "PREFIX{FIRST..LAST}SUFFIX"; digits are kept, so {00..12} means 00, 01, ...
typedef struct range {
    const char *open; // of the brace
    const char *suffix;
    int digits;
    long first, last;
} range;

static const char *scan_digits(const char *p, long *value)
{
    const char *begin = p;
    for (*value = 0; isdigit((unsigned char)*p) && p - begin < MAX_DIGITS; p++)
        *value = *value * 10 + (*p - '0');
    return p > begin ? p : NULL;
}

static bool find_range(const char *path, range *r)
{
    r->open = strchr(path, '{');
    if (r->open == NULL)
        return false;
    const char *p = scan_digits(r->open + 1, &r->first);
    if (p == NULL || p[0] != '.' || p[1] != '.')
        return false;
    r->digits = (int)(p - r->open - 1);
    p = scan_digits(p + 2, &r->last);
    if (p == NULL || *p != '}')
        return false;
    r->suffix = p + 1;
    return true;
}

static tt_status add_range(const char *path, const range *r, tt_file_list *list)
{
    tt_str name = {0};
    tt_status status = TT_OK;
    if (r->last < r->first || r->last - r->first >= MAX_SHARDS)
        return tt_fail(TT_ERR_ARG,
                       "%s: the range must go up, by at most %d files", path,
                       MAX_SHARDS);
    for (long i = r->first; status == TT_OK && i <= r->last; i++) {
        tt_str_clear(&name);
        tt_str_add_bytes(&name, path, r->open - path);
        tt_str_addf(&name, "%0*ld%s", r->digits, i, r->suffix);
        status = tt_str_status(&name);
        if (status == TT_OK)
            status = tt_file_list_add(list, name.text);
    }
    tt_str_fini(&name);
    return status;
}

// A folder that may not be read is not one without files.
static int fail_glob(const char *folder, int error)
{
    (void)tt_fail(TT_ERR_IO, "%s: %s", folder, strerror(error));
    return 1; // which ends the search
}

static tt_status add_pattern(const char *path, const char *pattern,
                             tt_file_list *list)
{
    glob_t found = {0};
    tt_status status = TT_OK;
    const int result =
        glob(pattern, GLOB_BRACE | GLOB_NOSORT, fail_glob, &found);
    if (result == GLOB_NOMATCH)
        status = tt_fail(TT_ERR_ARG, "%s: there are no such files", pattern);
    else if (result == GLOB_ABORTED)
        status = tt_fail_context(TT_ERR_IO, "%s", path);
    else if (result != 0)
        status = tt_fail(TT_ERR_NOMEM, "%s: no memory to list the files", path);
    const int64_t first = list->n;
    for (size_t i = 0; status == TT_OK && i < found.gl_pathc; i++)
        status = tt_file_list_add(list, found.gl_pathv[i]);
    globfree(&found);
    tt_file_list_sort(list, first);
    return status;
}

tt_status tt_tar_shards(const char *path, tt_file_list *list)
{
    range r = {0};
    if (tt_file_is_folder(path)) {
        tt_str pattern = {0};
        tt_str_addf(&pattern, "%s/*.{tar,tar.gz,tgz}", path);
        tt_status status = tt_str_status(&pattern);
        if (status == TT_OK)
            status = add_pattern(path, pattern.text, list);
        tt_str_fini(&pattern);
        return status;
    }
    if (tt_file_exists(path))
        return tt_file_list_add(list, path);
    if (find_range(path, &r))
        return add_range(path, &r, list);
    return add_pattern(path, path, list);
}
