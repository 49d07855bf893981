// train_ranks - trains a small classifier on several ranks of this machine, or under
// mpirun, with a feed of its own:
//
//   ./train_ranks 2                  two processes are started
//   mpirun -n 2 ./train_ranks        or two that MPI has started

#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

// A bright stripe in row `label`, under noise. Each sample depends on its number alone,
// so that any number of ranks sees the same batch.
static void make_sample(uint64_t number, int64_t rows, int64_t columns,
                        float *x, int32_t *y)
{
    uint64_t random = number * 2654435761u + 1;
    *y = (int32_t)(number % (uint64_t)rows);
    for (int64_t i = 0; i < rows * columns; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        x[i] = (float)(random >> 40) / (1 << 24) +
               (i / columns == *y ? 1.0f : 0.0f);
    }
}

// Fills this rank's samples of a batch: those from `first` on.
static tutti_status feed(void *user, const tutti_batch *batch)
{
    const int64_t n = batch->x_type.dim[0];
    const int64_t rows = batch->x_type.dim[2], columns = batch->x_type.dim[3];
    float *x = batch->x;
    int32_t *y = batch->y;
    (void)user;
    for (int64_t i = 0; i < n; i++)
        make_sample((uint64_t)(batch->step * 64 + batch->first + i), rows,
                    columns, x + i * rows * columns, y + i);
    return TUTTI_OK;
}

// What every rank does. A call that fails fails on all of them.
static tutti_status work(void *user, tutti_session *session)
{
    tutti_result result = {0};
    tutti_status status = tutti_build(session);
    for (int i = 0; i < 60 && status == TUTTI_OK; i++) {
        status = tutti_step(session, feed, user, &result);
        if (status == TUTTI_OK && tutti_rank(session) == 0 && i % 20 == 19)
            printf("step %d on %d ranks: loss %.4f, %.0f of %.0f right\n",
                   i + 1, tutti_rank_count(session), result.loss,
                   result.correct, result.count);
    }
    if (status == TUTTI_OK)
        status = tutti_save(session, "ranks.safetensors");
    fflush(stdout);
    return status;
}

int main(int argc, char **argv)
{
    const char *const settings[][2] = {
        {"model", "mlp"}, {"model.layers", "1"}, {"model.width", "32"},
        {"image", "8"},   {"batch", "64"},       {"optim.lr", "1e-2"}};
    tutti_session *session = NULL;
    tutti_status status = tutti_create(&session);
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (status == TUTTI_OK)
            status = tutti_set(session, settings[i][0], settings[i][1]);
    if (status == TUTTI_OK)
        status =
            tutti_ranks_run(session, argc > 1 ? atoi(argv[1]) : 0, work, NULL);
    if (status != TUTTI_OK)
        fprintf(stderr, "%s\n", tutti_error());
    tutti_destroy(session);
    return status == TUTTI_OK ? 0 : 1;
}
