/* See doctor.h. Folders and environment variables are those the loaders themselves look at. */
#include "tools/doctor.h"

#include <cJSON.h>
#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "base/text.h"
#include "tandem/version.h"
#include "text/phonemes.h"
#include "tools/doctor_internal.h"

enum { MAX_MANIFEST_BYTES = 1 << 16, LEAST_CACHE_MB = 200 };

/* ---------------------------------------------------------------- findings */

void td_doctor_add(td_doctor *d, const char *group, td_finding_status status, const char *name,
                   const char *format, ...)
{
    td_diagnosis *out = d->out;
    va_list arguments;
    if (d->status == TD_OK)
        d->status = td_alloc_grow(&out->findings, &out->capacity, out->count + 1, sizeof *out->findings);
    td_finding *finding = d->status == TD_OK ? &out->findings[out->count++] : &d->lost;
    finding->group = group;
    finding->status = status;
    snprintf(finding->name, sizeof finding->name, "%s", name);
    va_start(arguments, format);
    vsnprintf(finding->detail, sizeof finding->detail, format, arguments);
    va_end(arguments);
    out->n_problems += status == TD_FINDING_PROBLEM;
}

void td_doctor_advise(td_doctor *d, const char *packages, const char *format, ...)
{
    td_finding *finding = d->status == TD_OK ? &d->out->findings[d->out->count - 1] : &d->lost;
    va_list arguments;
    snprintf(finding->packages, sizeof finding->packages, "%s", packages);
    va_start(arguments, format);
    vsnprintf(finding->advice, sizeof finding->advice, format, arguments);
    va_end(arguments);
}

void td_diagnosis_clear(td_diagnosis *diagnosis)
{
    free(diagnosis->findings);
    *diagnosis = (td_diagnosis){0};
}

static bool ends_with(const char *text, const char *suffix)
{
    const size_t length = strlen(text), tail = strlen(suffix);
    return length >= tail && strcmp(text + length - tail, suffix) == 0;
}

void td_doctor_list(td_doctor *d, const char *folder, const char *suffix,
                    void (*visit)(td_doctor *d, const char *path))
{
    char path[TD_FILE_PATH_BYTES];
    td_file_names names;
    const td_status status = td_file_list(folder, &names);
    if (status != TD_OK && status != TD_ERR_NOT_FOUND)
        td_doctor_add(d, "folders", TD_FINDING_PROBLEM, "folder", "%s", td_error_last()->message);
    for (size_t i = 0; i < names.count; ++i) {
        const char *name = names.at[i];
        if (name[0] == '.' || !ends_with(name, suffix)) continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, name) < (int)sizeof path) visit(d, path);
    }
    td_file_names_free(&names);
}

/* ---------------------------------------------------------------- program */

static void look_at_program(td_doctor *d)
{
    struct utsname system = {0};
    char memory[TD_TEXT_FORMAT_BYTES];
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
               cores = sysconf(_SC_NPROCESSORS_ONLN);
    (void)uname(&system);
    td_text_format_bytes(pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page : 0, memory);
    td_doctor_add(d, "program", TD_FINDING_OK, "tandem", "%s (%s)", TANDEM_VERSION, TD_BUILD_ID);
    td_doctor_add(d, "program", TD_FINDING_OK, "system", "%s %s %s, %ld cores, %s of memory", system.sysname,
                  system.release, system.machine, cores, memory);
}

/* ---------------------------------------------------------------- loaders and drivers */

/* Opens a library that stays open (drivers do not like to be closed) and tells its true file. */
static bool open_library(const char *name, char file[PATH_MAX])
{
    struct link_map *map = NULL;
    void *library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NODELETE);
    if (library == NULL) return false;
    if (dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || realpath(map->l_name, file) == NULL)
        snprintf(file, PATH_MAX, "%s", name);
    dlclose(library);
    return true;
}

static const char *group_of(td_api api)
{
    return api == TD_API_OPENCL ? "opencl" : "vulkan";
}

/* Where other devices compute, what is missing is no more than a note. */
static td_finding_status weigh_absence(const td_doctor *d)
{
    return d->out->n_usable > 0 ? TD_FINDING_NOTE : TD_FINDING_PROBLEM;
}

