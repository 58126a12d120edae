/* `tandem validate`: the five groups of checks on a pair of devices. This file runs prerequisites and
 * placement and records the results; the other groups are in validate_model.c, validate_transfer.c and
 * validate_pipeline.c. A failed check never ends the run: what depends on it is skipped with the reason.
 * Prints nothing; cli/cmd_validate.c does. Covered by tests/device/test_validate.c. */
#include "tools/validate.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/text.h"
#include "pipeline/topology.h"
#include "tandem/memory.h"
#include "tools/validate_internal.h"

static const char *const GROUP_NAMES[TD_VALIDATE_GROUPS] = {"prerequisites", "placement", "model", "transfer",
                                                            "pipeline"};

static const char *const ROLE_NAMES[2] = {"data", "model"};

#define LEAST_MEMORY_BYTES (UINT64_C(256) << 20)
#define LEAST_GROUP_SIZE 128u
#define LEAST_PARAMS_BYTES 128u
#define DESCRIPTION_BYTES 192
#define TRIAL_LIMIT_BYTES (UINT64_C(1) << 20)

td_status td_validate_note(td_validate_run_state *run, td_validate_group group, td_check_status verdict,
                           const char *name, const char *format, ...)
{
    td_check_group *into = &run->out->groups[group];
    const td_status status =
        td_alloc_grow(&into->checks, &into->capacity, into->count + 1, sizeof *into->checks);
    if (status != TD_OK) return status;
    td_check *check = &into->checks[into->count++];
    snprintf(check->name, sizeof check->name, "%s", name);
    check->status = verdict;
    va_list args;
    va_start(args, format);
    vsnprintf(check->detail, sizeof check->detail, format, args);
    va_end(args);
    run->out->passed += verdict == TD_CHECK_PASS;
    run->out->failed += verdict == TD_CHECK_FAIL;
    run->out->skipped += verdict == TD_CHECK_SKIP;
    if (run->request->on_check) run->request->on_check(run->request->context, into, check);
    return TD_OK;
}

/* Notes the outcome of a call: a pass with the given detail, or a failure with the error's message. */
td_status td_validate_note_call(td_validate_run_state *run, td_validate_group group, td_status outcome,
                                const char *name, const char *detail)
{
    if (outcome == TD_OK) return td_validate_note(run, group, TD_CHECK_PASS, name, "%s", detail);
    return td_validate_note(run, group, TD_CHECK_FAIL, name, "%s", td_error_last()->message);
}

/* ---------------------------------------------------------------- 1 prerequisites */

static td_status check_loader(td_validate_run_state *run, td_api api, const char *name)
{
    const td_api_report *report = td_registry_report(run->request->registry, api);
    if (report->loaded && report->devices > 0) {
        return td_validate_note(run, TD_VALIDATE_PREREQUISITES, TD_CHECK_PASS, name, "%s, %u device%s",
                                report->library, report->devices, report->devices == 1 ? "" : "s");
    }
    return td_validate_note(run, TD_VALIDATE_PREREQUISITES, TD_CHECK_SKIP, name, "%s", report->message);
}

static td_status check_limits(td_validate_run_state *run, int role)
{
    const td_device_info *info = run->infos[role];
    const td_device_caps *caps = &info->caps;
    char name[64];
    char memory[TD_TEXT_FORMAT_BYTES];
    char binding[TD_TEXT_FORMAT_BYTES];
    snprintf(name, sizeof name, "%s device limits", ROLE_NAMES[role]);
    td_text_format_bytes(caps->memory_bytes, memory);
    td_text_format_bytes(caps->max_binding_bytes, binding);
    const bool enough = caps->memory_bytes >= LEAST_MEMORY_BYTES &&
                        caps->max_group_size >= LEAST_GROUP_SIZE &&
                        caps->max_params_bytes >= LEAST_PARAMS_BYTES && caps->max_buffers >= 8;
    return td_validate_note(
        run, TD_VALIDATE_PREREQUISITES, enough ? TD_CHECK_PASS : TD_CHECK_FAIL, name,
        "%s: memory %s, largest binding %s, work-group %u, parameters %u bytes, %u buffers%s", info->name,
        memory, binding, caps->max_group_size, caps->max_params_bytes, caps->max_buffers,
        enough ? "" : "; needed: 256 MiB, 128, 128 bytes, 8; choose another device");
}

