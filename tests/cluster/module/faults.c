/* A module (src/cluster/module.h) between the program and the real one, TANDEM_FAULT_MODULE: on rank
 * TANDEM_FAULT_RANK the TANDEM_FAULT_AT-th call fails without being made. The number of calls is written to the file
 * TANDEM_FAULT_COUNT when the ranks part. TANDEM_FAULT_DELAY_MS: what is gathered in many bytes comes that much later, on
 * all ranks. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cluster/module.h"

enum { FAULT = 1, MANY_BYTES = 1024 }; /* FAULT: a number that MPI can describe */

static const td_cluster_calls *real;
static long n_calls;

static long read_number(const char *name)
{
    const char *text = getenv(name);
    return text != NULL ? strtol(text, NULL, 10) : -1;
}

static int fails(void)
{
    ++n_calls;
    return read_number("OMPI_COMM_WORLD_RANK") == read_number("TANDEM_FAULT_RANK") &&
           n_calls == read_number("TANDEM_FAULT_AT");
}

static int open_it(int *rank, int *size, int *local_rank)
{
    return fails() ? FAULT : real->open(rank, size, local_rank);
}

static int exchange(const void *from, td_pieces sent, void *to, td_pieces received)
{
    return fails() ? FAULT : real->exchange(from, sent, to, received);
}

static int all_gather(const void *from, int bytes, void *to, td_pieces received)
{
    const long delay_ms = read_number("TANDEM_FAULT_DELAY_MS");
    if (delay_ms > 0 && bytes > MANY_BYTES)
        (void)nanosleep(&(struct timespec){.tv_sec = delay_ms / 1000, .tv_nsec = delay_ms % 1000 * 1000000},
                        NULL);
    return fails() ? FAULT : real->all_gather(from, bytes, to, received);
}

static int gather(const void *from, int bytes, void *to, td_pieces received, int root)
{
    return fails() ? FAULT : real->gather(from, bytes, to, received, root);
}

static int broadcast(void *data, int bytes, int root)
{
    return fails() ? FAULT : real->broadcast(data, bytes, root);
}

static int barrier(void)
{
    return fails() ? FAULT : real->barrier();
}

static int pulse(void)
{
    return real->pulse(); /* comes by the clock: not counted */
}

static int close_it(void)
{
    const char *path = getenv("TANDEM_FAULT_COUNT");
    if (path != NULL && read_number("OMPI_COMM_WORLD_RANK") == read_number("TANDEM_FAULT_RANK")) {
        FILE *file = fopen(path, "w");
        if (file != NULL) {
            fprintf(file, "%ld\n", n_calls);
            fclose(file);
        }
    }
    return real->close();
}

static void end(int code)
{
    real->end(code);
}

static void describe(int error, char *text, size_t capacity)
{
    (void)error;
    snprintf(text, capacity, "a fault of the test");
}

__attribute__((visibility("default"))) const td_cluster_calls *td_cluster_module(void);

const td_cluster_calls *td_cluster_module(void)
{
    static td_cluster_calls calls;
    void *library = dlopen(getenv("TANDEM_FAULT_MODULE"), RTLD_NOW | RTLD_GLOBAL);
    void *symbol = library != NULL ? dlsym(library, TD_CLUSTER_MODULE_SYMBOL) : NULL;
    td_cluster_module_function find = NULL;
    memcpy(&find, &symbol, sizeof find);
    if (find == NULL) return NULL;
    real = find();
    calls = (td_cluster_calls){.version = real->version,
                               .name = real->name,
                               .open = open_it,
                               .exchange = exchange,
                               .all_gather = all_gather,
                               .gather = gather,
                               .broadcast = broadcast,
                               .barrier = barrier,
                               .pulse = pulse,
                               .close = close_it,
                               .end = end,
                               .describe = describe};
    return &calls;
}
