/* Who started this process, and the module that joins it to the others. See cluster.h. Covered by
 * tests/cluster and tests/cli/test_cluster.py. */
#include "cluster/launch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"

#define MODULE "libtandem_mpi.so"

/* ---------------------------------------------------------------- the launcher */

static bool read_count(const char *name, uint64_t *out)
{
    const char *text = getenv(name);
    return text != NULL && td_text_parse_u64(text, out) == TD_OK;
}

td_launch td_cluster_launch(void)
{
    static const struct {
        const char *launcher, *size, *rank, *local_rank;
    } KNOWN[] = {
        {"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK"},
        {"an MPI launcher (PMI)", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID"},
        {"srun (Slurm)", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID"},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; ++i) {
        uint64_t size = 0, rank = 0, local_rank = 0;
        if (!read_count(KNOWN[i].size, &size) || !read_count(KNOWN[i].rank, &rank)) continue;
        if (!read_count(KNOWN[i].local_rank, &local_rank)) local_rank = rank;
        return (td_launch){.launcher = size > 1 ? KNOWN[i].launcher : NULL,
                           .rank = (uint32_t)rank,
                           .local_rank = (uint32_t)local_rank};
    }
    return (td_launch){0};
}

/* ---------------------------------------------------------------- the module */

/* Beside the program or the library that this is in, where each build and each installation has it; else
 * where the system looks. */
static void *open_library(char *tried, size_t capacity)
{
    static const char *const PLACES[] = {"", "tandem/", "../lib/tandem/", "../"};
    const char *named = getenv("TANDEM_MPI_MODULE");
    char path[TD_FILE_PATH_BYTES];
    Dl_info here;
    void *library = NULL;
    tried[0] = '\0';
    if (named != NULL) {
        library = dlopen(named, RTLD_NOW | RTLD_GLOBAL);
        if (library == NULL) (void)snprintf(tried, capacity, "%s", dlerror());
        return library;
    }
    if (dladdr(__extension__(const void *) td_cluster_launch, &here) != 0 && here.dli_fname != NULL) {
        const char *slash = strrchr(here.dli_fname, '/');
        const int folder = slash != NULL ? (int)(slash - here.dli_fname) + 1 : 0;
        for (size_t i = 0; i < sizeof PLACES / sizeof PLACES[0] && library == NULL; ++i) {
            if (snprintf(path, sizeof path, "%.*s%s" MODULE, folder, here.dli_fname, PLACES[i]) >=
                    (int)sizeof path ||
                !td_file_exists(path))
                continue;
            library = dlopen(path, RTLD_NOW | RTLD_GLOBAL); /* MPI's own plugins look for its symbols */
            if (library == NULL) (void)snprintf(tried, capacity, "%s", dlerror());
        }
    }
    if (library != NULL || tried[0] != '\0') return library;
    library = dlopen(MODULE, RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) (void)snprintf(tried, capacity, "%s", dlerror());
    return library;
}

td_status td_cluster_load_module(const td_cluster_calls **out)
{
    char tried[300];
    td_cluster_module_function find = NULL;
    *out = NULL;
    void *library = open_library(tried, sizeof tried);
    TD_REFUSE_IF(
        library == NULL, TD_ERR_CONFIG,
        "training on several ranks needs the module " MODULE
        ", which is not there (%s); install Open MPI (Debian: openmpi-bin, and libopenmpi-dev before "
        "Tandem is built), or set cluster.kind = none to train alone",
        tried);
    void *symbol = dlsym(library, TD_CLUSTER_MODULE_SYMBOL);
    memcpy(&find, &symbol, sizeof find);
    *out = find != NULL ? find() : NULL;
    TD_REFUSE_IF(*out == NULL || (*out)->version != TD_CLUSTER_MODULE_VERSION, TD_ERR_CONFIG,
                 MODULE " is of another version of Tandem; build both from the same source");
    return TD_OK;
}
