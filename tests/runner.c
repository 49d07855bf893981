// runner.c - runs the tests, each in a process of its own.
//
//   test-runner [--all] [--list] [--times] [--first] [-j N] [--scripts DIR]
//               [WORD...]
//
// Without words every test runs, else those whose "file:name" has one of the
// words in it. Prints failures with their output, skips with their reasons, and
// a last line "N passed, N failed"; --first starts no test after a failure. The runner itself never touches OpenMP, so
// its children may.

#include "runner.h"

#include "backend/cpu/isa.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_JOBS = 64, MAX_OUTPUT = 16384, MAX_REASON = 256 };

typedef struct job {
    const tt_test *test;
    pid_t pid;
    FILE *output;
    double start;
    bool timed_out;
} job;

typedef struct options {
    bool all, list, times, first;
    int n_jobs;
    char **words;
    int n_words;
} options;

static tt_test *tests;
static int n_passed, n_failed, n_skipped;

void tt_test_register(tt_test *test)
{
    test->next = tests;
    tests = test;
}

void tt_test_fail(const char *file, int line, const char *format, ...)
{
    fflush(stdout);
    fprintf(stderr, "%s:%d: ", file, line);
    va_list args;
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fprintf(stderr, "\n");
    _exit(1); // no leak report on top of the reason
}

void tt_test_skip(const char *reason)
{
    printf("%s\n", reason);
    fflush(stdout);
    _exit(TT_TEST_SKIPPED);
}

static int deadline(const tt_test *test)
{
    return TT_TEST_SANITIZED ? 5 * test->seconds : test->seconds;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void full_name(const tt_test *test, char *buf, size_t bytes)
{
    if (test->run == NULL)
        snprintf(buf, bytes, "%s", test->file);
    else
        snprintf(buf, bytes, "%s:%s", test->file, test->name);
}

static bool is_wanted(const tt_test *test, const options *opt)
{
    if (test->all_only && !opt->all)
        return false;
    char name[512];
    full_name(test, name, sizeof(name));
    for (int i = 0; i < opt->n_words; i++)
        if (strstr(name, opt->words[i]) != NULL)
            return true;
    return opt->n_words == 0;
}

// Runs in the child. exit() and not _exit(), so that leaks are reported.
static _Noreturn void run_child(const tt_test *test, int output)
{
    setpgid(0, 0);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    if (test->run == NULL) {
        execlp("bash", "bash", test->file, (char *)NULL);
        fprintf(stderr, "cannot run bash: %s\n", strerror(errno));
        _exit(1);
    }
    test->run();
    exit(0);
}

static bool start(job *j, const tt_test *test)
{
    fflush(stdout);
    fflush(stderr);
    *j = (job){.test = test, .output = tmpfile(), .start = now()};
    if (j->output == NULL)
        return false;
    j->pid = fork();
    if (j->pid == 0)
        run_child(test, fileno(j->output));
    if (j->pid < 0) {
        fclose(j->output);
        return false;
    }
    setpgid(j->pid, j->pid); // in both, whoever is first
    return true;
}

// Copies the output's last MAX_OUTPUT bytes to stdout, each line indented.
static void show_output(FILE *f)
{
    fseek(f, 0, SEEK_END);
    const long end = ftell(f);
    fseek(f, end > MAX_OUTPUT ? end - MAX_OUTPUT : 0, SEEK_SET);
    bool is_line_start = true;
    for (int c = getc(f); c != EOF; c = getc(f)) {
        if (is_line_start)
            fputs("    ", stdout);
        putchar(c);
        is_line_start = c == '\n';
    }
    if (!is_line_start)
        putchar('\n');
}

static void last_line(FILE *f, char *buf, int bytes)
{
    char line[MAX_REASON] = "";
    buf[0] = '\0';
    rewind(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (line[0] != '\0')
            snprintf(buf, (size_t)bytes, "%s", line);
    }
}

// What a test that passed has counted: its last line, if it begins so.
static void show_note(FILE *f)
{
    char line[MAX_REASON];
    last_line(f, line, sizeof line);
    if (strncmp(line, "note: ", 6) == 0)
        printf("%s\n", line);
}

static void describe(const job *j, int status, char *buf, size_t bytes)
{
    if (j->timed_out)
        snprintf(buf, bytes, "took more than %d seconds", deadline(j->test));
    else if (WIFSIGNALED(status))
        snprintf(buf, bytes, "killed by signal %d (%s)", WTERMSIG(status),
                 strsignal(WTERMSIG(status)));
    else
        snprintf(buf, bytes, "exit status %d", WEXITSTATUS(status));
}

static void finish(job *j, int status, const options *opt)
{
    char name[512];
    full_name(j->test, name, sizeof(name));
    const bool exited = WIFEXITED(status) && !j->timed_out;
    if (exited && WEXITSTATUS(status) == 0) {
        n_passed++;
        show_note(j->output);
    } else if (exited && WEXITSTATUS(status) == TT_TEST_SKIPPED) {
        char reason[MAX_REASON];
        last_line(j->output, reason, sizeof(reason));
        printf("skip %s: %s\n", name, reason);
        n_skipped++;
    } else {
        char why[128];
        describe(j, status, why, sizeof(why));
        printf("FAIL %s: %s\n", name, why);
        show_output(j->output);
        n_failed++;
    }
    if (opt->times)
        printf("%8.3f s  %s\n", now() - j->start, name);
    fclose(j->output);
    kill(-j->pid, SIGKILL); // whatever the test left behind
    j->test = NULL;
}

// Collects ended children, ends those past their deadline.
static void reap(job *jobs, const options *opt)
{
    for (int i = 0; i < opt->n_jobs; i++) {
        job *j = &jobs[i];
        int status = 0;
        if (j->test == NULL)
            continue;
        if (waitpid(j->pid, &status, WNOHANG) == j->pid) {
            finish(j, status, opt);
        } else if (now() - j->start > deadline(j->test)) {
            j->timed_out = true;
            kill(-j->pid, SIGKILL);
        }
    }
}

static job *free_slot(job *jobs, int n_jobs)
{
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].test == NULL)
            return &jobs[i];
    return NULL;
}

