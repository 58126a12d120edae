/* So many a minute for each client, none for this computer. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "serve/limiter.h"
#include "support/expect.h"

#define SECOND UINT64_C(1000000000)

static uint32_t ask(td_limiter *limiter, const char *address, uint64_t now_ns)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return td_limiter_ask(limiter, (const struct sockaddr *)&v4, now_ns);
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return td_limiter_ask(limiter, (const struct sockaddr *)&v6, now_ns);
}

static void test_limit(void **state)
{
    uint64_t now = 100 * SECOND;
    td_limiter *limiter;
    (void)state;
    check(td_limiter_create(6, &limiter));
    for (int i = 0; i < 6; i++)
        assert_int_equal(ask(limiter, "10.0.0.1", now), 0);
    assert_int_equal(ask(limiter, "10.0.0.1", now), 10); /* one in ten seconds */
    assert_int_equal(ask(limiter, "10.0.0.2", now), 0);
    now += 5 * SECOND;
    assert_int_equal(ask(limiter, "10.0.0.1", now), 5);
    now += 5 * SECOND;
    assert_int_equal(ask(limiter, "10.0.0.1", now), 0);
    assert_int_not_equal(ask(limiter, "10.0.0.1", now), 0);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ask(limiter, "2001:db8::1", now), 0);
    assert_int_not_equal(ask(limiter, "2001:db8::2", now), 0); /* the same household */
    assert_int_equal(ask(limiter, "2001:db8:1::2", now), 0);
    for (int i = 0; i < 100; i++) {
        assert_int_equal(ask(limiter, "127.0.0.1", now), 0);
        assert_int_equal(ask(limiter, "::1", now), 0);
    }
    td_limiter_destroy(limiter);
}

/* More clients than there is room for: nobody is refused who asks for the first time. */
static void test_many(void **state)
{
    char address[32];
    td_limiter *limiter;
    (void)state;
    check(td_limiter_create(1, &limiter));
    for (unsigned i = 0; i < 5000; i++) {
        snprintf(address, sizeof address, "10.1.%u.%u", i / 250, i % 250);
        assert_int_equal(ask(limiter, address, SECOND * (1 + i)), 0);
    }
    assert_int_not_equal(ask(limiter, address, SECOND * 5000), 0);
    td_limiter_destroy(limiter);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_limit), cmocka_unit_test(test_many)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
