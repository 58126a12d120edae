/* Between the table of measured ops (bench_kernels_table.c) and what measures them (bench_kernels.c).
 *
 * A row of the table asks for its buffers and records one launch. It is called once for each launch of a
 * list, with the same buffers each time or with those of the next set in turn, because they are handed out in
 * the order they are asked for. */
#ifndef TD_TOOLS_BENCH_KERNELS_INTERNAL_H
#define TD_TOOLS_BENCH_KERNELS_INTERNAL_H

#include "device/dispatch.h"

/* A training step, smaller on drivers that compute a shader element by element. */
typedef struct td_kernel_sizes {
    uint32_t items, frames, channels, hidden; /* hidden: inner width of a feed-forward layer */
    uint32_t conv_channels, heads, head_size, tokens, vocabulary, classes;
    uint32_t parameters;
    uint32_t decode_n, decode_k; /* a layer of decoding, one token at a time */
} td_kernel_sizes;

typedef struct td_kernel_bench {
    td_device *device;
    td_list *list; /* being recorded */
    td_kernel_sizes sizes;
    char shape[64];      /* what the row tells about itself: */
    double bytes, flops; /* the least traffic of a launch; or, for what is bound by arithmetic, its work */

    /* The rest is bench_kernels.c's. */
    td_memory *memory;
    td_list *fills;
    td_span noise;
    td_span *spans; /* owned; of one set after the other */
    size_t n_spans, span_capacity, next;
    bool has_failed; /* a buffer could not be had: `error` says why */
    td_error error;
} td_kernel_bench;

typedef struct td_kernel_row {
    const char *op;
    td_status (*record)(td_kernel_bench *bench);
} td_kernel_row;

extern const td_kernel_row td_kernel_rows[];
extern const size_t td_kernel_row_count;

/* Buffers of `words` words: for results; of numbers in -0.5 .. 0.5; of one word; of random numbers below
 * `below`; of numbers that climb from 0 to below - 1 in every `run` words; with these contents. A buffer that
 * cannot be had is a zero span, and fails the row later. */
td_span td_kernel_bench_empty(td_kernel_bench *bench, uint64_t words);
td_span td_kernel_bench_noise(td_kernel_bench *bench, uint64_t words);
td_span td_kernel_bench_same(td_kernel_bench *bench, uint64_t words, uint32_t word);
td_span td_kernel_bench_index(td_kernel_bench *bench, uint64_t words, uint32_t below);
td_span td_kernel_bench_climb(td_kernel_bench *bench, uint64_t words, uint32_t run, uint32_t below);
td_span td_kernel_bench_words(td_kernel_bench *bench, uint64_t words, const uint32_t *contents);

void td_kernel_bench_shape(td_kernel_bench *bench, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
