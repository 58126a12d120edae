/* The numbers of a modelled network. See sim.h. Covered by tests/cluster/test_sim.c. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cluster/sim.h"

#define DEFAULTS ((td_network_model){.ranks = 2, .gbps = 1.25, .latency_us = 20, .sum_gbps = 5})

static const struct {
    const char *name;
    size_t offset;
    bool whole;
    double least, most;
} KEYS[] = {
    {"ranks", offsetof(td_network_model, ranks), true, 1, 4096},
    {"gbps", offsetof(td_network_model, gbps), false, 1e-3, 1e4},
    {"latency_us", offsetof(td_network_model, latency_us), false, 0, 1e7},
    {"drop", offsetof(td_network_model, drop), false, 0, 0.9},
    {"sum_gbps", offsetof(td_network_model, sum_gbps), false, 1e-3, 1e4},
    {"seed", offsetof(td_network_model, seed), true, 0, 1e15},
};
enum { N_KEYS = sizeof KEYS / sizeof KEYS[0] };

static td_status parse_pair(const char *text, size_t length, td_network_model *model)
{
    for (size_t k = 0; k < N_KEYS; ++k) {
        const size_t n = strlen(KEYS[k].name);
        if (length <= n || strncmp(text, KEYS[k].name, n) != 0 || text[n] != '=') continue;
        char *end;
        const double value = strtod(text + n + 1, &end);
        const bool is_number = end == text + length && end > text + n + 1;
        const bool is_whole = is_number && value >= 0 && value <= 1e15 && value == (double)(uint64_t)value;
        TD_REFUSE_IF(!is_number || !(value >= KEYS[k].least && value <= KEYS[k].most) ||
                         (KEYS[k].whole && !is_whole),
                     TD_ERR_CONFIG, "'%.*s' of the network: %s is a %s from %g to %g", (int)length, text,
                     KEYS[k].name, KEYS[k].whole ? "whole number" : "number", KEYS[k].least, KEYS[k].most);
        if (KEYS[k].whole)
            *(uint64_t *)((char *)model + KEYS[k].offset) = (uint64_t)value;
        else
            *(double *)((char *)model + KEYS[k].offset) = value;
        return TD_OK;
    }
    return TD_FAIL(TD_ERR_CONFIG,
                   "'%.*s' of the network is not known; write ranks=64,gbps=1.25,latency_us=20,drop=0 "
                   "(gbps in GB/s: 10 Gbit/s are 1.25), and sum_gbps= or seed= where they matter",
                   (int)length, text);
}

td_status td_network_parse(const char *text, td_network_model *out)
{
    *out = DEFAULTS;
    for (const char *at = text; *at != '\0';) {
        const size_t length = strcspn(at, ",");
        TD_CHECK(parse_pair(at, length, out));
        at += length + (at[length] == ',');
    }
    return TD_OK;
}

/* 1 GB/s is 1 byte a nanosecond. Of what is lost, the mean. */
double td_network_exchange_ns(const td_network_model *model, uint32_t ranks, double bytes)
{
    if (ranks < 2) return 0;
    return 1e3 * model->latency_us * (ranks - 1) + bytes / model->gbps / (1 - model->drop);
}

double td_network_sum_ns(const td_network_model *model, double bytes)
{
    return bytes / model->sum_gbps;
}
