/* Selectors: from the text a user types to one device, or to a message that says what to type instead.
 * Covered by tests/device/test_registry.c. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "device/registry_internal.h"

#define SEE_LIST "run `tandem devices` to see the list"

/* A selector's form: decides whether a device is meant. `text` is what follows the prefix. */
typedef bool (*matcher)(const td_device_info *info, const char *text);

static bool matches_name(const td_device_info *info, const char *text)
{
    return *text && td_text_contains(info->name, text);
}

static bool matches_pci(const td_device_info *info, const char *text)
{
    unsigned domain = 0;
    unsigned bus = 0;
    unsigned device = 0;
    unsigned function = 0;
    char api[3] = "";
    int used = 0;
    if (!info->has_pci) return false;
    if (sscanf(text, "%x:%x:%x.%x%n/%2s", &domain, &bus, &device, &function, &used, api) < 4) return false;
    if (info->pci.domain != domain || info->pci.bus != bus || info->pci.device != device ||
        info->pci.function != function)
        return false;
    const char *rest = text + used;
    return *rest == '\0' || (strcmp(rest, "/cl") == 0 && info->api == TD_API_OPENCL) ||
           (strcmp(rest, "/vk") == 0 && info->api == TD_API_VULKAN);
}

static bool matches_uuid(const td_device_info *info, const char *text)
{
    char hex[2 * sizeof info->uuid + 1];
    for (size_t i = 0; i < sizeof info->uuid; i++)
        snprintf(hex + 2 * i, 3, "%02x", info->uuid[i]);
    return info->has_uuid && strcasecmp(hex, text) == 0;
}

/* "P.D" (numbers) or "NAME.D" (part of the platform's name, and a number among its devices), as in the
 * lasting names of name_lastingly; a bare number is D of Vulkan. */
static bool matches_place(const td_device_info *info, const char *text)
{
    const char *dot = strrchr(text, '.');
    uint64_t number = 0;
    if (!dot) {
        return info->api == TD_API_VULKAN && td_text_parse_u64(text, &number) == TD_OK &&
               number == info->ordinal;
    }
    char platform[64];
    uint64_t platform_number = 0;
    snprintf(platform, sizeof platform, "%.*s", (int)(dot - text), text);
    if (td_text_parse_u64(dot + 1, &number) != TD_OK) return false;
    if (td_text_parse_u64(platform, &platform_number) == TD_OK)
        return platform_number == info->platform && number == info->ordinal;
    const char *own = strrchr(info->selector, '.');
    uint64_t own_number = info->ordinal;
    if (!info->has_pci && own) (void)td_text_parse_u64(own + 1, &own_number);
    char slug[64];
    td_text_slug(info->platform_name, slug, sizeof slug);
    return number == own_number && *platform && td_text_contains(slug, platform);
}

static bool matches_opencl(const td_device_info *info, const char *text)
{
    return info->api == TD_API_OPENCL && matches_place(info, text);
}

static bool matches_vulkan(const td_device_info *info, const char *text)
{
    return info->api == TD_API_VULKAN && matches_place(info, text);
}

static bool matches_sim(const td_device_info *info, const char *text)
{
    uint64_t number = 0;
    return info->api == TD_API_SIM && td_text_parse_u64(text, &number) == TD_OK && number == info->ordinal;
}

static const struct {
    const char *prefix;
    matcher matches;
} FORMS[] = {
    {"cl:", matches_opencl}, {"vk:", matches_vulkan}, {"pci:", matches_pci},
    {"uuid:", matches_uuid}, {"name:", matches_name}, {"sim:", matches_sim},
};

/* ---------------------------------------------------------------- choosing */

/* Higher is better: what a person without a preference would want. */
static int rank(const td_device_info *info)
{
    static const int BY_TYPE[] = {[TD_DEVICE_GPU] = 4,
                                  [TD_DEVICE_IGPU] = 3,
                                  [TD_DEVICE_OTHER] = 1,
                                  [TD_DEVICE_CPU] = 2,
                                  [TD_DEVICE_SIM] = 0};
    /* On a CPU, OpenCL drivers compute two orders of magnitude faster than Vulkan ones. */
    return 2 * BY_TYPE[info->type] + (info->api == TD_API_OPENCL);
}

static bool is_gpu(const td_device_info *info)
{
    return info->type == TD_DEVICE_GPU || info->type == TD_DEVICE_IGPU;
}

static bool is_of_class(const td_device_info *info, const char *word)
{
    if (strcmp(word, "gpu") == 0) return is_gpu(info);
    if (strcmp(word, "cpu") == 0) return info->type == TD_DEVICE_CPU;
    return true; /* any */
}

static td_status choose_best(const td_registry *registry, const char *word, const td_device_info **out)
{
    for (size_t i = 0; i < registry->n_visible; i++) {
        const td_device_info *info = &registry->infos.items[i];
        if (!info->usable || !is_of_class(info, word)) continue;
        if (!*out || rank(info) > rank(*out)) *out = info;
    }
    if (*out) return TD_OK;
    const size_t n_hidden = registry->n_real - registry->n_visible;
    const char *what = strcmp(word, "any") == 0 ? "device" : word;
    if (n_hidden > 0)
        return TD_FAIL(
            TD_ERR_NOT_FOUND,
            "there is no usable %s: TANDEM_VISIBLE_DEVICES hides %zu of %zu devices; unset it and " SEE_LIST,
            what, n_hidden, registry->n_real);
    if (strcmp(word, "any") == 0)
        return TD_FAIL(TD_ERR_NOT_FOUND, "there is no usable device; " SEE_LIST " and what to install");
    return TD_FAIL(TD_ERR_NOT_FOUND, "there is no usable %s; " SEE_LIST, word);
}

