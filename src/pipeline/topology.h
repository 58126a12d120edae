/* Where devices sit in the computer: PCIe root, NUMA node and the slowest link on the way to the processor,
 * read from sysfs by the device's PCI address; and what follows for a pair of them. Devices without an
 * address (CPU drivers) have no place. Never fails: what cannot be read is not known. Covered by
 * tests/pipeline/test_topology.c.
 */
#ifndef TD_PIPELINE_TOPOLOGY_H
#define TD_PIPELINE_TOPOLOGY_H

#include "tandem/device.h"

typedef struct td_link {
    double gts;     /* per lane; 0: not known */
    uint32_t width; /* lanes */
} td_link;

typedef struct td_topology {
    bool is_known;
    char root[32];   /* host bridge, "pci0000:00" */
    char port[32];   /* root port, "0000:00:01.0"; "" for a device on the root itself */
    int numa_node;   /* -1: not known, or the computer has one */
    td_link now;     /* slowest on the way, as it runs: cards that idle run slower links */
    td_link at_most; /* slowest on the way, as it can run */
} td_topology;

/* `root`: "", or the folder that stands for /. */
void td_topology_read(const char *root, const td_device_info *info, td_topology *out);

/* Bytes of a link in one direction, after its coding, in GB/s; 0: not known. */
double td_link_gbps(td_link link);

enum { TD_TOPOLOGY_TEXT_BYTES = 256, TD_TOPOLOGY_PAIR_BYTES = 512 };

/* "PCIe 4.0 x16, 31.5 GB/s; root pci0000:00; NUMA node 0"; "" where nothing is known. */
void td_topology_describe(const td_topology *topology, char out[TD_TOPOLOGY_TEXT_BYTES]);

/* Which of two devices should have the model: a card before a GPU in the processor before a CPU, then the one
 * that computes more (of one API), then the one with more memory; NULL where they are alike. */
const td_device_info *td_topology_stronger(const td_device_info *a, const td_device_info *b);

/* What is to be said about a pair: different roots or nodes, unequal links, roles that should change places;
 * "" where all is well or nothing is known. */
void td_topology_judge(const td_device_info *data, const td_topology *data_place, const td_device_info *model,
                       const td_topology *model_place, char out[TD_TOPOLOGY_PAIR_BYTES]);

#endif
