/* The calls of module.h in MPI: a library of its own, the only one that is linked with MPI. Errors come back
 * as numbers instead of ending the program, as far as the MPI library notices them. It does not notice a computer
 * that is gone without a word, so that each rank sends the next one a byte every second; collective calls are begun
 * and then asked after, which leaves time for that, and the processor to others. */
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>

#include "cluster/module.h"

enum { SILENT = -1 }; /* an error of our own; MPI's are above 0 */
enum { SILENCE_S = 20, HOST_BYTES = 64, NAP_NS = 20000 };
static const double LOOK_S = 0.25, BEAT_S = 1, AWAKE_S = 0.002;

/* A process joins others once, so there is one. */
static struct {
    MPI_Comm signs; /* apart from everything else */
    int rank, size, before;
    MPI_Request in, out;
    char heard_byte, sent_byte;
    double looked_s, heard_s, sent_s;
    char (*hosts)[HOST_BYTES]; /* [size]; owned */
} own = {.signs = MPI_COMM_NULL, .in = MPI_REQUEST_NULL, .out = MPI_REQUEST_NULL};

/* ---------------------------------------------------------------- signs of life */

static int listen_again(void)
{
    return MPI_Irecv(&own.heard_byte, 1, MPI_BYTE, own.before, 0, own.signs, &own.in);
}

/* All that have come: one at a time they would be heard later and later, and longer than they are sent. */
static int look_for_signs(double now_s)
{
    int done = 0, error = MPI_SUCCESS;
    while (error == MPI_SUCCESS && (error = MPI_Test(&own.in, &done, MPI_STATUS_IGNORE)) == MPI_SUCCESS &&
           done) {
        own.heard_s = now_s;
        error = listen_again();
    }
    if (error != MPI_SUCCESS || now_s - own.sent_s < BEAT_S) return error;
    if ((error = MPI_Test(&own.out, &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS || !done) return error;
    own.sent_s = now_s;
    return MPI_Isend(&own.sent_byte, 1, MPI_BYTE, (own.rank + 1) % own.size, 0, own.signs, &own.out);
}

static int pulse(void)
{
    const double now_s = MPI_Wtime();
    if (own.size < 2 || now_s - own.looked_s < LOOK_S) return MPI_SUCCESS;
    own.looked_s = now_s;
    const int error = look_for_signs(now_s);
    if (error != MPI_SUCCESS) return error;
    return now_s - own.heard_s > SILENCE_S ? SILENT : MPI_SUCCESS;
}

/* Waits for a call that was begun. Short ones are not slept through. */
static int finish(int begun, MPI_Request *request)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    const double start_s = MPI_Wtime();
    int done = 0, error = begun;
    while (error == MPI_SUCCESS) {
        if ((error = MPI_Test(request, &done, MPI_STATUS_IGNORE)) != MPI_SUCCESS || done) return error;
        if ((error = pulse()) != MPI_SUCCESS) return error;
        if (MPI_Wtime() - start_s < AWAKE_S)
            (void)sched_yield();
        else
            (void)nanosleep(&nap, NULL);
    }
    return error;
}

/* ---------------------------------------------------------------- life */

static int name_hosts(void)
{
    char name[MPI_MAX_PROCESSOR_NAME] = "", mine[HOST_BYTES] = "";
    int length = 0;
    own.hosts = calloc((size_t)own.size, HOST_BYTES);
    if (own.hosts == NULL) return MPI_ERR_NO_MEM;
    (void)MPI_Get_processor_name(name, &length);
    (void)snprintf(mine, sizeof mine, "%.*s", HOST_BYTES - 1, name);
    return MPI_Allgather(mine, HOST_BYTES, MPI_BYTE, own.hosts, HOST_BYTES, MPI_BYTE, MPI_COMM_WORLD);
}

static int open_signs(void)
{
    int error = MPI_Comm_dup(MPI_COMM_WORLD, &own.signs);
    if (error != MPI_SUCCESS || (error = name_hosts()) != MPI_SUCCESS) return error;
    (void)prctl(PR_SET_TIMERSLACK, 1000UL); /* of this thread: naps are short */
    own.before = (own.rank + own.size - 1) % own.size;
    own.heard_s = MPI_Wtime();
    return listen_again();
}

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
    own.rank = *rank;
    own.size = *size;
    return error != MPI_SUCCESS ? error : open_signs();
}

/* ---------------------------------------------------------------- calls */

static int exchange(const void *from, td_pieces sent, void *to, td_pieces received)
{
    MPI_Request request;
    return finish(MPI_Ialltoallv(from, sent.bytes, sent.at, MPI_BYTE, to, received.bytes, received.at,
                                 MPI_BYTE, MPI_COMM_WORLD, &request),
                  &request);
}

static int all_gather(const void *from, int bytes, void *to, td_pieces received)
{
    MPI_Request request;
    return finish(MPI_Iallgatherv(from, bytes, MPI_BYTE, to, received.bytes, received.at, MPI_BYTE,
                                  MPI_COMM_WORLD, &request),
                  &request);
}

static int gather(const void *from, int bytes, void *to, td_pieces received, int root)
{
    MPI_Request request;
    return finish(MPI_Igatherv(from, bytes, MPI_BYTE, to, received.bytes, received.at, MPI_BYTE, root,
                               MPI_COMM_WORLD, &request),
                  &request);
}

static int broadcast(void *data, int bytes, int root)
{
    MPI_Request request;
    return finish(MPI_Ibcast(data, bytes, MPI_BYTE, root, MPI_COMM_WORLD, &request), &request);
}

static int wait_for_all(void)
{
    MPI_Request request;
    return finish(MPI_Ibarrier(MPI_COMM_WORLD, &request), &request);
}

/* MPI_Finalize gives no signs of life, so that all must be there. */
static int close_mpi(void)
{
    const int error = wait_for_all();
    if (error != MPI_SUCCESS) return error;
    if (own.in != MPI_REQUEST_NULL) {
        (void)MPI_Cancel(&own.in);
        (void)MPI_Wait(&own.in, MPI_STATUS_IGNORE);
    }
    (void)MPI_Wait(&own.out, MPI_STATUS_IGNORE);
    (void)MPI_Comm_free(&own.signs);
    free(own.hosts);
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
    if (error == SILENT) {
        (void)snprintf(text, capacity,
                       "no sign of life of rank %d (on %s) for %d s; is that computer off or cut off?",
                       own.before, own.hosts[own.before], SILENCE_S);
        return;
    }
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
                                           .pulse = pulse,
                                           .close = close_mpi,
                                           .end = end_all,
                                           .describe = describe};
    return &CALLS;
}
