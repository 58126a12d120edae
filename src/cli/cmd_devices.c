/* `tandem devices`: every device of the computer, and what to install where a loader or driver is missing.
 * Covered by tests/cli/test_cli.py.
 */
#include <stdio.h>

#include "cli/cli.h"
#include "settings/read.h"

/* Simulated device n, or NULL after the last. */
static const td_device_info *get_simulated(const td_registry *registry, uint32_t n)
{
    char selector[32];
    const td_device_info *info = NULL;
    if (n >= td_registry_report(registry, TD_API_SIM)->devices) return NULL;
    snprintf(selector, sizeof selector, "sim:%u", n);
    return td_registry_select(registry, selector, &info) == TD_OK ? info : NULL;
}

static void print_simulated(const td_registry *registry)
{
    const td_device_info *info;
    for (uint32_t n = 0; (info = get_simulated(registry, n)); n++)
        td_printf("%s%s", n ? ", " : "Simulated, never chosen by themselves: ", info->selector);
    if (get_simulated(registry, 0)) putchar('\n');
}

static void put_apis(td_json *json, const td_registry *registry)
{
    td_json_put_array(json, "apis");
    for (int api = TD_API_OPENCL; api <= TD_API_VULKAN; api++) {
        const td_api_report *report = td_registry_report(registry, (td_api)api);
        td_json_begin_object(json);
        td_json_put_string(json, "api", td_api_word((td_api)api));
        td_json_put_bool(json, "loaded", report->loaded);
        td_json_put_uint(json, "devices", report->devices);
        td_json_put_string(json, "library", report->library);
        td_json_put_string(json, "message", report->message);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static int print_json(const td_cli *cli, const td_registry *registry)
{
    const td_device_info *info;
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_array(json, "devices");
    for (size_t i = 0; i < td_registry_count(registry); i++)
        td_cli_device_json(json, td_registry_info(registry, i));
    td_json_end_array(json);
    td_json_put_array(json, "simulated");
    for (uint32_t n = 0; (info = get_simulated(registry, n)); n++)
        td_cli_device_json(json, info);
    td_json_end_array(json);
    put_apis(json, registry);
    return td_cli_print_json(cli, json, TD_EXIT_DONE);
}

int td_cmd_devices(td_cli *cli)
{
    td_registry *registry;
    int code = TD_EXIT_DONE;
    if (td_settings_open_registry(cli->options, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (cli->json) {
        code = print_json(cli, registry);
    } else {
        td_cli_print_devices(cli, registry, stdout);
        print_simulated(registry);
    }
    td_registry_close(registry);
    return code;
}
