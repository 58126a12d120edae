/* What the tests of the device layer share: every device of the computer opened at once, the simulated ones
 * too, and short words for taking memory and moving bytes. Nothing here may be called from a host task or
 * another thread: a failed check leaves the test by a jump.
 *
 * A test runs on every device present. PoCL and lavapipe must be there, unless TANDEM_TEST_ALLOW_MISSING=1.
 */
#ifndef TD_TESTS_DEVICE_SUPPORT_H
#define TD_TESTS_DEVICE_SUPPORT_H

#include "device/dispatch.h"
#include "support/rig.h"
#include "tandem/channel.h"
#include "tandem/queue.h"

#define MS UINT64_C(1000000)
#define MIB (UINT64_C(1) << 20)
#define PATIENCE_NS (UINT64_C(60) * 1000 * MS) /* nothing in a test takes this long unless it hangs */

enum { BED_MAX = 16 };

/* The real devices come first, then both simulated ones; `sim` is the position of the first. */
typedef struct bed {
    td_registry *registry;
    size_t count, n_real, sim;
    td_device *device[BED_MAX];
    td_memory *memory[BED_MAX];  /* one without a limit for each device, for the test alone */
    td_memory *scratch[BED_MAX]; /* what write_span and read_span use */
    const char *name[BED_MAX];
} bed;

/* Opens everything in one call. Options come from the environment; sim_model, unless NULL, replaces the
 * environment's. */
void bed_open(bed *out, const char *sim_model);

/* The real devices alone, as what they are, or all as if they were GPUs: with the GPU class of kernels, and
 * memory as a GPU's driver would give it. */
typedef enum bed_kind { BED_AS_IS, BED_AS_GPUS, BED_KINDS } bed_kind;
void bed_open_real(bed *out, bed_kind kind);
void bed_close(bed *b);

/* For those who open less than everything: the options of the environment, and all devices of a registry (as
 * many as are written to `infos`). standard_devices_found fails the test if PoCL or lavapipe is missing. */
td_registry_options options_of_environment(void);
size_t list_devices(td_registry *registry, const td_device_info *infos[BED_MAX], size_t *n_real);
void standard_devices_found(td_registry *registry);

/* Says where the test is, so that a failure shows its device. True, for use in the head of a loop. */
bool announce(const bed *b, size_t i);
bool announce_pair(const bed *b, size_t i, size_t j);

/* The place of the first device of the list that is of the same driver as info[i]; i itself if it is the
 * first. The others are its twins. */
size_t find_elder(const td_device_info *const *infos, size_t i);

/* False for pairs that repeat another: a twin is worth pairing with its elder alone. */
bool is_new_pair(const bed *b, size_t i, size_t j);

/* ---------------------------------------------------------------- memory and work */

td_span take(td_memory *memory, td_memory_kind kind, uint64_t bytes);

/* Moves span.bytes between the host and device memory, and waits. */
void write_span(const bed *b, size_t i, td_span to, const void *from);
void read_span(const bed *b, size_t i, td_span from, void *to);

/* n words that differ by stream. */
void fill_words(uint32_t *words, size_t n, uint64_t stream);

td_list *new_list(td_device *device, td_queue_kind kind);
td_point submit(td_queue *queue, td_list *list, const td_point *waits, size_t n_waits);

/* Waits with patience; the point must be reached. */
void await(td_point point);

/* Finishes the list, runs it once on its queue and waits. */
void run_once(td_device *device, td_queue_kind kind, td_list *list);

td_times times_of(td_point point);

/* Records fill of n words of a span by the kernel; a cost makes the list long on paper. */
void record_fill_kernel(td_list *list, td_device *device, td_span span, uint32_t word, double flops);

#endif
