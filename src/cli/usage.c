// usage - commands and their flags as text.

#include "cli/usage.h"

#include "base/settings/opt.h"
#include "tutti/tutti.h"

#include <string.h>

void tt_usage_print(FILE *to)
{
    int n = 0;
    const tt_command_def *const *all = tt_command_all(&n);
    fprintf(to,
            "tutti %s: trains neural networks; how they are distributed is "
            "data\n\nusage: tutti COMMAND [arguments]\n\n",
            TUTTI_VERSION);
    for (int i = 0; i < n; i++)
        fprintf(to, "  %-10s %s\n", all[i]->name, all[i]->doc);
    fprintf(to,
            "\n`tutti train my.txt` trains a small model on a text, `tutti "
            "sample runs/my` writes with it.\n`tutti help COMMAND` says more; "
            "`tutti list settings` has every "
            "setting.\nExit status: 0 done, 1 the answer is no, 2 wrong use or "
            "input, 3 a signal ended training:\nit was saved and can go on.\n");
}

void tt_usage_print_command(const tt_command_def *command)
{
    printf("usage: tutti %s %s\n\n%s\n", command->name, command->usage,
           command->doc);
    if (command->detail != NULL)
        printf("\n%s\n", command->detail);
    printf("\n");
    for (const tt_flag *f = command->flags; f && f->name; f++) {
        const char *value = f->value != NULL ? f->value : "";
        printf("  %s %-*s %s\n", f->name, 13 - (int)strlen(f->name), value,
               f->doc);
    }
    printf("  --help         this text\n");
}

tt_status tt_usage_unknown(const char *name)
{
    int n = 0;
    tt_near near = {.word = name + strspn(name, "-")}; // --hlep is help too
    const tt_command_def *const *all = tt_command_all(&n);
    for (int i = 0; i < n; i++)
        tt_near_try(&near, all[i]->name);
    const char *best = near.best;
    return tt_fail(TT_ERR_ARG, "unknown command \"%s\"; %s%s%s", name,
                   best != NULL ? "did you mean \"" : "`tutti help` lists them",
                   best != NULL ? best : "", best != NULL ? "\"?" : "");
}
