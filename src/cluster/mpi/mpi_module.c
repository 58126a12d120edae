/* The calls of module.h in MPI: a library of its own, the only one that is linked with MPI. Errors come back
 * as numbers instead of ending the program, as far as the MPI library notices them. */
#include <mpi.h>
#include <stdio.h>

#include "cluster/module.h"

static int open_mpi(int *rank, int *size, int *local_rank)
{
    int provided = 0, error = MPI_SUCCESS;
    MPI_Comm local = MPI_COMM_NULL;
    if ((error = MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &provided)) != MPI_SUCCESS) return error;
    if (provided < MPI_THREAD_FUNNELED) return MPI_ERR_OTHER;
    if ((error = MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)) != MPI_SUCCESS ||
        (error = MPI_Comm_rank(MPI_COMM_WORLD, rank)) != MPI_SUCCESS ||
        (error = MPI_Comm_size(MPI_COMM_WORLD, size)) != MPI_SUCCESS ||
        (error = MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, *rank, MPI_INFO_NULL, &local)) !=
            MPI_SUCCESS)
        return error;
    error = MPI_Comm_rank(local, local_rank);
    (void)MPI_Comm_free(&local);
    return error;
}

static int exchange(const void *from, td_pieces sent, void *to, td_pieces received)
{
    return MPI_Alltoallv(from, sent.bytes, sent.at, MPI_BYTE, to, received.bytes, received.at, MPI_BYTE,
                         MPI_COMM_WORLD);
}

static int all_gather(const void *from, int bytes, void *to, td_pieces received)
{
    return MPI_Allgatherv(from, bytes, MPI_BYTE, to, received.bytes, received.at, MPI_BYTE, MPI_COMM_WORLD);
}

static int gather(const void *from, int bytes, void *to, td_pieces received, int root)
{
    return MPI_Gatherv(from, bytes, MPI_BYTE, to, received.bytes, received.at, MPI_BYTE, root,
                       MPI_COMM_WORLD);
}

static int broadcast(void *data, int bytes, int root)
{
    return MPI_Bcast(data, bytes, MPI_BYTE, root, MPI_COMM_WORLD);
}

static int wait_for_all(void)
{
    return MPI_Barrier(MPI_COMM_WORLD);
}

static int close_mpi(void)
{
    return MPI_Finalize();
}

static void end_all(int code)
{
    (void)MPI_Abort(MPI_COMM_WORLD, code);
}

static void describe(int error, char *text, size_t capacity)
{
    char full[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    if (MPI_Error_string(error, full, &length) != MPI_SUCCESS) (void)snprintf(full, sizeof full, "%d", error);
    (void)snprintf(text, capacity, "%s", full);
}

__attribute__((visibility("default"))) const td_cluster_calls *td_cluster_module(void);

const td_cluster_calls *td_cluster_module(void)
{
#ifdef OMPI_MAJOR_VERSION
#define TEXT_OF(x) #x
#define NAME_OF(major, minor, release) "Open MPI " TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(release)
    static const char NAME[] = NAME_OF(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
#else
    static const char NAME[] = "MPI";
#endif
    static const td_cluster_calls CALLS = {.version = TD_CLUSTER_MODULE_VERSION,
                                           .name = NAME,
                                           .open = open_mpi,
                                           .exchange = exchange,
                                           .all_gather = all_gather,
                                           .gather = gather,
                                           .broadcast = broadcast,
                                           .barrier = wait_for_all,
                                           .close = close_mpi,
                                           .end = end_all,
                                           .describe = describe};
    return &CALLS;
}
