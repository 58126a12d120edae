/* See topology.h. A device's folder in sysfs lies inside those of the bridges above it, so that its path is
 * its way to the processor: /sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0. */
#include "pipeline/topology.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_BYTES = 64, UNKNOWN_WIDTH = 255 };

/* A device is stronger where it has this much more. */
static const double CLEARLY = 1.1;

/* ---------------------------------------------------------------- reading */

/* The first line of folder/name. Files of sysfs have no size, so they are read as streams. */
static bool read_value(const char *folder, const char *name, char out[VALUE_BYTES])
{
    char path[PATH_MAX];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "r");
    if (!file) return false;
    const bool is_read = fgets(out, VALUE_BYTES, file) != NULL;
    (void)fclose(file);
    return is_read;
}

/* "16.0 GT/s PCIe" and "16"; bridges inside a processor say "Unknown" or 0. */
static td_link read_link(const char *folder, const char *speed_name, const char *width_name)
{
    char speed[VALUE_BYTES], width[VALUE_BYTES];
    td_link link = {0};
    if (!read_value(folder, speed_name, speed) || !read_value(folder, width_name, width)) return link;
    const double gts = strtod(speed, NULL);
    const unsigned long lanes = strtoul(width, NULL, 10);
    if (gts > 0 && lanes > 0 && lanes < UNKNOWN_WIDTH) link = (td_link){.gts = gts, .width = (uint32_t)lanes};
    return link;
}

static void keep_slower(td_link *link, td_link other)
{
    if (other.gts > 0 && (link->gts <= 0 || td_link_gbps(other) < td_link_gbps(*link))) *link = other;
}

static void look_at(const char *folder, td_topology *out)
{
    keep_slower(&out->now, read_link(folder, "current_link_speed", "current_link_width"));
    keep_slower(&out->at_most, read_link(folder, "max_link_speed", "max_link_width"));
}

/* Down from the root to the device, folder by folder. */
static void walk(char *path, size_t root_at, td_topology *out)
{
    size_t n = 0;
    for (char *at = path + root_at; at && *at; ++n) {
        char *end = strchr(at, '/');
        if (end) *end = '\0';
        if (n == 0) (void)snprintf(out->root, sizeof out->root, "%.31s", at);
        if (n == 1 && end) (void)snprintf(out->port, sizeof out->port, "%.31s", at);
        if (n > 0) look_at(path, out);
        if (end) *end = '/';
        at = end ? end + 1 : NULL;
    }
    out->is_known = n > 1;
}

void td_topology_read(const char *root, const td_device_info *info, td_topology *out)
{
    static const char DEVICES[] = "/devices/pci";
    char link[PATH_MAX], path[PATH_MAX], node[VALUE_BYTES];
    *out = (td_topology){.numa_node = -1};
    if (!info->has_pci) return;
    const int n = snprintf(link, sizeof link, "%s/sys/bus/pci/devices/%04x:%02x:%02x.%x", root,
                           info->pci.domain, info->pci.bus, info->pci.device, info->pci.function);
    if (n >= (int)sizeof link || !realpath(link, path)) return;
    const char *at = strstr(path, DEVICES);
    if (!at) return;
    if (read_value(path, "numa_node", node)) out->numa_node = (int)strtol(node, NULL, 10);
    walk(path, (size_t)(at - path) + strlen("/devices/"), out);
}

/* ---------------------------------------------------------------- telling */

/* 8 of 10 bits are data up to 5 GT/s, then 128 of 130. */
double td_link_gbps(td_link link)
{
    return link.gts * link.width / 8 * (link.gts <= 5 ? 0.8 : 128.0 / 130);
}

static int find_generation(double gts)
{
    int generation = 1;
    for (double of_this = 2.5; of_this < gts - 0.1 && generation < 9; ++generation)
        of_this = of_this == 5 ? 8 : 2 * of_this;
    return generation;
}

