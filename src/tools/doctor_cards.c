/* Graphics cards: which are there, which no driver serves, which this user may not use. See doctor.h. */
#include <errno.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"
#include "tools/doctor_internal.h"

static const char GROUP[] = "graphics cards";

enum { PCI_CLASS_DISPLAY = 0x03 };

/* Vendors of cards that compute, and what makes them do so. */
static const struct {
    unsigned id;
    const char *name, *packages;
} VENDORS[] = {
    {0x10de, "NVIDIA", "nvidia-driver nvidia-opencl-icd"},
    {0x1002, "AMD", "mesa-vulkan-drivers mesa-opencl-icd"},
    {0x8086, "Intel", "mesa-vulkan-drivers intel-opencl-icd"},
};

/* The number in a file such as /sys/bus/pci/devices/X/vendor; 0 if there is none. */
static unsigned read_number(const char *folder, const char *name)
{
    char path[TD_FILE_PATH_BYTES], text[32] = "";
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return 0;
    FILE *file = fopen(path, "re");
    if (file == NULL) return 0;
    const bool is_read = fgets(text, sizeof text, file) != NULL;
    fclose(file);
    return is_read ? (unsigned)strtoul(text, NULL, 16) : 0;
}

/* Usable devices that are this card. */
static size_t count_devices(const td_doctor *d, const char *address, unsigned vendor, unsigned device)
{
    size_t count = 0;
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    const bool has_address = sscanf(address, "%x:%x:%x.%x", &domain, &bus, &slot, &function) == 4;
    for (size_t i = 0; i < td_registry_count(d->request->registry); ++i) {
        const td_device_info *info = td_registry_info(d->request->registry, i);
        if (!info->usable) continue;
        if (info->has_pci && has_address)
            count += info->pci.domain == domain && info->pci.bus == bus && info->pci.device == slot &&
                     info->pci.function == function;
        else
            count += info->vendor_id == vendor && (info->device_id == device || info->device_id == 0);
    }
    return count;
}

static void look_at_card(td_doctor *d, const char *path)
{
    const char *address = strrchr(path, '/') + 1;
    const unsigned vendor = read_number(path, "vendor"), device = read_number(path, "device");
    if (read_number(path, "class") >> 16 != PCI_CLASS_DISPLAY) return;
    d->n_cards += 1;
    for (size_t i = 0; i < sizeof VENDORS / sizeof VENDORS[0]; ++i) {
        if (VENDORS[i].id != vendor) continue;
        const size_t count = count_devices(d, address, vendor, device);
        d->n_cards_of_vendors += 1;
        if (count > 0) {
            td_doctor_add(d, GROUP, TD_FINDING_OK, address, "%s %04x:%04x, %zu device%s of the list below",
                          VENDORS[i].name, vendor, device, count, count == 1 ? "" : "s");
        } else {
            td_doctor_add(d, GROUP, TD_FINDING_PROBLEM, address, "%s %04x:%04x, but no driver offers it",
                          VENDORS[i].name, vendor, device);
            td_doctor_advise(d, VENDORS[i].packages,
                             "install one of %s; if they are, see the nodes below, then restart",
                             VENDORS[i].packages);
        }
        return;
    }
    td_doctor_add(d, GROUP, TD_FINDING_NOTE, address, "%04x:%04x shows pictures; it is not known to compute",
                  vendor, device);
}

/* A node such as /dev/dri/renderD128: the one who uses the card must be allowed to open it. */
static void look_at_node(td_doctor *d, const char *path)
{
    struct stat about;
    const char *name = strrchr(path, '/') + 1;
    if (strncmp(name, "renderD", 7) != 0 && strcmp(name, "kfd") != 0 && strcmp(name, "nvidiactl") != 0)
        return;
    if (stat(path, &about) != 0) return;
    d->n_nodes += 1;
    if (access(path, R_OK | W_OK) == 0) {
        td_doctor_add(d, GROUP, TD_FINDING_OK, "permission", "%.400s may be used", path);
        return;
    }
    const char *why = strerror(errno);
    const struct group *group = getgrgid(about.st_gid);
    td_doctor_add(d, GROUP, TD_FINDING_PROBLEM, "permission", "%.400s may not be used: %s", path, why);
    td_doctor_advise(d, "", "sudo usermod -aG %s \"$USER\", then log in again",
                     group && strcmp(group->gr_name, "root") != 0 ? group->gr_name : "render");
}

void td_doctor_look_at_cards(td_doctor *d)
{
    char path[TD_FILE_PATH_BYTES];
    snprintf(path, sizeof path, "%s/sys/bus/pci/devices", d->request->root);
    td_doctor_list(d, path, "", look_at_card);
    snprintf(path, sizeof path, "%s/dev/dri", d->request->root);
    td_doctor_list(d, path, "", look_at_node);
    static const char *const NODES[] = {"/dev/kfd", "/dev/nvidiactl"};
    for (size_t i = 0; i < sizeof NODES / sizeof NODES[0]; ++i) {
        snprintf(path, sizeof path, "%s%s", d->request->root, NODES[i]);
        look_at_node(d, path);
    }
    if (d->n_cards == 0 && d->n_nodes == 0)
        td_doctor_add(d, GROUP, TD_FINDING_NOTE, "none", "no graphics card was found; the CPU computes");
    if (d->n_cards_of_vendors > 0 && d->n_nodes == 0) {
        td_doctor_add(d, GROUP, TD_FINDING_PROBLEM, "kernel driver",
                      "there is no /dev/dri/renderD* and no /dev/nvidiactl");
        td_doctor_advise(d, "",
                         "install the card's firmware or kernel driver (firmware-amd-graphics, "
                         "firmware-misc-nonfree, nvidia-driver), then restart");
    }
}
