/* What many commands begin with: values of options, and a device that stands in for one of this computer.
 * Covered by tests/cli/test_cli.py.
 */
#include <stdlib.h>

#include "base/error.h"
#include "cli/cli.h"

const char *td_cli_system_root(void)
{
    const char *root = getenv("TANDEM_SYSTEM_ROOT");
    return root ? root : "";
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

td_status td_cli_open_stand_in(const char *model, td_registry **registry, const td_device_info **out)
{
    td_registry_options settings;
    td_registry_options_from_env(&settings);
    settings.sim_model = model;
    TD_CHECK(td_registry_open(&settings, registry));
    return td_registry_select(*registry, "sim:0", out);
}
