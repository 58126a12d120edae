"""The page of evaluate.sh: the table, and all sounds side by side, in one file."""

import base64
import html
import io

import soundfile

from evaluate_judges import RATE

STYLE = """body { font: 15px sans-serif; margin: 2em; max-width: 80em } table { border-collapse: collapse }
td, th { padding: .3em .7em; border-bottom: 1px solid #ccc; text-align: right; vertical-align: top }
td:first-child, th:first-child, .said { text-align: left } audio { width: 14em } small { color: #666 }"""


def encode(samples):
    """FLAC as a link: half the size of WAV, and the same samples to 16 bits."""
    out = io.BytesIO()
    soundfile.write(out, samples, RATE, format="FLAC", subtype="PCM_16")
    return "data:audio/flac;base64," + base64.b64encode(out.getvalue()).decode()


def show(value, key):
    if value is None:
        return ""
    return f"{value:.0f}" if "cents" in key else f"{value:.3f}"


def write_page(path, headings, summary, judged, columns):
    with open(path, "w", encoding="utf-8") as out:
        out.write(f"<!doctype html><meta charset=utf-8><title>How the voices sound</title><style>{STYLE}</style>\n"
                  "<h1>How the voices sound</h1>\n<table><tr><th>")
        out.writelines(f"<th>{html.escape(heading)}" for heading in headings.values())
        for name, values in summary.items():
            out.write(f"\n<tr><td>{html.escape(name)}")
            out.writelines(f"<td>{show(values[key], key)}" for key in headings)
        out.write("\n</table>\n<p>All sounds are as the judges heard them: 16 kHz, one level, ends cut.\n<table><tr><th>")
        out.writelines(f"<th>{html.escape(name)}" for name in columns)
        for i, row in enumerate(judged):
            out.write(f"\n<tr><td class=said>{html.escape(row['text'])}<br><small>{html.escape(row['id'])}</small>")
            for name, sounds in columns.items():
                of = row["columns"][name]
                out.write(f"<td class=said><audio controls preload=none src=\"{encode(sounds[i])}\"></audio><br><small>"
                          f"{html.escape(of['heard'])}<br>{of['errors']} of {of['words']} words wrong, DNSMOS "
                          f"{of['dnsmos']:.2f}, similarity {of['similarity']:.2f}</small>")
        out.write("\n</table>\n")
