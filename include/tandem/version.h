/* SPDX-License-Identifier: MIT
 *
 * The version of the library: of these headers, and of what a program was linked with. The build reads it
 * from here. Covered by tests/unit/test_version.c.
 */
#ifndef TANDEM_VERSION_H
#define TANDEM_VERSION_H

#define TANDEM_VERSION_MAJOR 0
#define TANDEM_VERSION_MINOR 1
#define TANDEM_VERSION_PATCH 0

#define TANDEM_VERSION_TEXT_(major, minor, patch) #major "." #minor "." #patch
#define TANDEM_VERSION_TEXT(major, minor, patch) TANDEM_VERSION_TEXT_(major, minor, patch)
/* "0.1.0" */
#define TANDEM_VERSION TANDEM_VERSION_TEXT(TANDEM_VERSION_MAJOR, TANDEM_VERSION_MINOR, TANDEM_VERSION_PATCH)

#pragma GCC visibility push(default)
#ifdef __cplusplus
extern "C" {
#endif

/* TANDEM_VERSION of the library that the program runs with. */
const char *td_version(void);

#ifdef __cplusplus
}
#endif
#pragma GCC visibility pop
#endif
