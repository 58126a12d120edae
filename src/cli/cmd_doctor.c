/* `tandem doctor`: shows the findings of tools/doctor.h, and which packages to install. Covered by
 * tests/cli/test_doctor.py.
 */
#include <stdio.h>
#include <string.h>

#include "base/wrap.h"
#include "cli/cli.h"
#include "settings/read.h"
#include "tools/doctor.h"

enum { INDENT = 11, PACKAGES_BYTES = 1024 };

static const char *const STATUS_NAMES[] = {
    [TD_FINDING_OK] = "ok", [TD_FINDING_NOTE] = "note", [TD_FINDING_PROBLEM] = "problem"};

/* Whether `word` stands between spaces in `words`. */
static bool has_word(const char *words, const char *word, size_t length)
{
    for (const char *at = words; (at = strstr(at, word)) != NULL; at += length) {
        const bool starts = at == words || at[-1] == ' ';
        if (starts && (at[length] == ' ' || at[length] == 0)) return true;
    }
    return false;
}

/* The packages of all findings, each once, separated by spaces. */
static void list_packages(const td_diagnosis *diagnosis, char out[PACKAGES_BYTES])
{
    size_t used = 0;
    out[0] = 0;
    for (size_t i = 0; i < diagnosis->count; i++) {
        char word[sizeof diagnosis->findings[i].packages];
        const char *at = diagnosis->findings[i].packages;
        for (size_t length; (length = strcspn(at, " ")) > 0; at += length + (at[length] == ' ')) {
            snprintf(word, sizeof word, "%.*s", (int)length, at);
            if (has_word(out, word, length) || used + length + 2 > PACKAGES_BYTES) continue;
            used += (size_t)snprintf(out + used, PACKAGES_BYTES - used, "%s%s", used ? " " : "", word);
        }
    }
}

static void print_finding(const td_cli *cli, const td_finding *finding)
{
    static const td_color COLORS[] = {[TD_FINDING_OK] = TD_COLOR_GREEN,
                                      [TD_FINDING_NOTE] = TD_COLOR_YELLOW,
                                      [TD_FINDING_PROBLEM] = TD_COLOR_RED};
    char line[sizeof finding->name + sizeof finding->detail + 2];
    fputs("  ", stdout);
    td_cli_print_colored(cli, COLORS[finding->status], STATUS_NAMES[finding->status], INDENT - 2);
    snprintf(line, sizeof line, "%s: %s", finding->name, finding->detail);
    td_wrap_write(stdout, line, INDENT, INDENT, cli->columns);
    if (*finding->advice) {
        td_printf("%*s-> ", INDENT, "");
        td_wrap_write(stdout, finding->advice, INDENT + 3, INDENT + 3, cli->columns);
    }
}

static void print_diagnosis(const td_cli *cli, const td_diagnosis *diagnosis)
{
    char packages[PACKAGES_BYTES];
    for (size_t i = 0; i < diagnosis->count; i++) {
        const td_finding *finding = &diagnosis->findings[i];
        if (i == 0 || strcmp(finding->group, finding[-1].group) != 0) {
            td_cli_print_colored(cli, TD_COLOR_BOLD, finding->group, 0);
            putchar('\n');
        }
        print_finding(cli, finding);
    }
    list_packages(diagnosis, packages);
    putchar('\n');
    if (*packages) td_printf("To install what is missing: sudo apt install %s\n", packages);
    if (diagnosis->n_usable > 0) {
        td_printf("%zu device%s can compute, %zu problem%s. Next: tandem validate\n", diagnosis->n_usable,
                  diagnosis->n_usable == 1 ? "" : "s", diagnosis->n_problems,
                  diagnosis->n_problems == 1 ? "" : "s");
    } else {
        puts("No device can compute: see what is said above; pocl-opencl-icd makes the CPU one.");
    }
}

/* Words separated by spaces, as an array. */
static void put_words(td_json *json, const char *key, const char *words)
{
    char word[128];
    td_json_put_array(json, key);
    for (size_t length; (length = strcspn(words, " ")) > 0; words += length + (words[length] == ' ')) {
        snprintf(word, sizeof word, "%.*s", (int)length, words);
        td_json_string(json, word);
    }
    td_json_end_array(json);
}

static int print_json(const td_cli *cli, const td_diagnosis *diagnosis, int code)
{
    char packages[PACKAGES_BYTES];
    td_json *json;
    if (td_cli_begin_json(&json) != TD_OK) return td_cli_fail(cli, NULL);
    list_packages(diagnosis, packages);
    td_json_put_array(json, "checks");
    for (size_t i = 0; i < diagnosis->count; i++) {
        const td_finding *finding = &diagnosis->findings[i];
        td_json_begin_object(json);
        td_json_put_string(json, "group", finding->group);
        td_json_put_string(json, "name", finding->name);
        td_json_put_string(json, "status", STATUS_NAMES[finding->status]);
        td_json_put_string(json, "detail", finding->detail);
        td_json_put_string(json, "advice", finding->advice);
        put_words(json, "packages", finding->packages);
        td_json_end_object(json);
    }
    td_json_end_array(json);
    put_words(json, "install", packages);
    td_json_put_uint(json, "usable_devices", diagnosis->n_usable);
    td_json_put_uint(json, "problems", diagnosis->n_problems);
    return td_cli_print_json(cli, json, code);
}

int td_cmd_doctor(td_cli *cli)
{
    td_registry *registry;
    td_diagnosis diagnosis;
    int code;
    if (td_settings_open_registry(cli->options, &registry) != TD_OK) return td_cli_fail(cli, NULL);
    const td_doctor_request request = {
        .registry = registry,
        .cache_dir = td_cli_text(cli, "data.cache_dir"),
        .root = td_cli_system_root(),
    };
    if (td_doctor_run(&request, &diagnosis) != TD_OK) {
        code = td_cli_fail(cli, NULL);
    } else {
        code = diagnosis.n_usable > 0 ? TD_EXIT_DONE : TD_EXIT_FAILED;
        if (cli->json)
            code = print_json(cli, &diagnosis, code);
        else
            print_diagnosis(cli, &diagnosis);
    }
    td_diagnosis_clear(&diagnosis);
    td_registry_close(registry);
    return code;
}