static void look_at_loader(td_doctor *d, td_api api)
{
    const td_api_report *report = td_registry_report(d->request->registry, api);
    const char *package = api == TD_API_OPENCL ? "ocl-icd-libopencl1" : "libvulkan1";
    char file[PATH_MAX];
    if (report->loaded && open_library(report->library, file)) {
        td_doctor_add(d, group_of(api), TD_FINDING_OK, "loader", "%.400s", file);
    } else {
        td_doctor_add(d, group_of(api), weigh_absence(d), "loader", "%s cannot be opened",
                      *report->library ? report->library : package);
        td_doctor_advise(d, package, "install %s", package);
    }
}

/* A driver's library, as the file `manifest` names it. */
static void look_at_driver(td_doctor *d, const char *group, const char *manifest, const char *library)
{
    char file[PATH_MAX];
    ++d->n_drivers;
    if (open_library(library, file)) {
        td_doctor_add(d, group, TD_FINDING_OK, "driver", "%.200s (%.200s)", manifest, file);
        return;
    }
    td_doctor_add(d, group, TD_FINDING_PROBLEM, "driver", "%.160s: %.300s", manifest, dlerror());
    td_doctor_advise(d, "",
                     "reinstall the package that has it (`dpkg -S %.120s` tells which), or remove "
                     "the file",
                     manifest);
}

static void look_at_icd(td_doctor *d, const char *path)
{
    char *text = NULL;
    size_t bytes = 0;
    if (td_file_read(path, MAX_MANIFEST_BYTES, &text, &bytes) != TD_OK) {
        td_doctor_add(d, "opencl", TD_FINDING_PROBLEM, "driver", "%.400s", td_error_last()->message);
    } else {
        text[strcspn(text, " \t\r\n")] = '\0';
        look_at_driver(d, "opencl", path, text);
    }
    free(text);
}

static void look_at_manifest(td_doctor *d, const char *path)
{
    char library[2 * PATH_MAX];
    char *text = NULL;
    size_t bytes = 0;
    cJSON *manifest = NULL;
    if (td_file_read(path, MAX_MANIFEST_BYTES, &text, &bytes) == TD_OK)
        manifest = cJSON_ParseWithLength(text, bytes);
    const cJSON *icd = cJSON_GetObjectItemCaseSensitive(manifest, "ICD");
    const cJSON *name = cJSON_GetObjectItemCaseSensitive(icd, "library_path");
    if (!cJSON_IsString(name)) {
        td_doctor_add(d, "vulkan", TD_FINDING_PROBLEM, "driver",
                      "%.400s cannot be read, or has no ICD.library_path", path);
        td_doctor_advise(d, "", "reinstall the package that has it, or remove the file");
    } else {
        /* Relative to the manifest if it is a path. */
        const char *end = strrchr(path, '/');
        const bool is_relative = name->valuestring[0] != '/' && strchr(name->valuestring, '/') != NULL;
        snprintf(library, sizeof library, "%.*s%s", is_relative && end ? (int)(end - path) + 1 : 0, path,
                 name->valuestring);
        look_at_driver(d, "vulkan", path, library);
    }
    cJSON_Delete(manifest);
    free(text);
}

/* Why drivers that are there have no device; what to do follows the last semicolon. */
static void look_at_report(td_doctor *d)
{
    const char *message = td_registry_report(d->request->registry, TD_API_OPENCL)->message;
    const char *end = strrchr(message, ';');
    if (end == NULL) return;
    td_doctor_add(d, "opencl", weigh_absence(d), "devices", "%.*s", (int)(end - message), message);
    td_doctor_advise(d, "", "%s", end + 1 + strspn(end + 1, " "));
}

