/* Option engine: which option was meant by a name that there is not. See options.h. Covered by
 * tests/unit/test_options.c.
 */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "base/text.h"

enum { LEAST_PREFIX = 3, MAX_NAMES = 512 };

/* Names that may be meant. */
typedef struct names {
    const char *at[MAX_NAMES];
    char texts[MAX_NAMES][TD_OPTION_FLAG_BYTES];
    size_t count;
} names;

static void add_name(names *n, const char *text)
{
    if (n->count == MAX_NAMES || *text == '\0') return;
    snprintf(n->texts[n->count], TD_OPTION_FLAG_BYTES, "%s", text);
    n->at[n->count] = n->texts[n->count];
    n->count++;
}

static const char *find_name(const names *n, const char *word)
{
    for (size_t i = 0; i < n->count; i++)
        if (strcmp(n->at[i], word) == 0) return n->at[i];
    return NULL;
}

/* The only name that begins with the word. */
static const char *find_longer(const names *n, const char *word)
{
    const char *found = NULL;
    const size_t bytes = strlen(word);
    if (bytes < LEAST_PREFIX) return NULL;
    for (size_t i = 0; i < n->count; i++) {
        if (strncmp(n->at[i], word, bytes) != 0) continue;
        if (found) return NULL;
        found = n->at[i];
    }
    return found;
}

static const char *find_meant(const td_option_table *table, const names *n, const char *word, bool is_known)
{
    const char *meant = NULL;
    for (size_t i = 0; i < table->n_synonyms && !meant; i++)
        if (strcmp(table->synonyms[i].theirs, word) == 0) meant = find_name(n, table->synonyms[i].ours);
    if (is_known) return meant;
    if (!meant) meant = find_longer(n, word);
    return meant ? meant : td_text_nearest(word, n->at, n->count);
}

bool td_option_suggest(const td_option_table *table, size_t command, const char *word, bool is_known,
                       char out[TD_OPTION_FLAG_BYTES])
{
    names n;
    char flag[TD_OPTION_FLAG_BYTES];
    n.count = 0;
    for (size_t i = 0; i < table->n_options; i++) {
        if (!td_option_is_taken(table, &table->options[i], command)) continue;
        td_option_flag(&table->options[i], flag);
        add_name(&n, flag);
        td_option_opposite(&table->options[i], flag);
        add_name(&n, flag);
    }
    const char *meant = find_meant(table, &n, word, is_known);
    if (meant) snprintf(out, TD_OPTION_FLAG_BYTES, "%s", meant);
    return meant != NULL;
}

bool td_option_suggest_for_argument(const td_option_table *table, size_t command, const char *argument,
                                    char out[TD_OPTION_FLAG_BYTES])
{
    const char *ending = td_file_is_folder(argument) ? "/" : strrchr(argument, '.');
    return ending && td_option_suggest(table, command, ending, true, out);
}

/* The key as a flag of its own would be, whatever flag it has. */
static void name_key(const td_option *option, char out[TD_OPTION_FLAG_BYTES])
{
    td_option_flag(&(td_option){.key = option->key}, out);
}

const char *td_option_suggest_key(const td_option_table *table, const char *section, const char *word)
{
    names n;
    char flag[TD_OPTION_FLAG_BYTES], name[TD_OPTION_FLAG_BYTES];
    n.count = 0;
    snprintf(flag, sizeof flag, "%s", word);
    for (char *c = flag; *c; c++)
        if (*c == '_') *c = '-';
    for (size_t i = 0; i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!option->section || strcmp(option->section, section) != 0) continue;
        name_key(option, name);
        if (!find_name(&n, name)) add_name(&n, name);
    }
    const char *meant = find_meant(table, &n, flag, false);
    for (size_t i = 0; meant && i < table->n_options; i++) {
        const td_option *option = &table->options[i];
        if (!option->section || strcmp(option->section, section) != 0) continue;
        name_key(option, name);
        if (strcmp(name, meant) == 0) return option->key;
    }
    return NULL;
}
