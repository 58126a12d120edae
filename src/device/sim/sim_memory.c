/* Memory of the simulated device: host blocks that truly hold their bytes. The model's size is enforced for
 * DEVICE memory; the pages are left to the system to provide when first written, so that a large device can
 * be simulated on a small computer. Covered by tests/device/test_sim.c.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "base/text.h"
#include "device/sim/sim.h"

enum { STORAGE_ALIGN = 4096, LARGE_BYTES = 32 << 20 };

/* Large blocks come from the system: plans of models far larger than the computer are made in them and never
 * touch them, while an allocator that keeps books of every byte, as a sanitizer's, takes a minute for that.
 */
static void *take_storage(uint64_t bytes)
{
    void *storage = NULL;
    if (bytes < LARGE_BYTES) return posix_memalign(&storage, STORAGE_ALIGN, bytes) == 0 ? storage : NULL;
    storage = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return storage != MAP_FAILED ? storage : NULL;
}

static void give_storage_back(void *storage, uint64_t bytes)
{
    if (bytes < LARGE_BYTES)
        free(storage);
    else
        (void)munmap(storage, bytes);
}

static td_status refuse(const sim_device *device, uint64_t bytes, const char *why)
{
    char size[TD_TEXT_FORMAT_BYTES];
    td_text_format_bytes(bytes, size);
    return TD_FAIL_NATIVE(TD_ERR_DEVICE_MEMORY, "SIM_OUT_OF_MEMORY", "%s refused a buffer of %s: %s",
                          device->base.info.name, size, why);
}

/* Takes `bytes` of the device's memory, if the model has them left. */
static bool charge(sim_device *device, uint64_t bytes)
{
    pthread_mutex_lock(&device->group->mutex);
    bool fits = bytes <= device->base.info.caps.memory_bytes - device->used_bytes;
    if (fits) device->used_bytes += bytes;
    pthread_mutex_unlock(&device->group->mutex);
    return fits;
}

static void discharge(sim_device *device, uint64_t bytes)
{
    pthread_mutex_lock(&device->group->mutex);
    device->used_bytes -= bytes;
    pthread_mutex_unlock(&device->group->mutex);
}

static td_status create_record(sim_device *device, td_memory_kind kind, uint64_t bytes, sim_buffer **out)
{
    pthread_mutex_lock(&device->group->mutex);
    const bool fault = SIM_FAULT_FIRES(device->group, fail_alloc);
    pthread_mutex_unlock(&device->group->mutex);
    if (fault) return refuse(device, bytes, "the model's fail_alloc says so");
    td_status status = TD_NEW(out);
    if (status != TD_OK) return status;
    (*out)->base = (td_buffer){.device = &device->base, .kind = kind, .bytes = bytes};
    return TD_OK;
}

td_status td_sim_buffer_create(td_device *base, td_memory_kind kind, uint64_t bytes, td_buffer **out)
{
    sim_device *device = (sim_device *)base;
    sim_buffer *buffer = NULL;
    bool charged = false;
    td_status status = TD_OK;
    TD_TRY(create_record(device, kind, bytes, &buffer));
    if (kind == TD_MEMORY_DEVICE) {
        if (bytes > base->info.caps.max_alloc_bytes)
            TD_TRY(refuse(device, bytes, "it is larger than the model's max_alloc_mb"));
        charged = charge(device, bytes);
        if (!charged)
            TD_TRY(refuse(device, bytes, "the model's memory_mb is used up; free some or raise it"));
    }
    void *storage = take_storage(bytes);
    if (!storage) {
        TD_TRY(
            refuse(device, bytes, "the computer has no memory to simulate it; lower the model's memory_mb"));
    }
    buffer->storage = storage;
    if (kind == TD_MEMORY_HOST) buffer->base.host = storage;
    *out = &buffer->base;
    return TD_OK;
fail:
    if (charged) discharge(device, bytes);
    free(buffer);
    return status;
}

td_status td_sim_buffer_import(td_device *base, void *host, uint64_t bytes, td_buffer **out)
{
    sim_buffer *buffer = NULL;
    td_status status = create_record((sim_device *)base, TD_MEMORY_HOST, bytes, &buffer);
    if (status != TD_OK) return status;
    buffer->base.imported = true;
    buffer->base.host = host;
    buffer->storage = host;
    *out = &buffer->base;
    return TD_OK;
}

void td_sim_buffer_destroy(td_buffer *base)
{
    if (!base) return;
    sim_buffer *buffer = (sim_buffer *)base;
    if (base->kind == TD_MEMORY_DEVICE) discharge((sim_device *)base->device, base->bytes);
    if (!base->imported) give_storage_back(buffer->storage, base->bytes);
    free(buffer);
}
