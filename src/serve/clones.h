/* Voices that clients have brought: a recording and a name, kept in a folder. A recording lies there under a hash of
 * its content, decoded and written anew; which name belongs to which is in voices.json beside them. So no name and no
 * byte of a request becomes part of a path. Any thread. Covered by tests/serve/test_clones.c.
 */
#ifndef TD_SERVE_CLONES_H
#define TD_SERVE_CLONES_H

#include <stdbool.h>
#include <stddef.h>

#include "tandem/status.h"

enum { TD_VOICE_NAME = 65, TD_MOST_CLONES = 1000, TD_MOST_SAMPLE = 10 << 20 /* bytes of a recording */ };

typedef struct td_clones td_clones;

/* Whether a voice can be called so: 1 to 64 bytes of UTF-8, without control characters and : / \ " < > & */
bool td_voice_is_name(const char *name);

/* Creates the folder where it is missing. TD_ERR_FORMAT names what is wrong with its list. *out: owned,
 * td_clones_close(). */
td_status td_clones_open(const char *folder, td_clones **out);
void td_clones_close(td_clones *clones);

/* Keeps a recording (any format that libsndfile reads) as the voice `name`, to be spoken by the served voice `base`.
 * TD_ERR_CONFIG: the name cannot be one, or is taken; TD_ERR_FORMAT: not a recording, or one without a voice in it;
 * TD_ERR_LIMIT: it is too long, or there are as many as may be. */
td_status td_clones_add(td_clones *clones, const char *name, const char *base, const void *data,
                        size_t bytes);

/* TD_ERR_NOT_FOUND: there is no such voice. */
td_status td_clones_remove(td_clones *clones, const char *name);

/* False: there is no such voice. `path` is that of its recording. */
bool td_clones_find(td_clones *clones, const char *name, char base[TD_VOICE_NAME], char *path,
                    size_t capacity);

/* Name number i in the order they came; false behind the last. */
bool td_clones_get(td_clones *clones, size_t i, char name[TD_VOICE_NAME], char base[TD_VOICE_NAME]);

#endif
