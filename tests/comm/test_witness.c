// A rank that is killed is named by its witness; one that ends by itself, or that its
// launcher ends, is not.

#include "comm/witness.h"
#include "test.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int said; // where the witness's words go

static void say(void *user, const char *text)
{
    CHECK(user == &said);
    const ssize_t n = write(said, text, strlen(text));
    (void)n;
}

// What is heard when a rank, in a process group of its own, ends so. 0: it leaves.
static void hear(int number, bool of_group, char heard[512])
{
    int ends[2], started[2];
    const tt_world world = {.rank = 5, .size = 8};
    tt_witness *witness = NULL;
    char byte = 0;
    CHECK(pipe(ends) == 0 && pipe(started) == 0);
    const pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        tt_journal_event e = {.step = 12, .number = 183};
        (void)setpgid(0, 0);
        (void)close(ends[0]);
        said = ends[1];
        CHECK_OK(tt_witness_start(&world, say, &said, &witness));
        tt_journal_text(&e, "all_reduce", "h.3.mlp");
        tt_journal_add(tt_witness_journal(witness), &e);
        CHECK(write(started[1], "", 1) == 1);
        if (number > 0)
            pause();
        tt_witness_stop(witness);
        _exit(0);
    }
    (void)close(ends[1]);
    CHECK(read(started[0], &byte, 1) == 1);
    if (number > 0)
        CHECK(kill(of_group ? -pid : pid, number) == 0);
    CHECK(waitpid(pid, NULL, 0) == pid);
    memset(heard, 0, 512);
    for (size_t at = 0; at < 511;) { // to the witness's end
        const ssize_t n = read(ends[0], heard + at, 511 - at);
        if (n <= 0)
            break;
        at += (size_t)n;
    }
    (void)close(ends[0]);
}

TEST(a_rank_that_is_killed_is_named)
{
    static const int numbers[] = {SIGKILL, SIGSEGV, SIGABRT};
    char heard[512];
    for (int i = 0; i < 3; i++) {
        hear(numbers[i], false, heard);
        CHECK_MSG(strncmp(heard, "rank 5 (host ", 13) == 0, "%s", heard);
        CHECK_MSG(strstr(heard,
                         "stopped in all_reduce 183 of step 12 "
                         "(h.3.mlp): it was killed, or it crashed") != NULL,
                  "%s", heard);
    }
}

TEST(a_rank_that_leaves_is_not_named)
{
    char heard[512];
    hear(0, false, heard);
    CHECK_MSG(heard[0] == '\0', "%s", heard);
}

TEST(a_rank_that_its_launcher_ends_is_not_named)
{
    char heard[512];
    hear(SIGTERM, true, heard);
    CHECK_MSG(heard[0] == '\0', "%s", heard);
    hear(SIGKILL, true, heard);
    CHECK_MSG(heard[0] == '\0', "%s", heard);
}
