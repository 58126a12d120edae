/* The checks of `tandem validate` (src/tools/validate.c) on every ordered pair of devices present and on each
 * device alone (where a driver offers two, on the pairs with the second; the run with one has the rest): none
 * may fail, and nothing is skipped but the arithmetic of a simulated model device. A second run builds no
 * kernel.
 *
 * A pair whose only failure is its rate is tried again: this is no benchmark, and the computer may have been
 * busy. Sanitizers slow drivers and memcpy differently, so rates mean nothing under them.
 */
#include <string.h>

#include "pipeline/roles.h"
#include "support.h"
#include "tools/validate.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#define SANITIZED (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define SANITIZED 0
#endif

#define ATTEMPTS (SANITIZED ? 1 : 5)

static const td_check_group *find_group(const td_validation *v, const char *name)
{
    for (int g = 0; g < TD_VALIDATE_GROUPS; g++)
        if (strcmp(v->groups[g].name, name) == 0) return &v->groups[g];
    fail_msg("there is no group %s", name);
    return NULL;
}

static unsigned count(const td_validation *v, td_check_status status, const char *word)
{
    unsigned n = 0;
    for (int g = 0; g < TD_VALIDATE_GROUPS; g++) {
        for (size_t c = 0; c < v->groups[g].count; c++) {
            const td_check *entry = &v->groups[g].checks[c];
            n += entry->status == status && (strstr(entry->name, word) || strstr(entry->detail, word));
        }
    }
    return n;
}

static void print_failures(const td_validation *v)
{
    for (int g = 0; g < TD_VALIDATE_GROUPS; g++) {
        for (size_t c = 0; c < v->groups[g].count; c++) {
            const td_check *entry = &v->groups[g].checks[c];
            if (entry->status == TD_CHECK_FAIL)
                print_error("%s: %s: %s\n", v->groups[g].name, entry->name, entry->detail);
        }
    }
}

typedef struct watch {
    unsigned seen;
} watch;

static void on_check(void *context, const td_check_group *group, const td_check *entry)
{
    watch *w = context;
    w->seen += group->count > 0 && entry->name[0] && entry->detail[0];
}

static void validate_pair(td_registry *registry, const td_device_info *data, const td_device_info *model)
{
    const td_roles roles = {
        .mode = data == model ? TD_ROLES_SINGLE : TD_ROLES_TWO_DEVICE, .data = data, .model = model};
    for (int attempt = 0;; attempt++) {
        watch w = {0};
        td_validation v;
        const td_validate_request request = {
            .registry = registry, .roles = &roles, .on_check = on_check, .context = &w};
        check(td_validate_run(&request, &v));
        const unsigned slow = count(&v, TD_CHECK_FAIL, "rate");
        if (slow && slow == v.failed && attempt < ATTEMPTS - 1) {
            td_validation_clear(&v);
            continue;
        }
        if (v.failed) print_failures(&v);
        assert_int_equal(v.failed, SANITIZED ? slow : 0);
        assert_int_equal(w.seen, v.passed + v.failed + v.skipped); /* each told once */
        const bool is_simulated = model->type == TD_DEVICE_SIM;
        assert_int_equal(v.skipped, is_simulated ? 1 : 0);
        assert_int_equal(count(&v, TD_CHECK_SKIP, "simulated device computes nothing"), v.skipped);
        assert_int_equal(find_group(&v, "model")->count, is_simulated ? 2 : 3);
        assert_int_equal(find_group(&v, "pipeline")->count, 2);
        assert_int_equal(count(&v, TD_CHECK_PASS, "12 batches"), 1);
        assert_true(find_group(&v, "transfer")->count >= 6);
        assert_true(find_group(&v, "prerequisites")->count >= 3);
        assert_true(find_group(&v, "placement")->count >= 2);
        td_validation_clear(&v);
        return;
    }
}

/* Opened once before, so that self-tests and kernels are in the cache. */
static void warm_up(void)
{
    bed b;
    bed_open(&b, NULL);
    for (size_t i = 0; i < b.n_real; i++) {
        td_list *list = new_list(b.device[i], TD_QUEUE_COMPUTE);
        const td_matmul_params params = {.m = 1, .n = 1, .k = 1, .lda = 1, .ldb = 1, .ldc = 1};
        const td_span span = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        const td_span result = take(b.memory[i], TD_MEMORY_DEVICE, 4096);
        const td_span spans[] = {span, span, result};
        check(td_list_fill(list, span, 0));
        check(td_list_dispatch(list, TD_K_matmul, spans, &params,
                               td_grid_matmul(td_device_class(b.device[i]), 1, 1), (td_cost){0}));
        run_once(b.device[i], TD_QUEUE_COMPUTE, list);
        td_list_destroy(list);
    }
    bed_close(&b);
}

static void test_every_pair(void **state)
{
    (void)state;
    const td_device_info *infos[BED_MAX];
    const td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    size_t n_real = 0;
    warm_up();
    check(td_registry_open(&options, &registry));
    standard_devices_found(registry);
    list_devices(registry, infos, &n_real);
    const size_t tried = n_real + 1; /* one simulated device stands for both */
    bool has_twins = false;
    for (size_t i = 0; i < tried; i++)
        has_twins |= find_elder(infos, i) != i;
    for (size_t i = 0; i < tried; i++) {
        for (size_t j = 0; j < tried; j++) {
            if (has_twins && find_elder(infos, i) == i && find_elder(infos, j) == j) continue;
            print_message("    data on %s, model on %s\n", infos[i]->selector, infos[j]->selector);
            validate_pair(registry, infos[i], infos[j]);
        }
    }
    assert_int_equal(td_registry_validation_messages(registry), 0);
    td_registry_close(registry);
}

/* All kernels of the checks were built above, by whoever opened the devices, and are in the cache now. */
static void test_a_second_run_builds_nothing(void **state)
{
    (void)state;
    const td_device_info *infos[BED_MAX];
    const td_registry_options options = options_of_environment();
    td_registry *registry = NULL;
    size_t n_real = 0;
    td_validation v;
    check(td_registry_open(&options, &registry));
    list_devices(registry, infos, &n_real);
    const td_roles roles = {.mode = TD_ROLES_TWO_DEVICE, .data = infos[0], .model = infos[n_real - 1]};
    const td_validate_request request = {.registry = registry, .roles = &roles};
    check(td_validate_run(&request, &v));
    assert_int_equal(v.kernel_builds, 0);
    td_validation_clear(&v);
    td_registry_close(registry);
}

/* What does not hold is a failed check, not a failed run. */
static void test_a_limit_past_the_memory(void **state)
{
    (void)state;
    const td_registry_options options = options_of_environment();
    const td_device_info *sim = NULL;
    td_registry *registry = NULL;
    td_validation v;
    check(td_registry_open(&options, &registry));
    check(td_registry_select(registry, "sim", &sim));
    const td_roles roles = {.mode = TD_ROLES_SINGLE, .data = sim, .model = sim};
    const td_validate_request request = {.registry = registry,
                                         .roles = &roles,
                                         .isolation = true,
                                         .data_limit_bytes = MIB,
                                         .model_limit_bytes = sim->caps.memory_bytes + 1};
    check(td_validate_run(&request, &v));
    assert_int_equal(count(&v, TD_CHECK_FAIL, "--model-gpu-memory"), 1);
    td_validation_clear(&v);
    td_registry_close(registry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_pair),
        cmocka_unit_test(test_a_second_run_builds_nothing),
        cmocka_unit_test(test_a_limit_past_the_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
