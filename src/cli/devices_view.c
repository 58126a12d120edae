/* How devices are shown: a table for people, that fits the terminal or is left whole in a pipe, and a JSON
 * object with every field. Covered by tests/cli/test_cli.py.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "base/wrap.h"
#include "cli/cli.h"
#include "pipeline/topology.h"

enum { N_COLUMNS = 8, CELL_BYTES = 160, LAST_COLUMN_WIDTH = 24, NOTE_INDENT = 3 };

typedef struct device_row {
    char cells[N_COLUMNS][CELL_BYTES];
} device_row;

static const device_row HEAD = {
    {"#", "SELECTOR", "API", "TYPE", "MEMORY", "GROUP", "SELF-TEST", "DEVICE (DRIVER)"}};

const char *td_cli_api_name(td_api api)
{
    static const char *const NAMES[TD_API_COUNT] = {"OpenCL", "Vulkan", "sim"};
    return NAMES[api];
}

static const char *name_type(td_device_type type)
{
    static const char *const NAMES[] = {
        [TD_DEVICE_GPU] = "gpu",     [TD_DEVICE_IGPU] = "igpu", [TD_DEVICE_CPU] = "cpu",
        [TD_DEVICE_OTHER] = "other", [TD_DEVICE_SIM] = "sim",
    };
    return NAMES[type];
}

static const char *name_selftest(const td_device_info *info)
{
    if (!info->usable) return "-";
    if (!info->selftest_done) return "not run";
    return info->selftest_passed ? "passed" : "failed";
}

static void fill_row(const td_device_info *info, device_row *row)
{
    char memory[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(info->caps.memory_bytes, memory);
    snprintf(row->cells[0], CELL_BYTES, "%d", info->index);
    snprintf(row->cells[1], CELL_BYTES, "%s", info->selector);
    snprintf(row->cells[2], CELL_BYTES, "%s", td_cli_api_name(info->api));
    snprintf(row->cells[3], CELL_BYTES, "%s", name_type(info->type));
    snprintf(row->cells[4], CELL_BYTES, "%s", memory);
    snprintf(row->cells[5], CELL_BYTES, "%u", info->phys_group);
    snprintf(row->cells[6], CELL_BYTES, "%s", name_selftest(info));
    snprintf(row->cells[7], CELL_BYTES, "%.90s (%.60s)", info->name, info->driver);
}

static void widen(const device_row *row, size_t widths[N_COLUMNS])
{
    for (size_t c = 0; c < N_COLUMNS; c++) {
        const size_t width = td_wrap_width(row->cells[c]);
        if (width > widths[c]) widths[c] = width;
    }
}

/* One line; on a terminal too narrow for the last cell that one has a line of its own. */
static void print_row(const td_cli *cli, FILE *file, const device_row *row, const size_t widths[N_COLUMNS])
{
    char line[N_COLUMNS * (CELL_BYTES + 2)];
    size_t used = 0, width = 0;
    for (size_t c = 0; c + 1 < N_COLUMNS; c++) {
        const size_t padding = widths[c] - td_wrap_width(row->cells[c]) + 2;
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%*s", row->cells[c], (int)padding, "");
        width += widths[c] + 2;
    }
    const bool is_narrow = cli->columns && cli->columns < width + LAST_COLUMN_WIDTH;
    if (is_narrow) {
        td_wrap_cut(file, line, cli->columns);
        fprintf(file, "\n%*s", NOTE_INDENT, "");
        td_wrap_cut(file, row->cells[N_COLUMNS - 1], cli->columns - NOTE_INDENT);
    } else {
        snprintf(line + used, sizeof line - used, "%s", row->cells[N_COLUMNS - 1]);
        td_wrap_cut(file, line, cli->columns);
    }
    fputc('\n', file);
}

static void print_note(const td_cli *cli, FILE *file, const char *head, const char *text)
{
    char line[512];
    snprintf(line, sizeof line, "%s: %s", head, text);
    fprintf(file, "%*s", NOTE_INDENT, "");
    td_wrap_write(file, line, NOTE_INDENT, NOTE_INDENT, cli->columns);
}