static void describe_link(const td_topology *t, char out[96])
{
    const td_link link = t->at_most.gts > 0 ? t->at_most : t->now;
    const bool is_slower = t->now.gts > 0 && td_link_gbps(t->now) < td_link_gbps(link);
    char now[48] = "";
    if (is_slower) (void)snprintf(now, sizeof now, " (now %.3g GT/s x%u)", t->now.gts, t->now.width);
    if (link.gts > 0)
        (void)snprintf(out, 96, "PCIe %d.0 x%u, %.3g GB/s%s", find_generation(link.gts), link.width,
                       td_link_gbps(link), now);
    else
        (void)snprintf(out, 96, "link not known");
}

void td_topology_describe(const td_topology *t, char out[TD_TOPOLOGY_TEXT_BYTES])
{
    char link[96], node[32] = "";
    out[0] = '\0';
    if (!t->is_known) return;
    describe_link(t, link);
    if (t->numa_node >= 0) (void)snprintf(node, sizeof node, "; NUMA node %d", t->numa_node);
    (void)snprintf(out, TD_TOPOLOGY_TEXT_BYTES, "%s; root %s%s", link, t->root, node);
}

static double rank_type(const td_device_info *info)
{
    return info->type == TD_DEVICE_GPU ? 4 : info->type == TD_DEVICE_IGPU ? 2 : 1;
}

/* Estimates of rates are made differently by each API. */
const td_device_info *td_topology_stronger(const td_device_info *a, const td_device_info *b)
{
    const bool is_comparable = a->api == b->api;
    const double figures[][2] = {
        {rank_type(a), rank_type(b)},
        {is_comparable ? a->caps.estimated_gflops : 0, is_comparable ? b->caps.estimated_gflops : 0},
        {(double)a->caps.memory_bytes, (double)b->caps.memory_bytes},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; ++i) {
        if (figures[i][0] > CLEARLY * figures[i][1]) return a;
        if (figures[i][1] > CLEARLY * figures[i][0]) return b;
    }
    return NULL;
}

static void add(char out[TD_TOPOLOGY_PAIR_BYTES], const char *text)
{
    const size_t n = strlen(out);
    (void)snprintf(out + n, TD_TOPOLOGY_PAIR_BYTES - n, "%s%s", n > 0 ? "; " : "", text);
}

static void judge_places(const td_topology *data, const td_topology *model, char out[TD_TOPOLOGY_PAIR_BYTES])
{
    char text[256], link[96];
    const double rate = td_link_gbps(model->at_most), other = td_link_gbps(data->at_most);
    if (!data->is_known || !model->is_known) return;
    if (data->numa_node >= 0 && model->numa_node >= 0 && data->numa_node != model->numa_node) {
        (void)snprintf(
            text, sizeof text,
            "they sit at different processors (NUMA nodes %d and %d): batches cross between these; "
            "slots of one processor are better",
            data->numa_node, model->numa_node);
        add(out, text);
    } else if (strcmp(data->root, model->root) != 0) {
        (void)snprintf(
            text, sizeof text,
            "they sit on different PCIe roots (%s and %s): batches go through the processor's memory",
            data->root, model->root);
        add(out, text);
    }
    const td_topology *slow = rate < other ? model : data;
    if (rate > 0 && other > 0 && 2 * (rate < other ? rate : other) <= (rate < other ? other : rate)) {
        describe_link(slow, link);
        (void)snprintf(text, sizeof text, "the %s device's link is the slower one (%s)",
                       slow == model ? "model" : "data", link);
        add(out, text);
    }
}

void td_topology_judge(const td_device_info *data, const td_topology *data_place, const td_device_info *model,
                       const td_topology *model_place, char out[TD_TOPOLOGY_PAIR_BYTES])
{
    char text[400];
    out[0] = '\0';
    judge_places(data_place, model_place, out);
    if (data == model || td_topology_stronger(data, model) != data) return;
    (void)snprintf(
        text, sizeof text,
        "%.100s is the stronger one and should have the model: devices.data = %s, devices.model = %s",
        data->name, model->selector, data->selector);
    add(out, text);
}
