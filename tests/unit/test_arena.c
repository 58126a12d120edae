/* Bump arena: alignment, zeroing, overflow (src/base/arena.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "base/rng.h"

static int make_arena(void **state)
{
    td_arena *arena;
    if (td_arena_create(1024, &arena) != TD_OK) return -1;
    *state = arena;
    return 0;
}

static int destroy_arena(void **state)
{
    td_arena_destroy(*state);
    return 0;
}

static void test_allocations_are_aligned_apart_and_zeroed(void **state)
{
    enum { N = 2000 };
    td_arena *arena = *state;
    unsigned char *memory[N];
    size_t sizes[N];
    for (size_t i = 0; i < N; ++i) {
        size_t align = (size_t)1 << td_rng_below(1, 0, i, 13);
        sizes[i] = (size_t)td_rng_below(2, 0, i, i % 50 ? 100 : 5000);
        assert_int_equal(td_arena_alloc(arena, sizes[i], 1, align, &memory[i]), TD_OK);
        assert_int_equal((uintptr_t)memory[i] % align, 0);
        for (size_t b = 0; b < sizes[i]; ++b)
            assert_int_equal(memory[i][b], 0);
        memset(memory[i], (int)(i % 255) + 1, sizes[i]);
    }
    for (size_t i = 0; i < N; ++i) {
        for (size_t b = 0; b < sizes[i]; ++b)
            assert_int_equal(memory[i][b], i % 255 + 1);
    }
}

static void test_text_is_copied_whole(void **state)
{
    td_arena *arena = *state;
    char *copy, *formatted, *empty;
    char text[] = "text";
    assert_int_equal(td_arena_strdup(arena, text, &copy), TD_OK);
    text[0] = 'n';
    assert_string_equal(copy, "text");
    assert_int_equal(td_arena_printf(arena, &formatted, "%s=%05d|%3000s|", "key", 42, "wide"), TD_OK);
    assert_int_equal(strlen(formatted), 3011);
    assert_int_equal(strncmp(formatted, "key=00042|", 10), 0);
    assert_string_equal(formatted + 3006, "wide|");
    assert_int_equal(td_arena_strdup(arena, "", &empty), TD_OK);
    assert_string_equal(empty, "");
    assert_string_equal(copy, "text");
}

static void test_typed_allocation(void **state)
{
    td_arena *arena = *state;
    struct item {
        long double number;
        char name[3];
    } * one, *many;
    char *before, *after;
    assert_int_equal(td_arena_strdup(arena, "", &before), TD_OK);
    assert_int_equal(TD_ARENA_NEW_ARRAY(arena, &one, 1), TD_OK);
    assert_int_equal(TD_ARENA_NEW_ARRAY(arena, &many, 100), TD_OK);
    assert_int_equal(td_arena_strdup(arena, "", &after), TD_OK);
    assert_int_equal((uintptr_t)one % alignof(struct item), 0);
    assert_int_equal((uintptr_t)many % alignof(struct item), 0);
    assert_true((char *)one > before);
    assert_true(after < (char *)many || after >= (char *)(many + 100));
}

static void test_impossible_sizes_fail_cleanly(void **state)
{
    td_arena *arena = *state;
    void *memory = &memory;
    assert_int_equal(td_arena_alloc(arena, SIZE_MAX / 2, 4, 8, &memory), TD_ERR_HOST_MEMORY);
    assert_null(memory);
    assert_int_equal(td_arena_alloc(arena, SIZE_MAX, 1, 8, &memory), TD_ERR_HOST_MEMORY);
    assert_int_equal(td_arena_alloc(arena, SIZE_MAX - 8192, 1, 4096, &memory), TD_ERR_HOST_MEMORY);
    assert_non_null(strstr(td_error_last()->message, "memory"));
    assert_int_equal(td_arena_alloc(arena, 8, 1, 8, &memory), TD_OK);
    assert_non_null(memory);
    td_arena_destroy(NULL);
}

int main(void)
{
#define ARENA_TEST(name) cmocka_unit_test_setup_teardown(name, make_arena, destroy_arena)
    const struct CMUnitTest tests[] = {
        ARENA_TEST(test_allocations_are_aligned_apart_and_zeroed),
        ARENA_TEST(test_text_is_copied_whole),
        ARENA_TEST(test_typed_allocation),
        ARENA_TEST(test_impossible_sizes_fail_cleanly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