static bool is_idle(const job *jobs, int n_jobs)
{
    for (int i = 0; i < n_jobs; i++)
        if (jobs[i].test != NULL)
            return false;
    return true;
}

// Wakes when a child ends, or soon, to look at the deadlines.
static void wait_a_little(void)
{
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    const struct timespec limit = {.tv_nsec = 50 * 1000 * 1000};
    sigtimedwait(&child, NULL, &limit);
}

static void run_all(tt_test **queue, int n, const options *opt)
{
    job jobs[MAX_JOBS] = {0};
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    sigprocmask(SIG_BLOCK, &child, NULL);
    for (int next = 0; next < n || !is_idle(jobs, opt->n_jobs);) {
        job *slot = free_slot(jobs, opt->n_jobs);
        if (opt->first && n_failed > 0)
            next = n;
        if (next < n && slot != NULL) {
            if (!start(slot, queue[next])) {
                printf("FAIL %s: cannot start\n", queue[next]->name);
                slot->test = NULL;
                n_failed++;
            }
            next++;
            continue;
        }
        wait_a_little();
        reap(jobs, opt);
    }
}

// Long ones first, so that the last one running is short.
static int by_length(const void *a, const void *b)
{
    const tt_test *x = *(tt_test *const *)a;
    const tt_test *y = *(tt_test *const *)b;
    if (x->seconds != y->seconds)
        return x->seconds > y->seconds ? -1 : 1;
    const int by_file = strcmp(x->file, y->file);
    return by_file != 0 ? by_file : strcmp(x->name, y->name);
}

// Fills `queue` with the tests to run; -1 if two have the same name.
static int choose(tt_test **queue, const options *opt)
{
    int n = 0;
    for (tt_test *t = tests; t != NULL; t = t->next)
        if (is_wanted(t, opt))
            queue[n++] = t;
    qsort(queue, (size_t)n, sizeof(tt_test *), by_length);
    for (int i = 1; i < n; i++)
        if (by_length(&queue[i - 1], &queue[i]) == 0) {
            fprintf(stderr, "%s: two tests are called %s\n", queue[i]->file,
                    queue[i]->name);
            return -1;
        }
    return n;
}

static bool parse(int argc, char **argv, options *opt)
{
    int i = 1;
    opt->words = argv;
    for (; i < argc; i++) {
        if (strcmp(argv[i], "--all") == 0)
            opt->all = true;
        else if (strcmp(argv[i], "--list") == 0)
            opt->list = true;
        else if (strcmp(argv[i], "--times") == 0)
            opt->times = true;
        else if (strcmp(argv[i], "--first") == 0)
            opt->first = true;
        else if (strcmp(argv[i], "--scripts") == 0 && i + 1 < argc)
            tt_test_add_scripts(argv[++i]);
        else if (strcmp(argv[i], "-j") == 0 && i + 1 < argc)
            opt->n_jobs = atoi(argv[++i]);
        else if (argv[i][0] != '-')
            opt->words[opt->n_words++] = argv[i];
        else
            return false;
    }
    return opt->n_jobs >= 1 && opt->n_jobs <= MAX_JOBS;
}

// TUTTI_ISA makes this machine a smaller one, for tests in C as for scripts.
static bool limit_isa(void)
{
    const char *given = getenv("TUTTI_ISA");
    const int level =
        given == NULL || given[0] == '\0' ? 0 : tt_isa_find(given);
    if (level >= 0 && tt_isa_limit((tt_isa)level) == TT_OK)
        return true;
    fprintf(stderr, "TUTTI_ISA=%s: it is one of " TT_ISA_CHOICES "\n", given);
    return false;
}

int main(int argc, char **argv)
{
    options opt = {.n_jobs = 2};
    if (!parse(argc, argv, &opt)) {
        fprintf(stderr, "usage: test-runner [--all] [--list] [--times] "
                        "[--first] [-j N] [--scripts DIR] [WORD...]\n");
        return 2;
    }
    if (!limit_isa())
        return 2;
    int n = 0;
    for (const tt_test *t = tests; t != NULL; t = t->next)
        n++;
    tt_test **queue = calloc((size_t)n + 1, sizeof(tt_test *));
    if (queue == NULL)
        return 1;
    n = choose(queue, &opt);
    if (n >= 0 && opt.list) {
        for (int i = 0; i < n; i++)
            printf("%s:%s\n", queue[i]->file, queue[i]->name);
    } else if (n >= 0) {
        run_all(queue, n, &opt);
        if (n == 0 && opt.n_words > 0) {
            printf("no test has such a name\n");
            n_failed++;
        }
        printf("%d passed, %d failed", n_passed, n_failed);
        if (n_skipped > 0)
            printf(", %d skipped", n_skipped);
        printf("\n");
    }
    free(queue);
    return n < 0 || n_failed > 0;
}
