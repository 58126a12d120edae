/* The registry: asks every backend for its devices, finds out which share silicon, hides what the user
 * hides, gives each its number and its lasting name. Selecting one is select.c; opening, device.c.
 * Covered by tests/device/test_registry.c. */
#include "device/registry_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "device/limits.h"
#include "device/selftest.h"

static const td_backend *const BACKENDS[TD_API_COUNT] = {
    [TD_API_OPENCL] = &td_backend_opencl,
    [TD_API_VULKAN] = &td_backend_vulkan,
    [TD_API_SIM] = &td_backend_sim,
};

const td_backend *td_registry_backend(td_api api)
{
    return BACKENDS[api];
}

static bool is_on(const char *variable)
{
    const char *value = getenv(variable);
    return value && strcmp(value, "1") == 0;
}

/* TANDEM_COMPILE_HELPERS; nothing where it is no number. */
static uint32_t read_helpers(void)
{
    const char *value = getenv("TANDEM_COMPILE_HELPERS");
    uint64_t count = 0;
    return value && td_text_parse_u64(value, &count) == TD_OK && count < UINT32_MAX ? (uint32_t)count : 0;
}

void td_registry_options_from_env(td_registry_options *options)
{
    *options = (td_registry_options){
        .visible = getenv("TANDEM_VISIBLE_DEVICES"),
        .cache_dir = getenv("TANDEM_CACHE_DIR"),
        .sim_model = getenv("TANDEM_SIM"),
        .opencl_library = getenv("TANDEM_OPENCL_LIBRARY"),
        .vulkan_library = getenv("TANDEM_VULKAN_LIBRARY"),
        .validation = is_on("TANDEM_VALIDATION"),
        .gpu_kernels = is_on("TANDEM_GPU_KERNELS"),
        .store_binaries = is_on("TANDEM_STORE_BINARIES"),
        .compile_helpers = read_helpers(),
    };
}

td_status td_info_list_add(td_info_list *list, td_device_info **out)
{
    const td_status status =
        td_alloc_grow(&list->items, &list->capacity, list->count + 1, sizeof *list->items);
    if (status != TD_OK) return status;
    *out = &list->items[list->count++];
    **out = (td_device_info){.index = -1, .given_index = -1};
    return TD_OK;
}

/* ---------------------------------------------------------------- identity */

static bool same_silicon(const td_device_info *a, const td_device_info *b)
{
    if (a->type == TD_DEVICE_SIM || b->type == TD_DEVICE_SIM) return false;
    if (a->type == TD_DEVICE_CPU || b->type == TD_DEVICE_CPU) return a->type == b->type;
    if (a->has_pci && b->has_pci) return memcmp(&a->pci, &b->pci, sizeof a->pci) == 0;
    return a->has_uuid && b->has_uuid && memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0;
}

static void group_by_silicon(td_info_list *list)
{
    uint32_t groups = 0;
    for (size_t i = 0; i < list->count; i++) {
        size_t same = 0;
        while (same < i && !same_silicon(&list->items[same], &list->items[i]))
            same++;
        list->items[i].phys_group = same < i ? list->items[same].phys_group : groups++;
    }
}

/* How many earlier devices of the list share this one's API and platform (or driver) name. */
static uint32_t count_siblings(const td_info_list *list, size_t position)
{
    uint32_t siblings = 0;
    for (size_t i = 0; i < position; i++) {
        siblings += list->items[i].api == list->items[position].api &&
                    strcmp(list->items[i].platform_name, list->items[position].platform_name) == 0;
    }
    return siblings;
}

/* PCI addresses survive reboots and driver updates; without one, the platform's name and a number. */
static void name_lastingly(const td_info_list *list, size_t position)
{
    td_device_info *info = &list->items[position];
    static const char *const PREFIX[TD_API_COUNT] = {"cl", "vk", "sim"};
    if (info->api == TD_API_SIM) {
        snprintf(info->selector, sizeof info->selector, "sim:%u", info->ordinal);
    } else if (info->has_pci) {
        snprintf(info->selector, sizeof info->selector, "pci:%04x:%02x:%02x.%x/%s", info->pci.domain,
                 info->pci.bus, info->pci.device, info->pci.function, PREFIX[info->api]);
    } else {
        char slug[64];
        td_text_slug(info->platform_name, slug, sizeof slug);
        snprintf(info->selector, sizeof info->selector, "%s:%s.%u", PREFIX[info->api], slug,
                 count_siblings(list, position));
    }
}

/* ---------------------------------------------------------------- visibility */

