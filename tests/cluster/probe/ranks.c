/* Run by test_ranks.py on several ranks: every call of cluster.h, with values of which each rank knows what must come
 * out. Ends with 1 and a line for the first that is wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/rng.h"
#include "cluster/cluster.h"
#include "cluster/sum.h"

enum { MAX_RANKS = 16 };

static td_cluster *cluster;

static void check(bool is_right, const char *what)
{
    if (is_right) return;
    fprintf(stderr, "rank %u: %s: %s\n", td_cluster_rank(cluster), what, td_error_last()->message);
    exit(1);
}

/* What a rank gives for element i. */
static float value_of(uint32_t rank, uint64_t i)
{
    return (float)td_rng_below(7, rank + 1, i, 1 << 24) * (i % 3 == 0 ? 1e-6f : 3.0f) - 1e7f;
}

typedef struct sum_job {
    td_wire_format format;
    uint64_t n;
    float *values;
    void *scratch;
    bool gathers;
} sum_job;

static td_status run_sum(td_cluster *c, void *context)
{
    const sum_job *job = context;
    td_status status = td_cluster_do_reduce_scatter(c, job->format, job->n, job->values, job->scratch);
    if (status == TD_OK && job->gathers)
        status = td_cluster_do_all_gather(c, job->format, job->n, job->values, job->scratch);
    return status;
}

/* As it travels; alone nothing does. */
static float rounded(float value)
{
    if (td_cluster_size(cluster) == 1) return value;
    unsigned char packed[2];
    float out;
    td_wire_pack(&value, 1, packed);
    td_wire_unpack(packed, 1, &out);
    return out;
}

/* In the order of the ranks, each addition rounded to fp32. */
static float expect(td_wire_format format, uint64_t i)
{
    float sum = 0;
    for (uint32_t r = 0; r < td_cluster_size(cluster); ++r) {
        const float value = format == TD_WIRE_BF16 ? rounded(value_of(r, i)) : value_of(r, i);
        sum = r == 0 ? value : sum + value;
    }
    return sum;
}

static void try_sum(td_wire_format format, uint64_t n, bool gathers)
{
    uint64_t number, first = 0;
    float *values = malloc(4 * n + 4);
    void *scratch = malloc(td_cluster_scratch_bytes(cluster, n) + 1);
    const uint32_t rank = td_cluster_rank(cluster);
    check(values != NULL && scratch != NULL, "memory");
    for (uint64_t i = 0; i < n; ++i)
        values[i] = value_of(rank, i);
    sum_job job = {format, n, values, scratch, gathers};
    check(td_cluster_give(cluster, &(td_cluster_job){run_sum, &job}, &number) == TD_OK, "give");
    check(td_cluster_wait(cluster, number) == TD_OK, "sum");
    const uint64_t count = gathers ? n : td_cluster_shard(n, td_cluster_size(cluster), rank, &first);
    for (uint64_t i = 0; i < n; ++i) {
        const bool is_summed = i >= first && i < first + count;
        float right = is_summed ? expect(format, i) : value_of(rank, i);
        if (is_summed && gathers && format == TD_WIRE_BF16) right = rounded(right);
        check(memcmp(&right, &values[i], 4) == 0, "a sum has other bits");
    }
    free(values);
    free(scratch);
}

static td_status run_gather(td_cluster *c, void *context)
{
    size_t counts[MAX_RANKS];
    for (uint32_t r = 0; r < td_cluster_size(c); ++r)
        counts[r] = r + 1;
    char mine[MAX_RANKS];
    memset(mine, 'a' + (int)td_cluster_rank(c), sizeof mine);
    return td_cluster_do_gather(c, mine, counts, context, td_cluster_size(c) - 1);
}

static void try_moves(void)
{
    const uint32_t rank = td_cluster_rank(cluster), size = td_cluster_size(cluster);
    uint32_t ranks[MAX_RANKS], told = rank;
    char gathered[MAX_RANKS * MAX_RANKS] = "", *at = gathered;
    uint64_t number;
    check(td_cluster_broadcast(cluster, &told, sizeof told, size - 1) == TD_OK && told == size - 1,
          "broadcast");
    check(td_cluster_all_gather(cluster, &rank, sizeof rank, ranks) == TD_OK, "all_gather");
    for (uint32_t r = 0; r < size; ++r)
        check(ranks[r] == r, "all_gather has another order");
    check(td_cluster_barrier(cluster) == TD_OK, "barrier");
    check(td_cluster_give(cluster, &(td_cluster_job){run_gather, gathered}, &number) == TD_OK, "give");
    check(td_cluster_wait(cluster, number) == TD_OK, "gather");
    for (uint32_t r = 0; rank == size - 1 && r < size; ++r)
        for (uint32_t k = 0; k <= r; ++k)
            check(*at++ == (char)('a' + (int)r), "gather has another order");
}

static void try_shares(void)
{
    static const struct {
        double seconds[3];
        uint32_t total, counts[3];
    } CASES[] = {{{1, 1, 1}, 6, {2, 2, 2}},
                 {{1, 3, 3}, 10, {6, 2, 2}},
                 {{1, 100, 1}, 5, {2, 1, 2}},
                 {{5, 4, 3}, 3, {1, 1, 1}}};
    for (size_t i = 0; i < sizeof CASES / sizeof CASES[0]; ++i) {
        uint32_t counts[3];
        td_cluster_share_out(CASES[i].seconds, 3, CASES[i].total, counts);
        check(memcmp(counts, CASES[i].counts, sizeof counts) == 0, "work is shared out otherwise");
    }
}

static td_status run_badly(td_cluster *c, void *context)
{
    (void)c, (void)context;
    return TD_FAIL(TD_ERR_DRIVER, "a job that fails");
}

/* A rank whose job has failed, and which does not hear of it, since it is busy. */
static void be_busy(void)
{
    uint64_t number;
    check(td_cluster_give(cluster, &(td_cluster_job){run_badly, NULL}, &number) == TD_OK, "give");
    (void)sleep(60);
}

int main(int argc, char **argv)
{
    const bool dies = argc > 1 && strcmp(argv[1], "fail") == 0;
    if (td_cluster_open(TD_CLUSTER_AUTO, &cluster) != TD_OK) {
        fprintf(stderr, "%s\n", td_error_last()->message);
        return 2;
    }
    if (argc > 1 && strcmp(argv[1], "busy") == 0 && td_cluster_rank(cluster) == 1) be_busy();
    try_moves();
    try_shares();
    for (int format = TD_WIRE_FP32; format <= TD_WIRE_BF16; ++format) {
        static const uint64_t SIZES[] = {0, 1, 63, 64, 65, 1000, 100000};
        for (size_t i = 0; i < sizeof SIZES / sizeof SIZES[0]; ++i) {
            try_sum((td_wire_format)format, SIZES[i], true);
            try_sum((td_wire_format)format, SIZES[i], false);
        }
    }
    if (td_cluster_rank(cluster) == 0)
        printf("ranks %u %s\n", td_cluster_size(cluster), td_cluster_name(cluster));
    fflush(stdout);
    td_cluster_close(cluster, dies && td_cluster_rank(cluster) == 1);
    return 0;
}
