#!/usr/bin/env python3
"""Calls that src/ does without: no shell and no other program is ever started (docs/security.md), and no call that
writes past the end of what it is given. What the program shows goes through base/print.h, which lets no control character
of a name or a file steer a terminal.

    python3 tests/lint/check_calls.py ROOT
"""

import os
import re
import sys

REFUSED = {
    r"system|popen|wordexp|exec[lv]p?e?|posix_spawnp?": "starts a program or a shell",
    r"gets|strcpy|strcat|sprintf|vsprintf|tmpnam|mktemp|tempnam": "has no bound, or races",
}
CALL = {re.compile(rf"(?<![\w.>])(?:{names})\s*\("): why for names, why in REFUSED.items()}
SHOWN = re.compile(r"(?<![\w.>])(?:v?printf\s*\(|v?fprintf\s*\(\s*std)")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:[^"\\\n]|\\.)*"', re.S)


def find_calls(text, is_program):
    """Line and reason of each call that is refused."""
    plain = COMMENT_OR_TEXT.sub(lambda match: "\n" * match[0].count("\n"), text)
    shown = {SHOWN: "shows control characters raw: td_printf() does not"} if is_program else {}
    for pattern, why in {**CALL, **shown}.items():
        for match in pattern.finditer(plain):
            yield plain.count("\n", 0, match.start()) + 1, match[0].rstrip("( "), why


def main(root):
    if len(list(find_calls('/* system("x"); */ int n = system(name); printf(name);', True))) != 2:
        sys.exit("check_calls: the check itself finds nothing")
    found = 0
    for folder, _, names in os.walk(os.path.join(root, "src")):
        for name in sorted(n for n in names if n.endswith((".c", ".h", ".kh"))):
            path = os.path.join(folder, name)
            is_program = os.path.basename(folder) == "cli" and name != "output.c"
            with open(path, encoding="utf-8") as file:
                for line, call, why in find_calls(file.read(), is_program):
                    print(f"{os.path.relpath(path, root)}:{line}: {call} {why}; do without")
                    found += 1
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "."))
