/* Kernels of class CPU launched over next to nothing, as td_cl_program_warm() does to have them compiled: all parameters
 * 1, one group, little memory. None writes outside of it, and none hangs or ends the program.
 */
#include <string.h>

#include "support.h"

#define BYTES 65536u /* TD_CL_WARM_BYTES of opencl.h */
#define N_WORDS (BYTES / 4)
#define GUARD_WORDS 64u
#define GUARD 0x7fc0BEEFu

static void launch(const bed *b, size_t i, td_kernel_id id)
{
    uint32_t ones[TD_KERNEL_MAX_PARAMS / 4];
    const td_kernel *kernel = td_kernel_get(id);
    static uint32_t words[N_WORDS + GUARD_WORDS];
    td_span whole[TD_KERNEL_MAX_BUFFERS];
    td_span parts[TD_KERNEL_MAX_BUFFERS];
    for (size_t p = 0; p < sizeof ones / sizeof ones[0]; p++)
        ones[p] = 1;
    memset(words, 0, sizeof words);
    for (uint32_t w = 0; w < GUARD_WORDS; w++)
        words[N_WORDS + w] = GUARD;
    for (uint32_t k = 0; k < kernel->n_buffers; k++) {
        whole[k] = take(b->memory[i], TD_MEMORY_DEVICE, sizeof words);
        write_span(b, i, whole[k], words);
        parts[k] = td_span_part(whole[k], 0, BYTES);
    }
    td_list *list = new_list(b->device[i], TD_QUEUE_COMPUTE);
    print_message("[ kernel   ] %s\n", kernel->name);
    check(td_list_dispatch(list, id, parts, ones, (td_grid){1, 1, 1}, (td_cost){0}));
    run_once(b->device[i], TD_QUEUE_COMPUTE, list);
    td_list_destroy(list);
    for (uint32_t k = 0; k < kernel->n_buffers; k++) {
        read_span(b, i, whole[k], words);
        for (uint32_t w = 0; w < GUARD_WORDS; w++)
            if (words[N_WORDS + w] != GUARD)
                fail_msg("%s wrote guard word %u behind buffer %u", kernel->name, w, k);
        td_memory_free(b->memory[i], whole[k]);
    }
}

static void test_every_kernel_keeps_to_its_buffers(void **state)
{
    (void)state;
    bed b;
    bed_open_real(&b, BED_AS_IS);
    for (size_t i = 0; i < b.n_real; i++) {
        const td_device_info *info = td_device_get_info(b.device[i]);
        if (info->api != TD_API_OPENCL || info->gpu_kernels || !announce(&b, i)) continue;
        for (int id = 0; id < TD_KERNEL_COUNT; id++)
            launch(&b, i, (td_kernel_id)id);
    }
    bed_close(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_kernel_keeps_to_its_buffers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
