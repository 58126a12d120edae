/* Connections that dawdle are shut down; those that have said all are not. */
#include <poll.h>
#include <stdbool.h>
#include <sys/socket.h>
#include <unistd.h>

#include "serve/patience.h"
#include "support/expect.h"

static bool has_ended(int socket, int timeout_ms)
{
    struct pollfd p = {.fd = socket, .events = POLLRDHUP};
    return poll(&p, 1, timeout_ms) == 1 && (p.revents & (POLLRDHUP | POLLHUP)) != 0;
}

static void test_patience(void **state)
{
    td_patience *patience;
    td_waited *waited[3];
    int slow[2], busy[2], gone[2];
    (void)state;
    check(td_patience_open(&patience));
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, slow), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, busy), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, gone), 0);
    waited[0] = td_patience_begin(patience, slow[0], 1);
    waited[1] = td_patience_begin(patience, busy[0], 1);
    waited[2] = td_patience_begin(patience, gone[0], 1);
    td_patience_set(patience, waited[1], 0);
    td_patience_end(patience, waited[2]);
    assert_false(has_ended(slow[1], 500));
    assert_true(has_ended(slow[1], 5000));
    assert_false(has_ended(busy[1], 300));
    assert_false(has_ended(gone[1], 0));
    td_patience_end(patience, waited[0]);
    td_patience_end(patience, waited[1]);
    td_patience_close(patience);
    for (int i = 0; i < 2; i++) {
        close(slow[i]);
        close(busy[i]);
        close(gone[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_patience)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
