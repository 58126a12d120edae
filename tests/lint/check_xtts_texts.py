#!/usr/bin/env python3
"""Lint of docs/xtts_texts.md: check_xtts_texts.py ROOT [--write].

Checks that the page says what tests/oracle/golden/xtts_texts.tsv has, the table that tests/text/test_readings.c holds
the program to; --write writes it. Exit code 1 when it differs.
"""
import sys
from pathlib import Path

NAMES = {"en": "English", "es": "Spanish", "fr": "French", "de": "German", "it": "Italian", "pt": "Portuguese",
         "pl": "Polish", "tr": "Turkish", "ru": "Russian", "nl": "Dutch", "cs": "Czech", "ar": "Arabic", "zh": "Chinese",
         "hu": "Hungarian", "ko": "Korean", "ja": "Japanese", "hi": "Hindi"}
HEAD = """# What XTTS is given to read

Sentences in {languages} languages, each with what coqui-tts 0.28.0 (with num2words 0.5.14, pypinyin 0.55.0 and cutlet
0.5.2) and Tandem make of it before it becomes tokens. Both read {same} of {all} alike, in lower case and without spaces
before marks; the package fails at {fails}. Listed below is the rest. [xtts.md](xtts.md#text) tells the rules.

`tests/oracle/make_xtts_texts.py` asks the package, `tests/text/test_readings.c` holds Tandem to the table, and a lint
writes this page from it.
"""


def make_page(rows):
    count = lambda keep: sum(1 for row in rows if keep(row))
    page = HEAD.format(languages=len(NAMES), same=count(lambda r: len(r) == 3), all=len(rows),
                       fails=count(lambda r: r[2] == "(fails)"))
    for code, name in NAMES.items():
        mine = [row for row in rows if row[0] == code]
        page += f"\n## {name}: {sum(len(row) == 3 for row in mine)} of {len(mine)} alike\n\n"
        for _, text, theirs, ours in (row for row in mine if len(row) == 4):
            ours = "(refused: how kanji are read takes a dictionary)" if ours == "TD_ERR_FORMAT" else ours
            page += f"- {text}\n  - package: {theirs}\n  - Tandem: {ours}\n"
    return page


def main():
    root = Path(sys.argv[1])
    rows = [line.split("\t") for line in (root / "tests/oracle/golden/xtts_texts.tsv").read_text().splitlines()]
    page, path = make_page(rows), root / "docs/xtts_texts.md"
    if "--write" in sys.argv[2:]:
        path.write_text(page)
    elif not path.exists() or path.read_text() != page:
        print("docs/xtts_texts.md is not what the table has: tests/lint/check_xtts_texts.py . --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
