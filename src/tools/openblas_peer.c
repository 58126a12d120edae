/* OpenBLAS in child processes; see openblas_peer.h. Parent and child speak over a pair of sockets in fixed
 * structs. */
#include "tools/openblas_peer.h"

#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define LIBRARY "libopenblas.so.0"
enum { ROW_MAJOR = 101, AS_IT_IS = 111, TURNED = 112 }; /* the CBLAS interface's numbers */

typedef void sgemm_function(int order, int turn_a, int turn_b, int m, int n, int k, float alpha,
                            const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct request {
    td_gemm_shape shape;
    uint32_t layout;
    uint32_t repeats;
} request;

typedef struct peer {
    const char *core;
    pid_t process;
    int socket;
} peer;

struct td_openblas_peers {
    peer peers[TD_OPENBLAS_MAX_PEERS];
    size_t count;
};

/* ---------------------------------------------------------------- the child */

typedef struct child {
    sgemm_function *sgemm;
    request last;
    float *a, *b, *c;
} child;

static bool send_all(int to, const void *data, size_t bytes)
{
    for (size_t sent = 0; sent < bytes;) {
        const ssize_t part = send(to, (const char *)data + sent, bytes - sent, MSG_NOSIGNAL);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return false;
        sent += (size_t)part;
    }
    return true;
}

static bool receive_all(int from, void *data, size_t bytes)
{
    for (size_t got = 0; got < bytes;) {
        const ssize_t part = recv(from, (char *)data + got, bytes - got, 0);
        if (part < 0 && errno == EINTR) continue;
        if (part <= 0) return false;
        got += (size_t)part;
    }
    return true;
}

static void multiply(const child *x, const request *r)
{
    const td_gemm_desc d = td_gemm_shape_desc(&r->shape, (td_gemm_layout)r->layout);
    const int m = (int)d.m, n = (int)d.n, k = (int)d.k;
    for (size_t z = 0; z < d.batch; z++) {
        x->sgemm(ROW_MAJOR, d.layout == TD_GEMM_TN ? TURNED : AS_IT_IS,
                 d.layout == TD_GEMM_NT ? TURNED : AS_IT_IS, m, n, k, 1.0f, x->a + z * d.stride_a,
                 d.layout == TD_GEMM_TN ? m : k, x->b + z * d.stride_b, d.layout == TD_GEMM_NT ? k : n, 0.0f,
                 x->c + z * d.stride_c, n);
    }
}

static float *new_matrix(uint64_t elements)
{
    float *values = aligned_alloc(64, (elements * sizeof(float) + 63) / 64 * 64);
    for (uint64_t i = 0; values && i < elements; i++)
        values[i] = (float)(i % 1021) / 1021.0f - 0.5f;
    return values;
}

static bool make_operands(child *x, const request *r)
{
    if (memcmp(&x->last.shape, &r->shape, sizeof r->shape) == 0 && x->last.layout == r->layout) return true;
    const td_gemm_desc desc = td_gemm_shape_desc(&r->shape, (td_gemm_layout)r->layout);
    const td_gemm_extent spans = td_gemm_extents(&desc);
    free(x->a);
    free(x->b);
    free(x->c);
    x->a = new_matrix(spans.a);
    x->b = new_matrix(spans.b);
    x->c = new_matrix(spans.c);
    x->last = *r;
    return x->a && x->b && x->c;
}

/* Opens the library, says whether that worked, and serves until the parent hangs up. */
static void serve(int socket, const char *core, uint32_t threads)
{
    child x = {0};
    request r;
    char count[16];
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* stopped as it mostly is, it would outlive us */
    snprintf(count, sizeof count, "%u", threads);
    setenv("OPENBLAS_NUM_THREADS", count, 1);
    if (core) setenv("OPENBLAS_CORETYPE", core, 1);
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    x.sgemm = library ? (sgemm_function *)dlsym(library, "cblas_sgemm") : NULL;
    const double ready = x.sgemm ? 1 : 0;
    if (!send_all(socket, &ready, sizeof ready) || !x.sgemm) return;
    while (receive_all(socket, &r, sizeof r)) {
        if (!make_operands(&x, &r)) return;
        multiply(&x, &r);
        const uint64_t begin = td_clock_ns();
        for (uint32_t i = 0; i < r.repeats; i++)
            multiply(&x, &r);
        const double seconds = 1e-9 * (double)(td_clock_ns() - begin) / r.repeats;
        if (!send_all(socket, &seconds, sizeof seconds)) return;
    }
}

/* ---------------------------------------------------------------- the parent */

/* The core types that differ on what this CPU can do; NULL lets OpenBLAS decide. */
static size_t list_cores(const char **cores)
{
    size_t count = 0;
    cores[count++] = NULL;
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        cores[count++] = "Haswell";
        cores[count++] = "Zen";
    }
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl")) cores[count++] = "SkylakeX";
#endif
    return count;
}

static void end_peer(const peer *p)
{
    close(p->socket);
    kill(p->process, SIGKILL);
    while (waitpid(p->process, NULL, 0) < 0 && errno == EINTR)
        ;
}

static td_status start_peer(peer *p, const char *core, uint32_t threads)
{
    int pair[2];
    double ready = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
        return TD_FAIL(TD_ERR_IO, "no pair of sockets for OpenBLAS: %s", strerror(errno));
    p->core = core ? core : "default";
    p->socket = pair[0];
    p->process = fork();
    if (p->process == 0) {
        close(pair[0]);
        serve(pair[1], core, threads);
        _exit(0);
    }
    close(pair[1]);
    if (p->process < 0) {
        close(pair[0]);
        return TD_FAIL(TD_ERR_IO, "no process for OpenBLAS: %s", strerror(errno));
    }
    if (receive_all(p->socket, &ready, sizeof ready) && ready > 0) {
        kill(p->process, SIGSTOP);
        return TD_OK;
    }
    end_peer(p);
    return TD_FAIL(TD_ERR_NOT_FOUND, LIBRARY " cannot be opened; install libopenblas0-pthread");
}

td_status td_openblas_start(uint32_t threads, td_openblas_peers **out)
{
    const char *cores[TD_OPENBLAS_MAX_PEERS];
    td_status status = TD_OK;
    TD_TRY(TD_NEW(out));
    const size_t count = list_cores(cores);
    for (size_t i = 0; i < count; i++) {
        TD_TRY(start_peer(&(*out)->peers[i], cores[i], threads));
        (*out)->count++;
    }
    return TD_OK;
fail:
    td_openblas_stop(*out);
    *out = NULL;
    return status;
}

void td_openblas_stop(td_openblas_peers *peers)
{
    if (!peers) return;
    for (size_t i = 0; i < peers->count; i++)
        end_peer(&peers->peers[i]);
    free(peers);
}

size_t td_openblas_count(const td_openblas_peers *peers)
{
    return peers->count;
}

const char *td_openblas_core(const td_openblas_peers *peers, size_t i)
{
    return peers->peers[i].core;
}

td_status td_openblas_run(td_openblas_peers *peers, size_t i, const td_gemm_shape *shape,
                          td_gemm_layout layout, uint32_t repeats, double *seconds)
{
    const peer *p = &peers->peers[i];
    const request r = {.shape = *shape, .layout = (uint32_t)layout, .repeats = repeats};
    kill(p->process, SIGCONT);
    const bool answered =
        send_all(p->socket, &r, sizeof r) && receive_all(p->socket, seconds, sizeof *seconds);
    kill(p->process, SIGSTOP);
    return answered ? TD_OK : TD_FAIL(TD_ERR_IO, "OpenBLAS (%s) stopped answering", p->core);
}
