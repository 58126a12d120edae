/* Short words for the rows of an option table (base/options.h), so that they read as: where it is kept, how
 * it is typed, what it may be, who takes it and why. For the files that hold such tables alone.
 */
#ifndef TD_SETTINGS_ROWS_H
#define TD_SETTINGS_ROWS_H

#include "base/options.h"

#define KEY(section_, key_) .section = section_, .key = key_
#define FLAG(flag_) .flag = flag_
#define LETTER(letter_) .letter = letter_
#define SWITCH .type = TD_OPTION_BOOL
#define BOOL(default_) .type = TD_OPTION_BOOL, .default_text = default_
#define INT(default_, min_, max_)                                                                            \
    .type = TD_OPTION_INT, .default_text = default_, .placeholder = "N", .min = min_, .max = max_
#define SHARE(default_)                                                                                      \
    .type = TD_OPTION_FLOAT, .default_text = default_, .placeholder = "SHARE", .min = 0, .max = 1
#define REAL(default_, min_, max_)                                                                           \
    .type = TD_OPTION_FLOAT, .default_text = default_, .placeholder = "X", .min = min_, .max = max_
#define SIZE_MB(default_)                                                                                    \
    .type = TD_OPTION_SIZE_MB, .default_text = default_, .placeholder = "MB", .min = 1, .max = 1 << 24
#define TEXT(placeholder_) .type = TD_OPTION_TEXT, .placeholder = placeholder_
#define PATH(placeholder_) .type = TD_OPTION_PATH, .placeholder = placeholder_
#define REPEATS .repeats = true
#define CHOICE(default_, choices_) .type = TD_OPTION_CHOICE, .default_text = default_, .choices = choices_
#define FOR(group_, topics_, help_) .group = group_, .topics = topics_, .help = help_
#define USUAL(...) FOR(__VA_ARGS__), .usual = true

#endif
