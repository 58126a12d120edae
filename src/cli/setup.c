/* What many commands begin with: values of options, and a device that stands in for one of this computer.
 * Covered by tests/cli/test_cli.py.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "base/error.h"
#include "cli/cli.h"

#define LARGE_BLOCK_BYTES (1 << 20)

const char *td_cli_system_root(void)
{
    const char *root = getenv("TANDEM_SYSTEM_ROOT");
    return root ? root : "";
}

void td_cli_return_large_blocks(void)
{
#ifdef __GLIBC__
    (void)mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES);
#endif
}

const char *td_cli_text(const td_cli *cli, const char *name)
{
    return td_options_get(cli->options, name)->text;
}

bool td_cli_is_on(const td_cli *cli, const char *name)
{
    return td_options_get(cli->options, name)->truth;
}

uint64_t td_cli_count(const td_cli *cli, const char *name)
{
    return (uint64_t)td_options_get(cli->options, name)->integer;
}

td_status td_cli_refuse_model_keys(const td_cli *cli)
{
    for (size_t i = 0; i < cli->table->n_options; i++) {
        const td_option *row = &cli->table->options[i];
        char name[TD_OPTION_FLAG_BYTES + sizeof "model."];
        if (!row->section || strcmp(row->section, "model") != 0) continue;
        (void)snprintf(name, sizeof name, "model.%s", row->key);
        TD_REFUSE_IF(td_options_get(cli->options, name)->origin >= TD_ORIGIN_SET, TD_ERR_CONFIG,
                     "%s is part of the checkpoint, and cannot be changed when it speaks; leave it out",
                     name);
    }
    return TD_OK;
}

td_status td_cli_open_stand_in(const char *model, td_registry **registry, const td_device_info **out)
{
    td_registry_options settings;
    td_registry_options_from_env(&settings);
    settings.sim_model = model;
    TD_CHECK(td_registry_open(&settings, registry));
    return td_registry_select(*registry, "sim:0", out);
}
