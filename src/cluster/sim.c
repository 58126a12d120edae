/* Ranks of one process on a modelled network. See sim.h. A call is a meeting: when the last rank has come,
 * the call's end is known; each takes its bytes from the others' memory; when all have, they part, and sleep
 * until the end. Ends are modelled, not observed: a call begins when what it sends was there, which whoever
 * gives the job may know better than the clock (td_cluster_do_note_ready), so that delays of this computer's
 * scheduler do not add up. Covered by tests/cluster/test_sim.c.
 */
#include "cluster/sim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/rng.h"
#include "cluster/launch.h"

enum { PACKET_BYTES = 65536, FAILED = 1, MIXED = 2 };

typedef enum call_kind {
    CALL_EXCHANGE,
    CALL_ALL_GATHER,
    CALL_GATHER,
    CALL_BROADCAST,
    CALL_BARRIER
} call_kind;

/* What a rank brings to a meeting. */
typedef struct call {
    call_kind kind;
    const char *from;
    td_pieces sent; /* of an exchange; else all ranks get the same */
    int bytes;
    uint64_t ready_ns;
} call;

typedef struct seat {
    struct td_network *network;
    uint32_t rank;
    call call;
    uint64_t at_ns;    /* end of its last call, and of the sum behind it */
    uint64_t ready_ns; /* noted for the calls of the job that runs; 0: none was */
} seat;

struct td_network {
    td_network_model model;
    seat *seats;
    pthread_mutex_t lock; /* what follows, and the seats' calls until all have met */
    pthread_cond_t changed;
    uint32_t n_met;
    uint64_t n_meetings, n_calls;
    uint64_t end_ns; /* of the call */
    int failure;
};

/* The calls of module.h have no argument that tells ranks apart, since with MPI a process is one. Here the thread
 * that makes them is. */
static _Thread_local seat *mine;

/* ---------------------------------------------------------------- meetings; lock held */

/* What a rank sends in a call, and gets. */
static double bytes_of(const td_network *n, const seat *s)
{
    double sent = 0;
    for (uint32_t r = 0; r < n->model.ranks; ++r)
        if (s->call.kind == CALL_EXCHANGE && r != s->rank) sent += s->call.sent.bytes[r];
    if (s->call.kind == CALL_ALL_GATHER) sent = (double)s->call.bytes * (double)(n->model.ranks - 1);
    if (s->call.kind == CALL_GATHER || s->call.kind == CALL_BROADCAST) sent = s->call.bytes;
    return sent;
}

/* As td_network_exchange_ns(), with what is really lost: each packet is sent until it arrives. */
static double time_of(const td_network *n, const seat *s)
{
    td_network_model whole = n->model;
    const double bytes = bytes_of(n, s);
    double lost = 0;
    whole.drop = 0;
    for (uint64_t p = 0; n->model.drop > 0 && (double)p * PACKET_BYTES < bytes; ++p)
        while (td_rng_double(n->model.seed + n->n_calls, s->rank, p + ((uint64_t)lost << 32)) < n->model.drop)
            ++lost;
    return td_network_exchange_ns(&whole, (uint32_t)n->model.ranks, bytes + lost * PACKET_BYTES);
}

/* All have come: the last one sets the beginning, the slowest the end. */
static void time_call(td_network *n)
{
    uint64_t start_ns = 0;
    double longest_ns = 0;
    for (uint32_t r = 0; r < n->model.ranks; ++r) {
        const seat *s = &n->seats[r];
        const double ns = time_of(n, s);
        if (s->call.kind != n->seats[0].call.kind) n->failure = MIXED;
        if (s->call.ready_ns > start_ns) start_ns = s->call.ready_ns;
        if (ns > longest_ns) longest_ns = ns;
    }
    n->end_ns = start_ns + (uint64_t)longest_ns;
    ++n->n_calls;
}

/* Waits until all ranks are here; the last one does `then`. */
static int meet(td_network *n, void (*then)(td_network *))
{
    const uint64_t number = n->n_meetings;
    if (n->failure == 0 && ++n->n_met == n->model.ranks) {
        if (then != NULL) then(n);
        n->n_met = 0;
        ++n->n_meetings;
        pthread_cond_broadcast(&n->changed);
    }
    while (n->failure == 0 && n->n_meetings == number)
        pthread_cond_wait(&n->changed, &n->lock);
    return n->failure;
}

/* ---------------------------------------------------------------- calls */

/* What this rank gets of others, while all stand still. */
typedef void take_function(const seat *s, void *to, td_pieces received, int root);

static int make_call(const call *made, take_function *take, void *to, td_pieces received, int root)
{
    seat *s = mine;
    td_network *n = s->network;
    pthread_mutex_lock(&n->lock);
    s->call = *made;
    s->call.ready_ns = s->ready_ns > 0 ? s->ready_ns : td_clock_ns();
    if (s->at_ns > s->call.ready_ns) s->call.ready_ns = s->at_ns;
    int failure = meet(n, time_call);
    const uint64_t end_ns = n->end_ns;
    if (failure == 0) {
        pthread_mutex_unlock(&n->lock);
        if (take != NULL) take(s, to, received, root);
        pthread_mutex_lock(&n->lock);
        failure = meet(n, NULL);
    }
    pthread_mutex_unlock(&n->lock);
    s->at_ns = end_ns;
    if (made->kind != CALL_EXCHANGE) s->ready_ns = 0;
    td_clock_sleep_until(end_ns);
    return failure;
}