static td_status refuse_unknown(const char *selector)
{
    static const char *const WORDS[] = {"gpu", "cpu", "any", "sim", "cl:", "vk:", "pci:", "uuid:", "name:"};
    char prefix[16];
    snprintf(prefix, sizeof prefix, "%.*s", (int)strcspn(selector, ":") + (strchr(selector, ':') != NULL),
             selector);
    const char *near = td_text_nearest(prefix, WORDS, sizeof WORDS / sizeof WORDS[0]);
    return TD_FAIL(TD_ERR_NOT_FOUND,
                   "\"%s\" is not a device selector%s%s%s; use a number, cl:P.D, vk:N, pci:..., uuid:..., "
                   "name:..., gpu, cpu, any or sim, or " SEE_LIST,
                   selector, near ? " (did you mean \"" : "", near ? near : "", near ? "\"?)" : "");
}

static td_status choose_index(const td_registry *registry, const char *text, const td_device_info **out)
{
    uint64_t index = 0;
    if (td_text_parse_u64(text, &index) != TD_OK) return refuse_unknown(text);
    TD_REFUSE_IF(registry->n_real == 0, TD_ERR_NOT_FOUND, "there is no device %s: none was found; " SEE_LIST,
                 text);
    TD_REFUSE_IF(registry->n_visible == 0, TD_ERR_NOT_FOUND,
                 "there is no device %s: TANDEM_VISIBLE_DEVICES hides all; unset it", text);
    TD_REFUSE_IF(index >= registry->n_visible && index < registry->n_real, TD_ERR_NOT_FOUND,
                 "there is no device %s: TANDEM_VISIBLE_DEVICES leaves 0 to %zu; " SEE_LIST, text,
                 registry->n_visible - 1);
    TD_REFUSE_IF(index >= registry->n_visible, TD_ERR_NOT_FOUND,
                 "there is no device %s, only 0 to %zu; " SEE_LIST, text, registry->n_visible - 1);
    *out = &registry->infos.items[index];
    return TD_OK;
}

static bool is_hidden(const td_registry *registry, size_t position)
{
    return position >= registry->n_visible && position < registry->n_real;
}

static td_status choose_form(const td_registry *registry, size_t form, const char *selector,
                             const td_device_info **out)
{
    const char *text = selector + strlen(FORMS[form].prefix);
    const td_device_info *hidden = NULL;
    for (size_t i = 0; i < registry->infos.count; i++) {
        const td_device_info *info = &registry->infos.items[i];
        if (!FORMS[form].matches(info, text)) continue;
        if (is_hidden(registry, i)) {
            hidden = info;
            continue;
        }
        /* One card under two APIs is one card: take the better handle. Different cards are ambiguous. */
        const bool other_card =
            *out && ((*out)->phys_group != info->phys_group || info->type == TD_DEVICE_CPU);
        TD_REFUSE_IF(other_card, TD_ERR_NOT_FOUND,
                     "selector \"%s\" fits both %s (%s) and %s (%s); use one of the latter", selector,
                     (*out)->name, (*out)->selector, info->name, info->selector);
        if (!*out || rank(info) > rank(*out)) *out = info;
    }
    TD_REFUSE_IF(!*out && hidden, TD_ERR_NOT_FOUND,
                 "device %s (%s) is hidden by TANDEM_VISIBLE_DEVICES; unset it or name %d there", selector,
                 hidden->name, hidden->given_index);
    TD_REFUSE_IF(!*out, TD_ERR_NOT_FOUND, "no device fits \"%s\"; " SEE_LIST, selector);
    return TD_OK;
}

static td_status choose(const td_registry *registry, const char *selector, const td_device_info **out)
{
    if (isdigit((unsigned char)*selector)) return choose_index(registry, selector, out);
    if (strcmp(selector, "gpu") == 0 || strcmp(selector, "cpu") == 0 || strcmp(selector, "any") == 0)
        return choose_best(registry, selector, out);
    if (strcmp(selector, "sim") == 0) selector = "sim:0";
    for (size_t form = 0; form < sizeof FORMS / sizeof FORMS[0]; form++)
        if (strncmp(selector, FORMS[form].prefix, strlen(FORMS[form].prefix)) == 0)
            return choose_form(registry, form, selector, out);
    return refuse_unknown(selector);
}

td_status td_registry_select(const td_registry *registry, const char *selector, const td_device_info **out)
{
    const td_device_info *chosen = NULL;
    *out = NULL;
    TD_CHECK(choose(registry, selector, &chosen));
    TD_REFUSE_IF(!chosen->usable, TD_ERR_UNSUPPORTED, "device \"%s\" (%s) cannot be used: %s", selector,
                 chosen->name, chosen->reason);
    *out = chosen;
    return TD_OK;
}
