/* How much of a long walk or of many random rounds a build takes. The optimised build takes all. Builds with
 * a sanitizer, where a round takes several times as long, are told by TANDEM_TEST_SHARE=N to take one of N.
 */
#ifndef TD_TESTS_SHARE_H
#define TD_TESTS_SHARE_H

#include <stdlib.h>

static inline unsigned test_share(void)
{
    const char *given = getenv("TANDEM_TEST_SHARE");
    const int share = given ? atoi(given) : 1;
    return share > 0 ? (unsigned)share : 1;
}

#endif