static int open_seat(int *rank, int *size, int *local_rank)
{
    *rank = *local_rank = (int)mine->rank;
    *size = (int)mine->network->model.ranks;
    return 0;
}

static void take_exchanged(const seat *s, void *to, td_pieces received, int root)
{
    (void)root;
    for (uint32_t r = 0; r < s->network->model.ranks; ++r) {
        const call *other = &s->network->seats[r].call;
        memcpy((char *)to + received.at[r], other->from + other->sent.at[s->rank], (size_t)received.bytes[r]);
    }
}

/* A rank's own piece may lie where it goes already. */
static void take_gathered(const seat *s, void *to, td_pieces received, int root)
{
    for (uint32_t r = 0; r < s->network->model.ranks && (root < 0 || root == (int)s->rank); ++r)
        memmove((char *)to + received.at[r], s->network->seats[r].call.from, (size_t)received.bytes[r]);
}

static void take_broadcast(const seat *s, void *to, td_pieces received, int root)
{
    const call *other = &s->network->seats[root].call;
    (void)received;
    if (root != (int)s->rank) memcpy(to, other->from, (size_t)other->bytes);
}

static int exchange(const void *from, td_pieces sent, void *to, td_pieces received)
{
    double bytes = 0;
    const int error = make_call(&(call){.kind = CALL_EXCHANGE, .from = from, .sent = sent}, take_exchanged,
                                to, received, -1);
    for (uint32_t r = 0; r < mine->network->model.ranks; ++r)
        bytes += received.bytes[r];
    mine->at_ns += (uint64_t)td_network_sum_ns(&mine->network->model, bytes);
    return error;
}

static int all_gather(const void *from, int bytes, void *to, td_pieces received)
{
    return make_call(&(call){.kind = CALL_ALL_GATHER, .from = from, .bytes = bytes}, take_gathered, to,
                     received, -1);
}

static int gather(const void *from, int bytes, void *to, td_pieces received, int root)
{
    return make_call(&(call){.kind = CALL_GATHER, .from = from, .bytes = bytes}, take_gathered, to, received,
                     root);
}

static int broadcast(void *data, int bytes, int root)
{
    return make_call(&(call){.kind = CALL_BROADCAST, .from = data, .bytes = bytes}, take_broadcast, data,
                     (td_pieces){0}, root);
}

static int barrier(void)
{
    return make_call(&(call){.kind = CALL_BARRIER}, NULL, NULL, (td_pieces){0}, -1);
}

static int close_seat(void)
{
    return 0;
}

/* Whoever has failed has told the network; no process is to end. */
static void end(int code)
{
    (void)code;
}

static void describe(int error, char *text, size_t capacity)
{
    (void)snprintf(text, capacity, "%s",
                   error == MIXED ? "ranks made different calls at a time"
                                  : "another simulated rank has failed");
}

static const td_cluster_calls CALLS = {.version = TD_CLUSTER_MODULE_VERSION,
                                       .name = "a simulated network",
                                       .open = open_seat,
                                       .exchange = exchange,
                                       .all_gather = all_gather,
                                       .gather = gather,
                                       .broadcast = broadcast,
                                       .barrier = barrier,
                                       .close = close_seat,
                                       .end = end,
                                       .describe = describe};

/* ---------------------------------------------------------------- life */

void td_network_fail(td_network *n)
{
    pthread_mutex_lock(&n->lock);
    if (n->failure == 0) n->failure = FAILED;
    pthread_cond_broadcast(&n->changed);
    pthread_mutex_unlock(&n->lock);
}

static void enter(void *context)
{
    mine = context;
}

static void note_ready(uint64_t ns)
{
    mine->ready_ns = ns;
}

td_status td_network_create(const td_network_model *model, td_network **out)
{
    td_status status = TD_OK;
    td_network *n = NULL;
    *out = NULL;
    TD_FAIL_IF(model->ranks < 1 || model->ranks > TD_NETWORK_MOST_RANKS, TD_ERR_ARGUMENT,
               "%llu ranks are too many for one process; at most %d", (unsigned long long)model->ranks,
               TD_NETWORK_MOST_RANKS);
    TD_TRY(TD_NEW(&n));
    n->model = *model;
    pthread_mutex_init(&n->lock, NULL);
    pthread_cond_init(&n->changed, NULL);
    TD_TRY(TD_NEW_ARRAY(&n->seats, model->ranks));
    for (uint32_t r = 0; r < model->ranks; ++r)
        n->seats[r] = (seat){.network = n, .rank = r};
    *out = n;
    return TD_OK;
fail:
    td_network_destroy(n);
    return status;
}

void td_network_destroy(td_network *n)
{
    if (n == NULL) return;
    pthread_mutex_destroy(&n->lock);
    pthread_cond_destroy(&n->changed);
    free(n->seats);
    free(n);
}

td_status td_network_join(td_network *n, uint32_t rank, td_cluster **out)
{
    return td_cluster_open_modelled(&(td_cluster_seat){&CALLS, enter, note_ready, &n->seats[rank]}, out);
}

/* Nobody is stuck in a call of a network that has failed, so that nothing is left behind as with MPI. */
void td_network_leave(td_cluster *cluster)
{
    td_cluster_close(cluster, false);
}
