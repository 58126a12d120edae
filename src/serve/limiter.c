/* See limiter.h. Each client has a bucket that holds a minute's worth and fills evenly; of clients beyond the table's
 * room the one that was silent longest is forgotten, which only ever gives somebody more. */
#include "serve/limiter.h"

#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

enum { CLIENTS = 1024 };

typedef struct bucket {
    uint64_t address; /* 0: unused */
    uint64_t last_ns;
    double left;
} bucket;

struct td_limiter {
    pthread_mutex_t lock;
    uint32_t per_minute;
    bucket clients[CLIENTS];
};

td_status td_limiter_create(uint32_t per_minute, td_limiter **out)
{
    TD_CHECK(TD_NEW(out));
    pthread_mutex_init(&(*out)->lock, NULL);
    (*out)->per_minute = per_minute;
    return TD_OK;
}

void td_limiter_destroy(td_limiter *limiter)
{
    if (!limiter) return;
    pthread_mutex_destroy(&limiter->lock);
    free(limiter);
}

/* As a number; 0: this computer. */
static uint64_t get_address(const struct sockaddr *client)
{
    uint64_t number = 0;
    if (client->sa_family == AF_INET) {
        const uint32_t v4 = ntohl(((const struct sockaddr_in *)client)->sin_addr.s_addr);
        return v4 >> 24 == 127 ? 0 : UINT64_C(1) << 32 | v4;
    }
    if (client->sa_family != AF_INET6) return 0;
    const struct in6_addr *v6 = &((const struct sockaddr_in6 *)client)->sin6_addr;
    if (IN6_IS_ADDR_LOOPBACK(v6)) return 0;
    memcpy(&number, v6, sizeof number);
    return number | 1;
}

static bucket *find_bucket(td_limiter *limiter, uint64_t address, uint64_t now_ns)
{
    bucket *oldest = limiter->clients;
    for (size_t i = 0; i < CLIENTS; i++) {
        bucket *b = &limiter->clients[i];
        if (b->address == address) return b;
        if (b->last_ns < oldest->last_ns) oldest = b;
    }
    *oldest = (bucket){.address = address, .last_ns = now_ns, .left = limiter->per_minute};
    return oldest;
}

uint32_t td_limiter_ask(td_limiter *limiter, const struct sockaddr *client, uint64_t now_ns)
{
    const uint64_t address = get_address(client);
    const double per_second = limiter->per_minute / 60.0;
    uint32_t wait_s = 0;
    if (address == 0) return 0;
    pthread_mutex_lock(&limiter->lock);
    bucket *b = find_bucket(limiter, address, now_ns);
    b->left += per_second * 1e-9 * (double)(now_ns - b->last_ns);
    if (b->left > limiter->per_minute) b->left = limiter->per_minute;
    b->last_ns = now_ns;
    if (b->left >= 1)
        b->left--;
    else
        wait_s = (uint32_t)((1 - b->left) / per_second + 0.999);
    pthread_mutex_unlock(&limiter->lock);
    return wait_s;
}