/* What does not fit a column: where it sits, why it cannot be used, what the self-test switched off, its
 * number before. */
static void print_notes(const td_cli *cli, FILE *file, const td_device_info *info)
{
    td_topology place;
    char text[TD_TOPOLOGY_TEXT_BYTES];
    td_topology_read(td_cli_system_root(), info, &place);
    td_topology_describe(&place, text);
    if (*text) print_note(cli, file, "link", text);
    if (*info->reason) print_note(cli, file, info->usable ? "note" : "not usable", info->reason);
    if (info->index != info->given_index) {
        char number[16];
        snprintf(number, sizeof number, "%d", info->given_index);
        print_note(cli, file, "number without TANDEM_VISIBLE_DEVICES", number);
    }
}

static void print_table(const td_cli *cli, const td_registry *registry, FILE *file)
{
    size_t widths[N_COLUMNS] = {0};
    device_row row;
    const size_t count = td_registry_count(registry);
    widen(&HEAD, widths);
    for (size_t i = 0; i < count; i++) {
        fill_row(td_registry_info(registry, i), &row);
        widen(&row, widths);
    }
    print_row(cli, file, &HEAD, widths);
    for (size_t i = 0; i < count; i++) {
        const td_device_info *info = td_registry_info(registry, i);
        fill_row(info, &row);
        print_row(cli, file, &row, widths);
        print_notes(cli, file, info);
    }
}

/* About the two best cards, where there are two. */
static void print_pair(const td_cli *cli, const td_registry *registry, FILE *file)
{
    const td_device_info *model = NULL, *data = NULL;
    td_topology topologies[2];
    char judgement[TD_TOPOLOGY_PAIR_BYTES], line[TD_TOPOLOGY_PAIR_BYTES + 256];
    for (size_t i = 0; i < td_registry_count(registry); i++) {
        const td_device_info *info = td_registry_info(registry, i);
        const bool is_same_card = (model && model->phys_group == info->phys_group) ||
                                  (data && data->phys_group == info->phys_group);
        if (info->type != TD_DEVICE_GPU || !info->usable || is_same_card) continue;
        if (!model || td_topology_stronger(model, info) == info) {
            data = model;
            model = info;
        } else if (!data || td_topology_stronger(data, info) == info) {
            data = info;
        }
    }
    if (!data) return;
    td_topology_read(td_cli_system_root(), data, &topologies[0]);
    td_topology_read(td_cli_system_root(), model, &topologies[1]);
    td_topology_judge(data, &topologies[0], model, &topologies[1], judgement);
    snprintf(line, sizeof line, "As a pair: --data-device %s --model-device %s%s%s", data->selector,
             model->selector, *judgement ? "; " : "", judgement);
    td_wrap_write(file, line, 0, NOTE_INDENT, cli->columns);
}

void td_cli_print_devices(const td_cli *cli, const td_registry *registry, FILE *file)
{
    if (td_registry_count(registry) > 0) {
        print_table(cli, registry, file);
        print_pair(cli, registry, file);
    } else {
        const bool is_filtered = getenv("TANDEM_VISIBLE_DEVICES") != NULL;
        fprintf(file, "%s\n",
                is_filtered ? "No device is visible: TANDEM_VISIBLE_DEVICES is set; unset it."
                            : "No device was found.");
    }
    for (int api = TD_API_OPENCL; api <= TD_API_VULKAN; api++) {
        char line[512];
        const td_api_report *report = td_registry_report(registry, (td_api)api);
        if (!*report->message) continue;
        snprintf(line, sizeof line, "%s: %s", td_cli_api_name((td_api)api), report->message);
        td_wrap_write(file, line, 0, NOTE_INDENT, cli->columns);
    }
}

/* ---------------------------------------------------------------- JSON */

static void put_index(td_json *json, const char *key, int value)
{
    td_json_key(json, key);
    if (value < 0)
        td_json_null(json);
    else
        td_json_int(json, value);
}

