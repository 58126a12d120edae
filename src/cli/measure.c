/* Commands that measure on one device: what they all do around the measurement itself. Covered by
 * tests/cli/test_cli.py. */
#include <stdio.h>

#include "base/error.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tandem/version.h"

void td_cli_put_build(td_json *json)
{
    td_json_put_string(json, "build", TANDEM_VERSION " (" TD_BUILD_ID ")");
}

void td_cli_print_build(void)
{
    td_printf("build          %s (%s)\n", TANDEM_VERSION, TD_BUILD_ID);
}

void td_cli_put_setting(td_json *json, const td_device_info *info)
{
    char device[256];
    snprintf(device, sizeof device, "%s (%s)", info->name, info->selector);
    td_json_put_string(json, "device", device);
    td_json_put_string(json, "selector", info->selector);
    td_json_put_string(json, "driver", info->driver);
    td_json_put_bool(json, "simulated", info->type == TD_DEVICE_SIM);
    td_cli_put_build(json);
}

void td_cli_print_setting(const td_device_info *info)
{
    td_printf("device         %s (%s), driver %s\n", info->name, info->selector, info->driver);
    td_cli_print_build();
}

td_status td_cli_find_device(const td_cli *cli, const td_registry *registry, const td_device_info **out)
{
    const char *selector = td_cli_text(cli, "bench.device");
    if (!selector) return td_registry_select(registry, "any", out);
    if (td_registry_select(registry, selector, out) == TD_OK) return TD_OK;
    return TD_FAIL(TD_ERR_CONFIG, "%s", td_error_last()->message);
}

static int measure_as_json(const td_cli *cli, td_registry *registry, const td_device_info *info,
                           td_cli_measure *measure, void *context)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_cli_put_setting(json, info);
    if (measure(context, registry, info, json) != TD_OK) {
        td_json_destroy(json);
        return td_cli_fail(cli, NULL);
    }
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

/* The device that was chosen, or one that this computer need not have. */
static td_status open_device(const td_cli *cli, td_registry **registry, const td_device_info **info)
{
    const char *stand_in = td_cli_text(cli, "simulate-device");
    *registry = NULL;
    if (stand_in) return td_cli_open_stand_in(stand_in, registry, info);
    TD_CHECK(td_settings_open_registry(cli->options, registry));
    return td_cli_find_device(cli, *registry, info);
}

int td_cli_measure_device(const td_cli *cli, td_cli_measure *measure, void *context)
{
    td_registry *registry;
    const td_device_info *info;
    int code = TD_EXIT_DONE;
    if (open_device(cli, &registry, &info) != TD_OK)
        code = td_cli_fail(cli, registry);
    else if (cli->json)
        code = measure_as_json(cli, registry, info, measure, context);
    else if (measure(context, registry, info, NULL) != TD_OK)
        code = td_cli_fail(cli, NULL);
    td_registry_close(registry);
    return code;
}
