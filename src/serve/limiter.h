/* How often one client may ask: so many times a minute, counted by its address (of IPv6 the first 64 bits, which are
 * one household's). Clients on this computer are not counted. Any thread. Covered by tests/serve/test_limiter.c.
 */
#ifndef TD_SERVE_LIMITER_H
#define TD_SERVE_LIMITER_H

#include <stdint.h>
#include <sys/socket.h>

#include "tandem/status.h"

typedef struct td_limiter td_limiter;

/* *out: owned, td_limiter_destroy(). */
td_status td_limiter_create(uint32_t per_minute, td_limiter **out);
void td_limiter_destroy(td_limiter *limiter);

/* 0: it may go on, and is counted; else the seconds after which it may. */
uint32_t td_limiter_ask(td_limiter *limiter, const struct sockaddr *client, uint64_t now_ns);

#endif
