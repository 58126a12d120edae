/* What a communication module (src/cluster/mpi) gives to cluster.c: a table of calls, found in a library that
 * is opened at run time, so that nobody needs MPI who does not use it. Every call blocks and is made by one
 * thread of each process, `open` first and `close` last; 0, or the module's own number of an error. Counts
 * and places are in bytes. Covered by tests/cluster.
 */
#ifndef TD_CLUSTER_MODULE_H
#define TD_CLUSTER_MODULE_H

#include <stddef.h>
#include <stdint.h>

#define TD_CLUSTER_MODULE_VERSION 2u
#define TD_CLUSTER_MODULE_SYMBOL "td_cluster_module"

/* Pieces of a block of memory, one for each rank. */
typedef struct td_pieces {
    const int *bytes;
    const int *at;
} td_pieces;

typedef struct td_cluster_calls {
    uint32_t version;
    const char *name; /* "Open MPI 4.1.4" */
    int (*open)(int *rank, int *size, int *local_rank);
    int (*exchange)(const void *from, td_pieces sent, void *to, td_pieces received); /* all to all */
    int (*all_gather)(const void *from, int bytes, void *to, td_pieces received);
    int (*gather)(const void *from, int bytes, void *to, td_pieces received, int root);
    int (*broadcast)(void *data, int bytes, int root);
    int (*barrier)(void);
    /* Gives a sign of life and looks for those of others: between other calls at least once a second, while the
     * others do so themselves for as long as they wait. An error: a rank has been silent for too long. NULL: none
     * are given. */
    int (*pulse)(void);
    int (*close)(void);
    void (*end)(int code); /* ends all ranks at once; does not return */
    void (*describe)(int error, char *text, size_t capacity);
} td_cluster_calls;

/* A rank of a network that is modelled in this process (sim.h): with calls of its own. */
typedef struct td_cluster_seat {
    const td_cluster_calls *calls;
    void (*enter)(void *context);    /* before all calls, on the thread that makes them */
    void (*note_ready)(uint64_t ns); /* on that thread: td_cluster_do_note_ready() */
    void *context;
} td_cluster_seat;

/* The type of the one symbol that a module has. The table lives as long as the process. */
typedef const td_cluster_calls *(*td_cluster_module_function)(void);

#endif