static void look_at_opencl(td_doctor *d)
{
    char folder[TD_FILE_PATH_BYTES];
    const char *given = getenv("OCL_ICD_VENDORS");
    look_at_loader(d, TD_API_OPENCL);
    d->n_drivers = 0;
    snprintf(folder, sizeof folder, "%s/etc/OpenCL/vendors", d->request->root);
    if (given != NULL && *given) {
        td_doctor_add(d, "opencl", TD_FINDING_NOTE, "OCL_ICD_VENDORS", "only drivers of %.400s are looked at",
                      given);
        td_doctor_advise(d, "", "unset it to look at those of /etc/OpenCL/vendors");
        snprintf(folder, sizeof folder, "%s", given);
    }
    if (ends_with(folder, ".icd"))
        look_at_icd(d, folder);
    else
        td_doctor_list(d, folder, ".icd", look_at_icd);
    if (d->n_drivers > 0) {
        look_at_report(d);
        return;
    }
    td_doctor_add(d, "opencl", weigh_absence(d), "driver", "no .icd file in %.400s", folder);
    td_doctor_advise(
        d, "pocl-opencl-icd",
        "install pocl-opencl-icd (CPU), intel-opencl-icd (Intel), mesa-opencl-icd or ROCm (AMD) or "
        "nvidia-opencl-icd (NVIDIA)");
}

/* The files or folders of a list separated by colons. */
static void look_at_list(td_doctor *d, const char *list)
{
    char path[TD_FILE_PATH_BYTES];
    for (size_t length; *list; list += length + (list[length] == ':')) {
        length = strcspn(list, ":");
        if (length == 0 || length >= sizeof path) continue;
        snprintf(path, sizeof path, "%.*s", (int)length, list);
        if (ends_with(path, ".json"))
            look_at_manifest(d, path);
        else
            td_doctor_list(d, path, ".json", look_at_manifest);
    }
}

static void look_at_vulkan(td_doctor *d)
{
    static const char *const VARIABLES[] = {"VK_DRIVER_FILES", "VK_ICD_FILENAMES"};
    static const char *const FOLDERS[] = {"/usr/local/etc/vulkan/icd.d", "/usr/local/share/vulkan/icd.d",
                                          "/etc/vulkan/icd.d", "/usr/share/vulkan/icd.d"};
    char path[TD_FILE_PATH_BYTES];
    const char *given = NULL, *home = getenv("HOME");
    look_at_loader(d, TD_API_VULKAN);
    d->n_drivers = 0;
    for (size_t i = 0; given == NULL && i < sizeof VARIABLES / sizeof VARIABLES[0]; ++i) {
        given = getenv(VARIABLES[i]);
        if (given == NULL || !*given) {
            given = NULL;
            continue;
        }
        td_doctor_add(d, "vulkan", TD_FINDING_NOTE, VARIABLES[i], "only drivers of %.400s are looked at",
                      given);
        td_doctor_advise(d, "", "unset it to look at those of the system");
        look_at_list(d, given);
    }
    for (size_t i = 0; given == NULL && i < sizeof FOLDERS / sizeof FOLDERS[0]; ++i) {
        snprintf(path, sizeof path, "%s%s", d->request->root, FOLDERS[i]);
        td_doctor_list(d, path, ".json", look_at_manifest);
    }
    if (given == NULL && home != NULL &&
        snprintf(path, sizeof path, "%s/.local/share/vulkan/icd.d", home) < (int)sizeof path)
        td_doctor_list(d, path, ".json", look_at_manifest);
    if (d->n_drivers > 0) return;
    td_doctor_add(d, "vulkan", weigh_absence(d), "driver", "no driver's .json file was found");
    td_doctor_advise(d, "mesa-vulkan-drivers",
                     "install mesa-vulkan-drivers (AMD, Intel, and the CPU) or the NVIDIA driver");
}

/* ---------------------------------------------------------------- devices, libraries, caches */

static void look_at_devices(td_doctor *d)
{
    const td_registry *registry = d->request->registry;
    for (size_t i = 0; i < td_registry_count(registry); ++i) {
        const td_device_info *info = td_registry_info(registry, i);
        if (info->usable) {
            td_doctor_add(d, "devices", TD_FINDING_OK, info->selector, "%s, driver %s, self-test %s%s%s",
                          info->name, info->driver, info->selftest_done ? "passed" : "not run yet",
                          *info->reason ? "; " : "", info->reason);
        } else {
            td_doctor_add(d, "devices", TD_FINDING_PROBLEM, info->selector, "%s, driver %s: %s", info->name,
                          info->driver, info->reason);
            td_doctor_advise(d, "", "update its driver, or choose another device");
        }
    }
    if (td_registry_count(registry) == 0) {
        td_doctor_add(d, "devices", TD_FINDING_PROBLEM, "none", "no device was found");
        td_doctor_advise(d, "pocl-opencl-icd",
                         "install a driver; pocl-opencl-icd makes the CPU a device. If "
                         "TANDEM_VISIBLE_DEVICES is set, unset it");
    }
}