static td_status check_prerequisites(td_validate_run_state *run)
{
    TD_CHECK(check_loader(run, TD_API_OPENCL, "OpenCL loader and drivers"));
    TD_CHECK(check_loader(run, TD_API_VULKAN, "Vulkan loader and drivers"));
    for (int role = run->n_roles == 1; role < 2; role++)
        TD_CHECK(check_limits(run, role));
    const td_status opened =
        td_devices_open(run->request->registry, run->opened_infos, (size_t)run->n_roles, run->opened);
    char detail[320];
    if (opened == TD_OK) {
        run->devices[1] = run->opened[run->n_roles - 1];
        run->devices[0] = run->opened[0];
        snprintf(detail, sizeof detail, "%s%s%s: computes right", td_device_get_info(run->opened[0])->name,
                 run->n_roles == 2 ? " and " : "",
                 run->n_roles == 2 ? td_device_get_info(run->opened[1])->name : "");
    }
    return td_validate_note_call(run, TD_VALIDATE_PREREQUISITES, opened, "open and self-test", detail);
}

/* ---------------------------------------------------------------- 2 placement */

/* Name and numbers of a device: the one the user gave, and the one after others were hidden. */
static void describe(const td_device_info *info, char out[DESCRIPTION_BYTES])
{
    if (info->api == TD_API_SIM) {
        snprintf(out, DESCRIPTION_BYTES, "%s (simulated)", info->name);
    } else {
        snprintf(out, DESCRIPTION_BYTES, "%s (given %d, inner %d)", info->name, info->given_index,
                 info->index);
    }
}

static td_status check_roles(td_validate_run_state *run)
{
    const bool one_silicon = run->infos[0]->phys_group == run->infos[1]->phys_group;
    char data[DESCRIPTION_BYTES];
    char model[DESCRIPTION_BYTES];
    describe(run->infos[0], data);
    describe(run->infos[1], model);
    if (run->n_roles == 1) {
        return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_PASS, "roles",
                                "single-device: both roles on %s", model);
    }
    return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_PASS, "roles",
                            "two-device: data on %s, model on %s%s", data, model,
                            one_silicon ? "; they share silicon, so they also share its speed" : "");
}

/* The printed selector must lead back to the same device. */
static td_status check_selector(td_validate_run_state *run, int role)
{
    const td_device_info *info = run->infos[role];
    const td_device_info *found = NULL;
    char name[64];
    snprintf(name, sizeof name, "%s selector", ROLE_NAMES[role]);
    const td_status status = td_registry_select(run->request->registry, info->selector, &found);
    if (status == TD_OK && found != info) {
        return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_FAIL, name, "%s leads to %s, not to %s",
                                info->selector, found->name, info->name);
    }
    return td_validate_note_call(run, TD_VALIDATE_PLACEMENT, status, name, info->selector);
}

/* A role's limit must hold: memory inside it is given, memory past it is refused as such. */
static td_status try_limit(td_device *device)
{
    td_memory *memory = NULL;
    td_span inside = {0};
    td_span outside = {0};
    td_memory_stats stats;
    td_status status = TD_OK;
    TD_TRY(td_memory_create(device, "trial", TRIAL_LIMIT_BYTES, &memory));
    TD_TRY(td_memory_alloc(memory, TD_MEMORY_DEVICE, TRIAL_LIMIT_BYTES / 2, &inside));
    const td_status refused = td_memory_alloc(memory, TD_MEMORY_DEVICE, TRIAL_LIMIT_BYTES, &outside);
    TD_FAIL_IF(refused != TD_ERR_LIMIT, TD_ERR_LIMIT,
               "memory past a limit of %" PRIu64 " bytes was not refused", TRIAL_LIMIT_BYTES);
    td_memory_get_stats(memory, &stats);
    TD_FAIL_IF(stats.peak_reserved_bytes > TRIAL_LIMIT_BYTES, TD_ERR_LIMIT,
               "%" PRIu64 " bytes were taken under a limit of %" PRIu64, stats.peak_reserved_bytes,
               TRIAL_LIMIT_BYTES);
fail:
    td_memory_destroy(memory);
    return status;
}

static td_status check_isolation(td_validate_run_state *run, int role)
{
    const uint64_t limit = role == 0 ? run->request->data_limit_bytes : run->request->model_limit_bytes;
    const uint64_t memory = run->infos[role]->caps.memory_bytes;
    char name[64];
    char asked[TD_TEXT_FORMAT_BYTES];
    char there[TD_TEXT_FORMAT_BYTES];
    char detail[160];
    snprintf(name, sizeof name, "%s memory limit", ROLE_NAMES[role]);
    td_text_format_bytes(limit, asked);
    td_text_format_bytes(memory, there);
    if (run->request->isolation && limit > memory) {
        return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_FAIL, name,
                                "the limit of %s is more than the %s of %s; lower --%s-gpu-memory", asked,
                                there, run->infos[role]->name, ROLE_NAMES[role]);
    }
    if (run->request->isolation) {
        snprintf(detail, sizeof detail, "enforced: %s of %s", asked, there);
    } else {
        snprintf(detail, sizeof detail,
                 "none set, can be enforced (--enable-memory-isolation); the device has %s", there);
    }
    return td_validate_note_call(run, TD_VALIDATE_PLACEMENT, try_limit(run->devices[role]), name, detail);
}

