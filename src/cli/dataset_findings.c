/* What the doctor of datasets found (tools/dataset_check.h), for people and for programs. Covered by
 * tests/cli/test_dataset_check.py.
 */
#include <math.h>

#include "base/error.h"
#include "cli/dataset_view.h"

enum { SHOWN = 20 };

/* How texts and sounds were compared. */
static void print_comparison(const td_dataset_check *c)
{
    if (c->n_heard == 0) return;
    if (c->is_by_aligner)
        td_printf("               text and sound were compared in %zu rows, by an aligner%s\n", c->n_fitted,
                  c->is_adapted ? " that has learnt the voice from them" : "");
    else
        td_printf(
            "               text and sound were compared in %zu rows, letter by letter: it takes some 60 "
            "rows of a\n               speaker, and finds less than an aligner (docs/dataset_check.md)\n",
            c->n_fitted);
}

void td_cli_print_check(const td_cli *cli, const td_dataset_check *c)
{
    td_printf("checks         %zu rows, %zu with findings, %zu of them better left out\n", c->n_rows,
              c->n_accused, c->n_out);
    print_comparison(c);
    for (size_t k = 0; k < td_row_check_count(); ++k) {
        const td_row_check *check = td_row_check_at(k);
        if (td_dataset_check_is_poor(c, k))
            td_printf("all of it      %s (usual: %.3g %s)\n", check->remark, c->limits[k].usual, check->unit);
        if (c->counts[k] > 0)
            td_printf("%-14s %zu: %s; %s\n", check->name, c->counts[k], check->what, check->advice);
    }
    for (size_t i = 0; i < c->n_findings && i < SHOWN; ++i) {
        char message[TD_FINDING_BYTES], place[TD_FILE_PATH_BYTES + 16];
        const td_finding *f = &c->findings[i];
        const uint32_t row = c->rows[f->at].row;
        td_dataset_place(c->dataset, c->dataset->view.rows[row].line, place);
        td_dataset_check_describe(c, f, message);
        td_cli_print_colored(cli, td_row_check_at(f->check)->leaves_out ? TD_COLOR_RED : TD_COLOR_YELLOW,
                             td_row_check_at(f->check)->leaves_out ? "leave out" : "look at", 15);
        td_printf("%s: %s: %s\n", place, td_dataset_id(c->dataset, row), message);
    }
    if (c->n_findings > SHOWN)
        td_printf("               ... and %zu more; --html shows rows to listen to, --json lists all\n",
                  c->n_findings - SHOWN);
}

static void put_limit(td_json *json, const char *key, double value)
{
    if (isfinite(value)) td_json_put_double(json, key, value);
}

static void put_checks(td_json *json, const td_dataset_check *c)
{
    td_json_put_array(json, "checks");
    for (size_t k = 0; k < td_row_check_count(); ++k) {
        const td_row_check *check = td_row_check_at(k);
        td_json_begin_object(json);
        td_json_put_string(json, "name", check->name);
        td_json_put_string(json, "what", check->what);
        td_json_put_string(json, "advice", check->advice);
        td_json_put_bool(json, "leaves_out", check->leaves_out);
        td_json_put_uint(json, "count", c->counts[k]);
        td_json_put_string(json, "unit", check->unit);
        put_limit(json, "usual", c->limits[k].usual);
        put_limit(json, "low", c->limits[k].low);
        put_limit(json, "high", c->limits[k].high);
        td_json_put_string(json, "remark", td_dataset_check_is_poor(c, k) ? check->remark : NULL);
        td_json_end_object(json);
    }
    td_json_end_array(json);
}

static void put_finding(td_json *json, const td_dataset_check *c, const td_finding *f)
{
    char message[TD_FINDING_BYTES], file[TD_FILE_PATH_BYTES];
    const td_row_check *check = td_row_check_at(f->check);
    const uint32_t row = c->rows[f->at].row;
    const uint32_t line = td_source_file(&c->dataset->source, c->dataset->view.rows[row].line, file);
    td_dataset_check_describe(c, f, message);
    td_json_begin_object(json);
    td_json_put_string(json, "id", td_dataset_id(c->dataset, row));
    td_json_put_string(json, "file", file);
    td_json_put_uint(json, "line", line);
    td_json_put_string(json, "check", check->name);
    td_json_put_double(json, "value", f->value);
    td_json_put_double(json, "excess", f->excess);
    td_json_put_bool(json, "leave_out", check->leaves_out);
    td_json_put_string(json, "message", message);
    td_json_put_string(json, "advice", check->advice);
    td_json_end_object(json);
}

void td_cli_put_check(td_json *json, const td_dataset_check *c)
{
    td_json_begin_object(json);
    td_json_put_uint(json, "rows", c->n_rows);
    td_json_put_uint(json, "heard", c->n_heard);
    td_json_put_uint(json, "fitted", c->n_fitted);
    td_json_put_string(json, "compared_by",
                       c->n_fitted == 0   ? NULL
                       : c->is_by_aligner ? "aligner"
                                          : "letters");
    td_json_put_bool(json, "adapted", c->is_adapted);
    td_json_put_uint(json, "accused", c->n_accused);
    td_json_put_uint(json, "left_out", c->n_out);
    put_checks(json, c);
    td_json_put_array(json, "findings");
    for (size_t i = 0; i < c->n_findings; ++i)
        put_finding(json, c, &c->findings[i]);
    td_json_end_array(json);
    td_json_end_object(json);
}
