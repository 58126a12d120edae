/* Wyoming, the protocol of Home Assistant: a line of JSON, then its data and payload, over TCP. Voices are told
 * (describe), texts are spoken whole or as they come (synthesize, synthesize-start ...). Covered by
 * tests/cli/test_serve.py, tests/serve/test_wyoming.c and tests/fuzz/fuzz_wyoming.c.
 */
#ifndef TD_SERVE_WYOMING_H
#define TD_SERVE_WYOMING_H

#include "serve/server.h"

typedef struct td_wyoming td_wyoming;

/* The server is borrowed until close. *out: owned, td_wyoming_close(). */
td_status td_wyoming_open(td_server *server, const char *host, uint16_t port, td_wyoming **out);
uint16_t td_wyoming_port(const td_wyoming *wyoming);
void td_wyoming_close(td_wyoming *wyoming);

/* ---------------------------------------------------------------- messages, for tests */

enum { TD_WYOMING_LINE = 65536, TD_WYOMING_DATA = 1 << 20 };

/* The head of a message: its type and how much follows. Owned by the caller: *data, cJSON_Delete(), NULL: none. */
typedef struct td_wyoming_head {
    char type[64];
    size_t data_bytes, payload_bytes;
    struct cJSON *data; /* inline */
} td_wyoming_head;

/* How many bytes of a text that is still coming are whole sentences. A full stop ends one only behind a word of four
 * letters, so that "Dr." does not: what is in doubt waits for more. SSML is whole at its end alone. */
size_t td_wyoming_count_whole(const char *text, size_t bytes);

/* TD_ERR_FORMAT: not a head, or one that announces too much. `line` ends with a zero. */
td_status td_wyoming_read_head(const char *line, td_wyoming_head *out);

#endif
