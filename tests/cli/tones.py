"""Small datasets of tones, in LJSpeech's layout, for tests that need recordings but no speech."""

import array
import math
import os
import wave

RATE = 22050


def write_wav(path, samples):
    """16 bits, one channel."""
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(array.array("h", samples).tobytes())


def make_tone(index, count):
    """Another pitch for each index."""
    return [int(9000 * math.sin(0.05 * (index + 2) * t)) for t in range(count)]


def make_dataset(root, rows=6, shortest=6000, longer_by=200):
    """Rows r00, r01 ...; each has so many samples more than the one before."""
    os.makedirs(os.path.join(root, "wavs"))
    with open(os.path.join(root, "metadata.csv"), "w", encoding="utf-8") as file:
        file.writelines(f"r{i:02}|Say {'abcdefgh'[i % 8]} now.\n" for i in range(rows))
    for i in range(rows):
        write_wav(os.path.join(root, "wavs", f"r{i:02}.wav"), make_tone(i, shortest + longer_by * i))
