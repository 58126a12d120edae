/* libFuzzer target: any bytes as a configuration file, for the program's own options. What --print-config
 * would say must read back without a mistake, unless a text holds what INI cannot (" ;", spaces at its ends).
 * clang -fsanitize=fuzzer,address,undefined; start it with the files of tests/fuzz/corpus/ini.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static size_t count_mistakes(const td_options *options)
{
    size_t count;
    const td_option_mistake *mistakes = td_options_mistakes(options, &count);
    for (size_t i = 0; i < count; ++i) {
        if (*mistakes[i].message == '\0' || strncmp(mistakes[i].place, "fuzz", 4) != 0) abort();
    }
    return count;
}

static const td_option_table *get_table(void)
{
    static td_cli_table table;
    if (table.table.options == NULL && td_cli_make_table(&table) != TD_OK) abort();
    return &table.table;
}

static void read_back(const td_options *options)
{
    char *first = NULL;
    td_options *again = NULL;
    if (td_options_config(options, &first) != TD_OK) return;
    if (td_options_create(get_table(), &again) != TD_OK) abort();
    if (td_options_read_text(again, "fuzz", first, strlen(first)) != TD_OK || count_mistakes(again) != 0)
        abort();
    td_options_destroy(again);
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    td_options *options = NULL;
    if (td_options_create(get_table(), &options) != TD_OK) return 0;
    if (td_options_read_text(options, "fuzz", (const char *)data, bytes) == TD_OK &&
        count_mistakes(options) == 0)
        read_back(options);
    td_options_destroy(options);
    return 0;
}