/* Parses "2,3" into the list's given indices, in the order of the text. */
static td_status parse_visible(const char *text, size_t n_real, size_t *positions, size_t *count)
{
    char copy[256];
    char *rest = copy;
    *count = 0;
    TD_REFUSE_IF(strlen(text) >= sizeof copy, TD_ERR_CONFIG,
                 "TANDEM_VISIBLE_DEVICES is longer than %zu characters", sizeof copy - 1);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *word = strsep(&rest, ","); word; word = strsep(&rest, ",")) {
        uint64_t index = 0;
        if (*word == '\0' && *text == '\0') break; /* empty: hide all */
        TD_REFUSE_IF(td_text_parse_u64(word, &index) != TD_OK, TD_ERR_CONFIG,
                     "TANDEM_VISIBLE_DEVICES=%s: \"%s\" is not a device number; give numbers of `tandem "
                     "devices` separated by commas, as in 0,1",
                     text, word);
        TD_REFUSE_IF(
            index >= n_real, TD_ERR_CONFIG,
            "TANDEM_VISIBLE_DEVICES=%s: there is no device %llu; unset it and run `tandem devices` to "
            "see the %zu there are",
            text, (unsigned long long)index, n_real);
        for (size_t i = 0; i < *count; i++) {
            TD_REFUSE_IF(positions[i] == index, TD_ERR_CONFIG,
                         "TANDEM_VISIBLE_DEVICES=%s names device %llu twice", text,
                         (unsigned long long)index);
        }
        positions[(*count)++] = (size_t)index;
    }
    return TD_OK;
}

static void log_renumbering(const td_registry *registry)
{
    for (size_t i = 0; i < registry->n_visible; i++) {
        const td_device_info *info = &registry->infos.items[i];
        td_log_info("device %d is now number %d: %s", info->given_index, info->index, info->name);
    }
}

/* Moves the visible devices to the front in the user's order and renumbers them. */
static td_status hide_others(td_registry *registry, const char *visible)
{
    td_device_info *ordered = NULL;
    size_t *positions = NULL;
    size_t count = 0;
    size_t n_real = registry->n_real;
    td_device_info *items = registry->infos.items;
    td_status status = TD_OK;
    TD_TRY(TD_NEW_ARRAY(&ordered, n_real));
    TD_TRY(TD_NEW_ARRAY(&positions, n_real + 1));
    TD_TRY(parse_visible(visible, n_real, positions, &count));
    for (size_t i = 0; i < n_real; i++)
        items[i].index = -1;
    for (size_t i = 0; i < count; i++) {
        items[positions[i]].index = (int)i;
        ordered[i] = items[positions[i]];
    }
    size_t next = count;
    for (size_t i = 0; i < n_real; i++)
        if (items[i].index < 0) ordered[next++] = items[i];
    if (n_real) memcpy(items, ordered, n_real * sizeof *items);
    registry->n_visible = count;
    log_renumbering(registry);
fail:
    free(ordered);
    free(positions);
    return status;
}

/* ---------------------------------------------------------------- opening */

static td_status probe_backend(td_registry *registry, td_api api, const td_registry_options *options)
{
    const size_t before = registry->infos.count;
    td_api_report *report = &registry->reports[api];
    const td_status status = BACKENDS[api]->probe(options, &registry->infos, report, &registry->states[api]);
    if (status != TD_OK) return status;
    report->devices = (uint32_t)(registry->infos.count - before);
    return TD_OK;
}

td_status td_registry_open(const td_registry_options *options, td_registry **out)
{
    static const td_registry_options DEFAULTS = {0};
    if (!options) options = &DEFAULTS;
    td_registry *registry = NULL;
    char cache_dir[TD_FILE_PATH_BYTES];
    td_status status = TD_OK;
    *out = NULL;
    TD_TRY(TD_NEW(&registry));
    /* Without a folder for a cache (no home directory) work goes on without one. */
    const bool has_dir = td_file_cache_dir(options->cache_dir, cache_dir) == TD_OK;
    if (!has_dir) td_log_warn("%s; nothing will be cached", td_error_last()->message);
    TD_TRY(td_blob_cache_open(has_dir ? cache_dir : NULL, &registry->cache));

    TD_TRY(probe_backend(registry, TD_API_OPENCL, options));
    TD_TRY(probe_backend(registry, TD_API_VULKAN, options));
    registry->n_visible = registry->n_real = registry->infos.count;
    TD_TRY(probe_backend(registry, TD_API_SIM, options));

    group_by_silicon(&registry->infos);
    for (size_t i = 0; i < registry->infos.count; i++) {
        td_device_info *info = &registry->infos.items[i];
        if (i < registry->n_real) info->index = info->given_index = (int)i;
        info->gpu_kernels = info->type != TD_DEVICE_CPU || options->gpu_kernels;
        name_lastingly(&registry->infos, i);
        td_limits_judge(info);
        if (info->usable) td_selftest_recall(registry->cache, info);
    }
    if (options->visible) TD_TRY(hide_others(registry, options->visible));
    *out = registry;
    return TD_OK;
fail:
    td_registry_close(registry);
    return status;
}

void td_registry_close(td_registry *registry)
{
    if (!registry) return;
    for (int api = 0; api < TD_API_COUNT; api++)
        BACKENDS[api]->unload(registry->states[api]);
    td_blob_cache_close(registry->cache);
    free(registry->infos.items);
    free(registry);
}

size_t td_registry_count(const td_registry *registry)
{
    return registry->n_visible;
}

const td_device_info *td_registry_info(const td_registry *registry, size_t position)
{
    return position < registry->n_visible ? &registry->infos.items[position] : NULL;
}

const td_api_report *td_registry_report(const td_registry *registry, td_api api)
{
    return &registry->reports[api];
}

uint64_t td_registry_validation_messages(const td_registry *registry)
{
    uint64_t messages = 0;
    for (int api = 0; api < TD_API_COUNT; api++)
        if (BACKENDS[api]->validation_messages)
            messages += BACKENDS[api]->validation_messages(registry->states[api]);
    return messages;
}