static void put_caps(td_json *json, const td_device_caps *caps)
{
    td_json_put_object(json, "caps");
#define NUMBER(field) td_json_put_uint(json, #field, caps->field)
#define TRUTH(field) td_json_put_bool(json, #field, caps->field)
    NUMBER(memory_bytes);
    NUMBER(max_alloc_bytes);
    NUMBER(max_binding_bytes);
    NUMBER(host_import_align);
    NUMBER(offset_align);
    NUMBER(max_group_size);
    NUMBER(max_group_count);
    NUMBER(local_memory_bytes);
    NUMBER(compute_units);
    NUMBER(vector_width);
    NUMBER(subgroup_min);
    NUMBER(subgroup_max);
    NUMBER(max_params_bytes);
    NUMBER(max_buffers);
    TRUTH(local_memory_real);
    TRUTH(unified_memory);
    TRUTH(copy_queue);
    TRUTH(host_import);
    TRUTH(timestamps);
    TRUTH(fp16_storage);
    TRUTH(fp16_math);
    TRUTH(fp64);
    TRUTH(int64);
    TRUTH(float_atomics);
#undef NUMBER
#undef TRUTH
    td_json_put_double(json, "estimated_gflops", caps->estimated_gflops);
    td_json_put_double(json, "estimated_gbps", caps->estimated_gbps);
    td_json_put_double(json, "link_gbps", caps->link_gbps);
    td_json_end_object(json);
}

static void put_link(td_json *json, const char *key, td_link link)
{
    td_json_put_object(json, key);
    td_json_put_double(json, "gt_per_s", link.gts);
    td_json_put_uint(json, "width", link.width);
    td_json_put_double(json, "gb_per_s", td_link_gbps(link));
    td_json_end_object(json);
}

static void put_place(td_json *json, const td_device_info *info)
{
    td_topology place;
    td_topology_read(td_cli_system_root(), info, &place);
    td_json_key(json, "topology");
    if (!place.is_known) {
        td_json_null(json);
        return;
    }
    td_json_begin_object(json);
    td_json_put_string(json, "root", place.root);
    td_json_put_string(json, "root_port", *place.port ? place.port : NULL);
    put_index(json, "numa_node", place.numa_node);
    put_link(json, "link", place.at_most);
    put_link(json, "link_now", place.now);
    td_json_end_object(json);
}

void td_cli_device_json(td_json *json, const td_device_info *info)
{
    char text[2 * sizeof info->uuid + 1];
    td_json_begin_object(json);
    put_index(json, "index", info->index);
    put_index(json, "given_index", info->given_index);
    td_json_put_string(json, "selector", info->selector);
    td_json_put_string(json, "api", td_api_word(info->api));
    td_json_put_string(json, "api_version", info->api_version);
    td_json_put_string(json, "type", name_type(info->type));
    td_json_put_string(json, "name", info->name);
    td_json_put_string(json, "vendor", info->vendor);
    td_json_put_uint(json, "vendor_id", info->vendor_id);
    td_json_put_uint(json, "device_id", info->device_id);
    td_json_put_string(json, "platform_name", info->platform_name);
    td_json_put_uint(json, "platform", info->platform);
    td_json_put_uint(json, "ordinal", info->ordinal);
    td_json_put_string(json, "driver", info->driver);
    td_json_put_uint(json, "phys_group", info->phys_group);
    for (size_t i = 0; i < sizeof info->uuid; i++)
        snprintf(text + 2 * i, 3, "%02x", info->uuid[i]);
    td_json_put_string(json, "uuid", info->has_uuid ? text : NULL);
    snprintf(text, sizeof text, "%04x:%02x:%02x.%x", info->pci.domain, info->pci.bus, info->pci.device,
             info->pci.function);
    td_json_put_string(json, "pci", info->has_pci ? text : NULL);
    put_place(json, info);
    td_json_put_bool(json, "usable", info->usable);
    td_json_put_string(json, "reason", info->reason);
    td_json_put_string(json, "selftest",
                       !info->selftest_done    ? "not run"
                       : info->selftest_passed ? "passed"
                                               : "failed");
    put_caps(json, &info->caps);
    td_json_end_object(json);
}
