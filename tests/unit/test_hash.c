/* Published XXH3 values, pieces against the whole, key separation (src/base/hash.c). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/hash.h"

static void assert_digest_equal(td_digest a, td_digest b)
{
    assert_int_equal(a.low, b.low);
    assert_int_equal(a.high, b.high);
}

static void test_known_values(void **state)
{
    (void)state;
    /* XXH3 of the empty input with seed 0, from the algorithm's specification. */
    assert_int_equal(td_hash64("", 0), 0x2D06800538D394C2u);
    assert_int_equal(td_hash64(NULL, 0), 0x2D06800538D394C2u);
    assert_digest_equal(td_hash128("", 0),
                        (td_digest){.low = 0x6001C324468D497Fu, .high = 0x99AA06D3014798D8u});
}

static void test_every_byte_matters(void **state)
{
    (void)state;
    unsigned char data[300] = {0};
    for (size_t bytes = 1; bytes <= sizeof data; bytes += 23) {
        uint64_t plain = td_hash64(data, bytes);
        td_digest digest = td_hash128(data, bytes);
        for (size_t i = 0; i < bytes; ++i) {
            data[i] = 1;
            assert_int_not_equal(td_hash64(data, bytes), plain);
            assert_int_not_equal(td_hash128(data, bytes).low, digest.low);
            data[i] = 0;
        }
    }
}

static void test_pieces_equal_the_whole(void **state)
{
    (void)state;
    unsigned char data[5000];
    for (size_t i = 0; i < sizeof data; ++i)
        data[i] = (unsigned char)(i * 7);
    const size_t pieces[] = {1, 3, 64, 255, 4096};
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; ++p) {
        td_hasher hasher;
        td_hasher_init(&hasher);
        for (size_t at = 0; at < sizeof data; at += pieces[p]) {
            size_t bytes = sizeof data - at < pieces[p] ? sizeof data - at : pieces[p];
            td_hasher_bytes(&hasher, data + at, bytes);
            td_hasher_digest(&hasher); /* asking in between changes nothing */
        }
        assert_digest_equal(td_hasher_digest(&hasher), td_hash128(data, sizeof data));
    }
}

static td_digest hash_strings(const char *a, const char *b)
{
    td_hasher hasher;
    td_hasher_init(&hasher);
    td_hasher_string(&hasher, a);
    td_hasher_string(&hasher, b);
    return td_hasher_digest(&hasher);
}

static void test_strings_do_not_run_together(void **state)
{
    (void)state;
    assert_int_not_equal(hash_strings("ab", "c").low, hash_strings("a", "bc").low);
    assert_int_not_equal(hash_strings("", "x").low, hash_strings("x", "").low);
    assert_digest_equal(hash_strings("ab", "c"), hash_strings("ab", "c"));
    assert_digest_equal(hash_strings(NULL, "c"), hash_strings("", "c"));
    /* The prefix is eight bytes, low first, on every machine. */
    assert_digest_equal(hash_strings("a", "bc"), td_hash128("\1\0\0\0\0\0\0\0a\2\0\0\0\0\0\0\0bc", 19));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_values),
        cmocka_unit_test(test_every_byte_matters),
        cmocka_unit_test(test_pieces_equal_the_whole),
        cmocka_unit_test(test_strings_do_not_run_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