/* What could be better is said, and is not a failure: the pair works. */
static td_status check_topology(td_validate_run_state *run)
{
    const char *root = run->request->root ? run->request->root : "";
    td_topology topologies[2];
    char text[2][TD_TOPOLOGY_TEXT_BYTES], judgement[TD_TOPOLOGY_PAIR_BYTES];
    for (int role = 0; role < 2; role++) {
        td_topology_read(root, run->infos[role], &topologies[role]);
        td_topology_describe(&topologies[role], text[role]);
        if (!topologies[role].is_known) snprintf(text[role], sizeof text[role], "no PCI device");
    }
    if (run->n_roles == 1)
        return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_PASS, "topology", "%s", text[1]);
    td_topology_judge(run->infos[0], &topologies[0], run->infos[1], &topologies[1], judgement);
    return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_PASS, "topology",
                            "data: %.90s. model: %.90s.%s%.300s", text[0], text[1],
                            judgement[0] ? " But " : "", judgement);
}

static td_status check_placement(td_validate_run_state *run)
{
    TD_CHECK(check_roles(run));
    TD_CHECK(check_topology(run));
    for (int role = run->n_roles == 1; role < 2; role++)
        TD_CHECK(check_selector(run, role));
    if (!run->devices[1]) {
        return td_validate_note(run, TD_VALIDATE_PLACEMENT, TD_CHECK_SKIP, "memory limits",
                                "the devices could not be opened");
    }
    for (int role = run->n_roles == 1; role < 2; role++)
        TD_CHECK(check_isolation(run, role));
    return TD_OK;
}

/* ---------------------------------------------------------------- the run */

/* What a group could not set up (its device was lost in the one before, say) is a check that failed too. */
static td_status check_group(td_validate_run_state *run, td_validate_group group,
                             td_status (*check)(td_validate_run_state *run))
{
    const td_status status = check(run);
    if (status == TD_OK || status == TD_ERR_HOST_MEMORY) return status;
    return td_validate_note_call(run, group, status, "set-up", "");
}

static td_status check_all(td_validate_run_state *run)
{
    TD_CHECK(check_prerequisites(run));
    TD_CHECK(check_placement(run));
    if (run->devices[1]) {
        TD_CHECK(check_group(run, TD_VALIDATE_MODEL, td_validate_model));
        TD_CHECK(check_group(run, TD_VALIDATE_TRANSFER, td_validate_transfer));
        TD_CHECK(check_group(run, TD_VALIDATE_PIPELINE, td_validate_pipeline));
        return TD_OK;
    }
    for (int group = TD_VALIDATE_MODEL; group <= TD_VALIDATE_PIPELINE; group++)
        TD_CHECK(td_validate_note(run, (td_validate_group)group, TD_CHECK_SKIP, GROUP_NAMES[group],
                                  "the devices could not be opened"));
    return TD_OK;
}

td_status td_validate_run(const td_validate_request *request, td_validation *out)
{
    const td_roles *roles = request->roles;
    td_validate_run_state run = {.request = request,
                                 .out = out,
                                 .infos = {roles->data, roles->model},
                                 .n_roles = roles->data == roles->model ? 1 : 2};
    *out = (td_validation){0};
    for (int group = 0; group < TD_VALIDATE_GROUPS; group++)
        snprintf(out->groups[group].name, sizeof out->groups[group].name, "%s", GROUP_NAMES[group]);
    run.opened_infos[0] = run.infos[run.n_roles == 1];
    run.opened_infos[1] = run.infos[1];
    const td_status status = check_all(&run);
    for (int i = 0; i < run.n_roles; i++) {
        if (!run.opened[i]) continue;
        out->kernel_builds += td_device_kernel_builds(run.opened[i]);
        td_device_close(run.opened[i]);
    }
    if (status != TD_OK) td_validation_clear(out);
    return status;
}

void td_validation_clear(td_validation *validation)
{
    for (int group = 0; group < TD_VALIDATE_GROUPS; group++)
        free(validation->groups[group].checks);
    *validation = (td_validation){0};
}
