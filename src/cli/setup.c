/* From options to an open registry and resolved roles: what most commands begin with. Covered by
 * tests/cli/test_cli.py.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"

const char *td_cli_system_root(void)
{
    const char *root = getenv("TANDEM_SYSTEM_ROOT");
    return root ? root : "";
}

td_status td_cli_open_registry(const td_cli *cli, td_registry **out)
{
    td_registry_options settings;
    td_registry_options_from_env(&settings);
    const char *cache_dir = td_options_get(cli->options, "data.cache_dir")->text;
    if (cache_dir) settings.cache_dir = cache_dir;
    return td_registry_open(&settings, out);
}

td_status td_cli_resolve_roles(const td_cli *cli, const td_registry *registry, td_roles *out)
{
    const td_roles_request request = {
        .data_device = td_options_get(cli->options, "devices.data")->text,
        .model_device = td_options_get(cli->options, "devices.model")->text,
        .allow_same = td_options_get(cli->options, "devices.allow_same_device")->truth,
    };
    return td_roles_resolve(registry, &request, out);
}

td_status td_cli_open_stand_in(const char *model, td_registry **registry, const td_device_info **out)
{
    td_registry_options settings;
    td_status status = TD_OK;
    td_registry_options_from_env(&settings);
    settings.sim_model = model;
    TD_TRY(td_registry_open(&settings, registry));
    TD_TRY(td_registry_select(*registry, "sim:0", out));
fail:
    return status;
}
