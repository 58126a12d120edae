#!/usr/bin/env python3
"""Judges packages: two folders of scripts/package.sh hold the same bytes, and the Debian package and the tarball hold
what they should, owned by root, all of one time, with dependencies found by dpkg-shlibdeps; the program is hardened as
docs/security.md says.

    python3 tests/packaging/check_packages.py FOLDER OTHER_FOLDER

Needs only Python's standard library, dpkg-deb and readelf.
"""

import fnmatch
import glob
import hashlib
import os
import re
import subprocess
import sys
import tarfile
import tempfile

EXPECTED = """
bin/tandem
include/tandem/channel.h
include/tandem/device.h
include/tandem/log.h
include/tandem/memory.h
include/tandem/queue.h
include/tandem/status.h
include/tandem/train.h
include/tandem/version.h
include/tandem/voice.h
lib*/libtandem.a
lib*/libtandem.so
lib*/libtandem.so.[0-9]
lib*/libtandem.so.[0-9]*.[0-9]*.[0-9]*
lib*/pkgconfig/tandem.pc
share/bash-completion/completions/tandem
share/doc/tandem/LICENSE
share/doc/tandem/configs/*.ini
share/doc/tandem/third_party_notes.md
share/fish/vendor_completions.d/tandem.fish
share/man/man1/tandem.1
share/zsh/vendor-completions/_tandem
""".split()
DEPENDS = ["libc6", "libcjson1", "libexttextcat-2.0-0", "libexttextcat-data", "libicu", "libinih1", "libpng16-16", "libsndfile1",
           "libsoxr0", "libxxhash0"]


MODULE = "lib/tandem/libtandem_mpi.so"  # in the tarball, and in a Debian package of its own


def only(pattern):
    found = glob.glob(pattern)
    assert len(found) == 1, f"{pattern}: {found}"
    return found[0]


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def check_members(what, members, top, has_module):
    """All root's, of one time, readable; and the files as listed."""
    assert {(m.uid, m.gid) for m in members} == {(0, 0)}, f"{what}: not all are root's"
    assert len({m.mtime for m in members}) == 1, f"{what}: several times"
    names = [m.name.removeprefix("./") for m in members if not m.isdir()]
    assert all(name.startswith(top) for name in names), f"{what}: {names}"
    for m in members:
        assert m.issym() or m.mode & 0o555 == (0o555 if m.isdir() or m.name.endswith("bin/tandem") else 0o444), m.name
    names = sorted(name.removeprefix(top) for name in names)
    assert (MODULE in names) == has_module, f"{what}: {MODULE} belongs into the tarball and tandem-mpi alone"
    names = [name for name in names if name != MODULE]
    for pattern in EXPECTED:
        assert fnmatch.filter(names, pattern), f"{what}: {pattern} is missing from {names}"
    extra = [n for n in names if not any(fnmatch.fnmatchcase(n, pattern) for pattern in EXPECTED)]
    assert not extra, f"{what}: {extra} should not be there"
    return len(names)


def check_hardening(archive, member):
    with tempfile.NamedTemporaryFile() as program:
        program.write(archive.extractfile(member).read())
        program.flush()
        told = subprocess.run(["readelf", "-hldsW", program.name], capture_output=True, text=True, check=True).stdout
    for what, pattern in {"position independent": r"Type:\s+DYN", "bound at the start": r"FLAGS_1.*\bNOW\b", "read-only relocations":
                          "GNU_RELRO", "stack protector": "__stack_chk_fail", "checked calls of libc": r"_chk@GLIBC",
                          "no executable stack": r"GNU_STACK.*\bRW \s"}.items():
        assert re.search(pattern, told), f"{member.name}: {what} is missing"


def main(first, second):
    deb, tarball = only(f"{first}/tandem_*.deb"), only(f"{first}/*.tar.gz")
    for path in (deb, only(f"{first}/tandem-mpi_*.deb"), tarball):
        other = os.path.join(second, os.path.basename(path))
        assert digest(path) == digest(other), f"{path} and {other} differ"
        with open(path + ".sha256", encoding="ascii") as file:
            assert file.read().split()[0] == digest(path), f"{path}.sha256 is of another file"
    with tarfile.open(tarball) as archive:
        members = archive.getmembers()
        check_hardening(archive, next(m for m in members if m.name.endswith("bin/tandem")))
    count = check_members(tarball, members, members[0].name.split("/")[0] + "/", True)
    with subprocess.Popen(["dpkg-deb", "--fsys-tarfile", deb], stdout=subprocess.PIPE) as unpacking:
        with tarfile.open(fileobj=unpacking.stdout, mode="r|") as archive:
            assert check_members(deb, list(archive), "usr/", False) == count
    depends = subprocess.run(["dpkg-deb", "-f", deb, "Depends"], capture_output=True, text=True, check=True).stdout
    assert "openmpi" not in depends, f"only tandem-mpi may need Open MPI: {depends}"
    for name in DEPENDS:
        assert re.search(rf"(^|, ){re.escape(name)}", depends), f"{name} is not among the dependencies: {depends}"
    print(f"{count} files in each, the same bytes twice")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except AssertionError as problem:
        sys.exit(f"check_packages: {problem}")
