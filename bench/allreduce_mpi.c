// allreduce_mpi - Open MPI's side of bench/allreduce_peers: MPI_Allreduce of floats in
// place, from memory that each rank has just written. Prints "BYTES SECONDS" per size.

#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_ROUNDS = 1000, SMALL = 16 << 10, IN_A_ROW = 10 };

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double measure(float *data, int count, double seconds)
{
    static double times[MAX_ROUNDS];
    const double start = MPI_Wtime();
    const int each = 4 * (int64_t)count < SMALL ? IN_A_ROW : 1;
    int n = 0, goes_on = 1;
    while (goes_on) {
        for (int i = 0; i < count; i++)
            data[i] = (float)(i & 1023);
        MPI_Barrier(MPI_COMM_WORLD);
        const double begin = MPI_Wtime();
        for (int i = 0; i < each; i++)
            MPI_Allreduce(MPI_IN_PLACE, data, count, MPI_FLOAT, MPI_SUM,
                          MPI_COMM_WORLD);
        times[n++] = (MPI_Wtime() - begin) / each;
        goes_on = n < 4 || (n < MAX_ROUNDS && MPI_Wtime() - start < seconds);
        MPI_Bcast(&goes_on, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    qsort(times, (size_t)n, sizeof times[0], by_size);
    return times[n / 2];
}

int main(int n, char **words)
{
    int rank = 0;
    MPI_Init(&n, &words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    for (int i = 2; i < n; i++) {
        const int64_t bytes = atoll(words[i]);
        float *data = malloc((size_t)bytes);
        if (data == NULL)
            MPI_Abort(MPI_COMM_WORLD, 1);
        const double seconds =
            measure(data, (int)(bytes / 4), strtod(words[1], NULL));
        if (rank == 0)
            printf("%lld %.9f\n", (long long)bytes, seconds);
        free(data);
    }
    MPI_Finalize();
    return 0;
}
