/* `tandem validate`: runs the checks of tools/validate.h on the chosen roles and shows them as they end, or
 * all at once as JSON. Covered by tests/cli/test_cli.py.
 */
#include <stdio.h>
#include <string.h>

#include "base/wrap.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/validate.h"

static const char *const STATUS_NAMES[] = {
    [TD_CHECK_PASS] = "pass", [TD_CHECK_FAIL] = "fail", [TD_CHECK_SKIP] = "skip"};

/* Context of show_check. */
typedef struct progress {
    const td_cli *cli;
    const td_check_group *group; /* the one whose heading was printed last */
} progress;

static void show_check(void *context, const td_check_group *group, const td_check *check)
{
    static const td_color COLORS[] = {
        [TD_CHECK_PASS] = TD_COLOR_GREEN, [TD_CHECK_FAIL] = TD_COLOR_RED, [TD_CHECK_SKIP] = TD_COLOR_YELLOW};
    progress *shown = context;
    if (shown->group != group) {
        td_cli_print_colored(shown->cli, TD_COLOR_BOLD, group->name, 0);
        putchar('\n');
        shown->group = group;
    }
    fputs("  ", stdout);
    td_cli_print_colored(shown->cli, COLORS[check->status], STATUS_NAMES[check->status], 6);
    char line[sizeof check->name + sizeof check->detail + 2];
    snprintf(line, sizeof line, "%s%s%s", check->name, *check->detail ? ": " : "", check->detail);
    td_wrap_write(stdout, line, 8, 8, shown->cli->columns);
    fflush(stdout);
}

static void put_check(td_json *json, const td_check *check)
{
    td_json_begin_object(json);
    td_json_put_string(json, "name", check->name);
    td_json_put_string(json, "status", STATUS_NAMES[check->status]);
    td_json_put_string(json, "detail", check->detail);
    td_json_end_object(json);
}

static void put_group(td_json *json, const td_check_group *group)
{
    td_json_begin_object(json);
    td_json_put_string(json, "name", group->name);
    td_json_put_array(json, "checks");
    for (size_t i = 0; i < group->count; i++)
        put_check(json, &group->checks[i]);
    td_json_end_array(json);
    td_json_end_object(json);
}

static int print_json(const td_cli *cli, const td_roles *roles, const td_validation *validation, int code)
{
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    td_json_put_string(json, "mode", td_roles_mode_name(roles->mode));
    td_json_put_string(json, "data", roles->data->selector);
    td_json_put_string(json, "model", roles->model->selector);
    td_json_put_bool(json, "simulated",
                     roles->data->type == TD_DEVICE_SIM || roles->model->type == TD_DEVICE_SIM);
    td_json_put_array(json, "groups");
    for (size_t i = 0; i < TD_VALIDATE_GROUPS; i++)
        put_group(json, &validation->groups[i]);
    td_json_end_array(json);
    td_json_put_uint(json, "passed", validation->passed);
    td_json_put_uint(json, "failed", validation->failed);
    td_json_put_uint(json, "skipped", validation->skipped);
    td_json_put_uint(json, "kernel_builds", validation->kernel_builds);
    return td_cli_print_json(cli, json, code);
}

static int run_checks(const td_cli *cli, td_registry *registry, const td_roles *roles)
{
    progress shown = {.cli = cli};
    td_validation validation;
    const td_validate_request request = {
        .registry = registry,
        .roles = roles,
        .root = td_cli_system_root(),
        .isolation = td_cli_is_on(cli, "pipeline.enable_memory_isolation"),
        .data_limit_bytes = td_options_get(cli->options, "pipeline.data_gpu_memory")->bytes,
        .model_limit_bytes = td_options_get(cli->options, "pipeline.model_gpu_memory")->bytes,
        .on_check = cli->json ? NULL : show_check,
        .context = &shown,
    };
    memset(&validation, 0, sizeof validation);
    int code = TD_EXIT_DONE;
    if (td_validate_run(&request, &validation) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else {
        code = validation.failed > 0 ? TD_EXIT_FAILED : TD_EXIT_DONE;
        if (cli->json) {
            code = print_json(cli, roles, &validation, code);
        } else {
            td_printf("%u passed, %u failed, %u skipped; %llu kernels built\n", validation.passed,
                      validation.failed, validation.skipped, (unsigned long long)validation.kernel_builds);
        }
    }
    td_validation_clear(&validation);
    return code;
}

int td_cmd_validate(td_cli *cli)
{
    td_registry *registry;
    td_roles roles;
    int code;
    if (td_settings_open_registry(cli->options, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    if (td_settings_resolve_roles(cli->options, registry, &roles) != TD_OK)
        code = td_cli_fail(cli, registry);
    else
        code = run_checks(cli, registry, &roles);
    td_registry_close(registry);
    return code;
}