static void look_at_libraries(td_doctor *d)
{
    char file[PATH_MAX];
    if (td_phonemes_check() == TD_OK) {
        td_doctor_add(d, "libraries", TD_FINDING_OK, "espeak-ng", "found with its data, for --phonemes");
    } else {
        td_doctor_add(d, "libraries", TD_FINDING_NOTE, "espeak-ng", "%.400s", td_error_last()->message);
        td_doctor_advise(d, "libespeak-ng1 espeak-ng-data", "only --phonemes needs it");
    }
    if (open_library("libclblast.so.1", file)) {
        td_doctor_add(d, "libraries", TD_FINDING_OK, "CLBlast", "%.400s", file);
    } else {
        td_doctor_add(d, "libraries", TD_FINDING_NOTE, "CLBlast", "libclblast.so.1 is not installed");
        td_doctor_advise(
            d, "libclblast1",
            "matrix products on OpenCL graphics cards may be faster with it after `tandem tune`");
    }
    snprintf(file, sizeof file, "%s/usr/share/libexttextcat", d->request->root);
    if (td_file_exists(file)) {
        td_doctor_add(d, "libraries", TD_FINDING_OK, "libexttextcat", "its data is in %.400s", file);
    } else {
        td_doctor_add(d, "libraries", TD_FINDING_NOTE, "libexttextcat", "no data in %.400s", file);
        td_doctor_advise(d, "libexttextcat-data", "without it name the language: --language");
    }
}

static td_status try_cache(const char *folder)
{
    char path[TD_FILE_PATH_BYTES];
    TD_CHECK(td_file_make_dirs(folder));
    TD_REFUSE_IF(snprintf(path, sizeof path, "%s/doctor-trial", folder) >= (int)sizeof path, TD_ERR_LIMIT,
                 "the path '%s' is too long", folder);
    TD_CHECK(td_file_write_atomic(path, "", 0));
    (void)unlink(path);
    return TD_OK;
}

static void look_at_caches(td_doctor *d)
{
    char folder[TD_FILE_PATH_BYTES], room[TD_TEXT_FORMAT_BYTES];
    struct statvfs about;
    const char *given = d->request->cache_dir ? d->request->cache_dir : getenv("TANDEM_CACHE_DIR");
    if (td_file_cache_dir(given, folder) != TD_OK || try_cache(folder) != TD_OK) {
        td_doctor_add(d, "caches", TD_FINDING_PROBLEM, "cache", "%.500s", td_error_last()->message);
        td_doctor_advise(d, "",
                         "name a folder that can be written: --cache-dir or XDG_CACHE_HOME; without it "
                         "kernels are compiled at each start");
        return;
    }
    const bool is_known = statvfs(folder, &about) == 0;
    const uint64_t bytes = is_known ? (uint64_t)about.f_bavail * about.f_frsize : 0;
    td_text_format_bytes(bytes, room);
    if (is_known && bytes < (uint64_t)LEAST_CACHE_MB << 20) {
        td_doctor_add(d, "caches", TD_FINDING_PROBLEM, "cache", "%.400s has %s left", folder, room);
        td_doctor_advise(d, "", "free space there, or name another folder: --cache-dir");
    } else {
        td_doctor_add(d, "caches", TD_FINDING_OK, "cache", "%.400s can be written, %s left", folder, room);
    }
}

td_status td_doctor_run(const td_doctor_request *request, td_diagnosis *out)
{
    td_doctor d = {.request = request, .out = out};
    *out = (td_diagnosis){0};
    for (size_t i = 0; i < td_registry_count(request->registry); ++i)
        out->n_usable += td_registry_info(request->registry, i)->usable;
    look_at_program(&d);
    look_at_opencl(&d);
    look_at_vulkan(&d);
    td_doctor_look_at_cards(&d);
    look_at_devices(&d);
    look_at_libraries(&d);
    look_at_caches(&d);
    return d.status;
}
