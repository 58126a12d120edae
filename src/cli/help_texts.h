/* Texts about all commands and options for other programs, made from the option table: a man page, and
 * completion for shells. Covered by tests/cli/test_help.py.
 */
#ifndef TD_CLI_HELP_TEXTS_H
#define TD_CLI_HELP_TEXTS_H

#include <stdio.h>

#include "base/options.h"

/* Page 1 of the manual, in the man macros of roff. */
void td_help_write_man(FILE *text, const td_option_table *table);

/* `shell`: bash, zsh or fish. */
void td_help_write_completion(FILE *text, const td_option_table *table, const char *shell);

#endif
