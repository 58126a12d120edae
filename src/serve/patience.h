/* Connections that take too long to say what they want: each has a time by which its request must be whole, and is
 * shut down behind it, however steadily single bytes come. Covered by tests/cli/test_serve.py.
 */
#ifndef TD_SERVE_PATIENCE_H
#define TD_SERVE_PATIENCE_H

#include <stdint.h>

#include "tandem/status.h"

typedef struct td_patience td_patience;
typedef struct td_waited td_waited; /* a connection that is waited for */

/* *out: owned, td_patience_close(). */
td_status td_patience_open(td_patience **out);
void td_patience_close(td_patience *patience); /* NULL is fine; no connection is left */

/* A connection has come; its request must be whole within so many seconds. NULL: there is no memory. The socket stays
 * the caller's, and open until the connection leaves. */
td_waited *td_patience_begin(td_patience *patience, int socket, uint32_t seconds);

/* From now on it has so many seconds; 0: as long as it takes. */
void td_patience_set(td_patience *patience, td_waited *waited, uint32_t seconds);

/* The connection is about to be closed. NULL is fine. */
void td_patience_end(td_patience *patience, td_waited *waited);

#endif
