"""The work of speak_documents.sh: finds sentences in installed documents, and has voices say them."""

import argparse
import glob
import gzip
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import unicodedata

LANGUAGES = ("en", "de", "es", "fr")
LICENCES = "/usr/share/common-licenses/*"
SHORTEST, LONGEST = 25, 400  # characters of a sentence
LEFT_OUT = re.compile(r"'(.)' \(U\+([0-9A-F]{4,6})\)(?: (\d+) times)?", re.DOTALL)
# Escapes of roff that stand for characters; fonts, sizes and the rest are taken away.
ESCAPES = {r"\-": "-", r"\&": "", r"\ ": " ", r"\~": " ", r"\e": "\\", r"\(aq": "'", r"\(cq": "\u2019", r"\(oq": "\u2018",
           r"\(lq": "\u201c", r"\(rq": "\u201d", r"\(em": "\u2014", r"\(en": "\u2013", r"\(co": "\u00a9", r"\(bu": "\u2022",
           r"\(Fo": "\u00ab", r"\(Fc": "\u00bb", r"\(dq": '"'}


def read_text(path):
    opened = gzip.open if path.endswith(".gz") else open
    try:
        with opened(path, "rb") as file:
            return file.read(1 << 20).decode("utf-8")
    except (OSError, EOFError, UnicodeDecodeError):
        return ""


ACCENTS = {"'": "\u0301", "`": "\u0300", "^": "\u0302", ":": "\u0308", "~": "\u0303", ",": "\u0327"}
ACCENTED = re.compile(r"\\(?:\*?\(([\'`^:~,])([A-Za-z])|\[([\'`^:~,])([A-Za-z])\])")


def accent(match):
    mark, letter = match[1] or match[3], match[2] or match[4]
    return unicodedata.normalize("NFC", letter + ACCENTS[mark])


def strip_roff(text):
    """Paragraphs of a man page."""
    lines = []
    for line in text.split("\n"):
        if line.startswith((".", "'")):
            lines.append("")  # a macro parts paragraphs
            continue
        line = ACCENTED.sub(accent, line)
        for escape, said in ESCAPES.items():
            line = line.replace(escape, said)
        line = re.sub(r"\\f(\[[^]]*\]|\(..|.)|\\s[-+]?\d|\\[*n](\[[^]]*\]|\(..|.)|\\\[[^]]*\]|\\\(..|\\.", "", line)
        lines.append(line)
    return "\n".join(lines)


def find_sentences(language):
    """Sentences of the language's documents, each once, in an order that does not depend on who wrote them."""
    folder = "/usr/share/man" if language == "en" else f"/usr/share/man/{language}"
    pages = sorted(glob.glob(f"{folder}/man[1-9]/*.gz"))
    texts = [strip_roff(read_text(path)) for path in pages[:: max(1, len(pages) // 200)]]
    if language == "en":
        texts += [read_text(path) for path in sorted(glob.glob(LICENCES))]
    found = set()
    for text in texts:
        for paragraph in re.split(r"\n\s*\n", text):
            for sentence in re.split(r"(?<=[.!?])\s+(?=[^\W\d_])", " ".join(paragraph.split())):
                if SHORTEST <= len(sentence) <= LONGEST and sentence[-1] in ".!?" and sentence[0].isupper():
                    found.add(sentence)
    return sorted(found, key=lambda s: hashlib.sha256(s.encode()).digest())


def choose(count):
    """As many sentences of each language as there are, or as are wanted."""
    chosen, told = [], {}
    for number, language in enumerate(LANGUAGES):
        wanted = (count * (number + 1)) // len(LANGUAGES) - (count * number) // len(LANGUAGES)
        some = find_sentences(language)[:wanted]
        told[language] = len(some)
        chosen += some
    return chosen, told


def speak(args, voice, listing, folder):
    """What a voice made of the sentences: one file each, or an error."""
    done = subprocess.run([args.tandem, "synth", "--checkpoint", voice, "--text-file", listing, "-o", folder + "/",
                           "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    left_out = {}
    for line in done.stderr.splitlines():
        if "left out" not in line:
            continue
        if " others" in line:
            sys.exit(f"speak_documents: more was left out of a sentence than is told: {line}")
        for character, _, times in LEFT_OUT.findall(line):
            left_out[character] = left_out.get(character, 0) + int(times or 1)
    errors = [line for line in done.stderr.splitlines() if "error" in line or "cut off" in line]
    if done.returncode or errors:
        return {"errors": errors or [done.stderr[-500:]], "spoken": 0, "audio_s": 0, "left_out": left_out}
    told = json.loads(done.stdout)
    return {"errors": [], "spoken": told["files"], "audio_s": told["audio_s"], "left_out": left_out}


def tell(voice, result, count):
    print(f"{voice}: {result['spoken']} of {count} sentences, {result['audio_s']:.0f} s of speech, "
          f"{len(result['errors'])} errors")
    for line in result["errors"]:
        print(f"    {line}")
    for character, times in sorted(result["left_out"].items(), key=lambda item: -item[1]):
        print(f"    left out: '{character}' (U+{ord(character):04X}) {times} times")


def main():
    parser = argparse.ArgumentParser(prog="speak_documents.sh", description="Voices say installed documents.")
    parser.add_argument("voices", nargs="+", metavar="VOICE")
    parser.add_argument("--sentences", type=int, default=1000, help="in all (1000)")
    parser.add_argument("--json", action="store_true", help="print what was found as JSON")
    parser.add_argument("--keep", metavar="DIR", help="leave texts and recordings there")
    parser.add_argument("--tandem", required=True, help=argparse.SUPPRESS)
    args = parser.parse_args()
    sentences, told = choose(args.sentences)
    if not sentences:
        sys.exit("speak_documents: no documents are installed here")
    results = {}
    with tempfile.TemporaryDirectory(prefix="tandem-documents-") as temporary:
        work = args.keep or temporary
        os.makedirs(work, exist_ok=True)
        listing = os.path.join(work, "sentences.txt")
        with open(listing, "w", encoding="utf-8") as out:
            out.writelines(sentence + "\n" for sentence in sentences)
        for number, voice in enumerate(args.voices):
            results[voice] = speak(args, voice, listing, os.path.join(work, f"voice-{number}"))
    if args.json:
        print(json.dumps({"sentences": told, "voices": results}, indent=2, ensure_ascii=False))
    else:
        print("Sentences: " + ", ".join(f"{language} {count}" for language, count in told.items()))
        for voice, result in results.items():
            tell(voice, result, len(sentences))
    sys.exit(any(result["errors"] or result["spoken"] < len(sentences) for result in results.values()))


if __name__ == "__main__":
    main()
