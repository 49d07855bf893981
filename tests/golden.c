// golden - see the header.

#include "golden.h"

#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void golden_compare(const char *name, const char *text)
{
    char old_path[128], new_path[128], line[512];
    const char *build = getenv("TUTTI_BUILD");
    snprintf(old_path, sizeof old_path, "tests/golden/%s.txt", name);
    snprintf(new_path, sizeof new_path, "%s/%s.txt", build ? build : "build",
             name);
    FILE *f = fopen(new_path, "w");
    CHECK_MSG(f != NULL, "cannot write %s", new_path);
    CHECK(fputs(text, f) >= 0 && fclose(f) == 0);
    f = fopen(old_path, "r");
    CHECK_MSG(f != NULL, "no %s", old_path);
    int number = 0;
    while (fgets(line, sizeof line, f) != NULL) {
        const size_t n = strlen(line);
        number++;
        CHECK_MSG(strncmp(text, line, n) == 0,
                  "%s:%d has %.*s, but now it is %.*s; if that is right: "
                  "cp %s %s",
                  old_path, number, (int)strcspn(line, "\n"), line,
                  (int)strcspn(text, "\n"), text, new_path, old_path);
        text += n;
    }
    fclose(f);
    CHECK_MSG(*text == '\0', "%s ends before %.*s; if that is right: cp %s %s",
              old_path, (int)strcspn(text, "\n"), text, new_path, old_path);
}
