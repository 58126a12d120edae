/* Finding and opening the module; for cluster.c and sim.c. */
#ifndef TD_CLUSTER_LAUNCH_H
#define TD_CLUSTER_LAUNCH_H

#include "cluster/cluster.h"
#include "cluster/module.h"

/* The module's table. TD_ERR_CONFIG says what to install. Never closed: MPI cannot be opened twice. */
td_status td_cluster_load_module(const td_cluster_calls **out);

/* Joins a modelled network. *out: owned, td_cluster_close(). */
td_status td_cluster_open_modelled(const td_cluster_seat *seat, td_cluster **out);

#endif
