"""A dataset with planted faults, for what looks for them: sentences spoken by espeak-ng, then texts swapped, recordings
clipped, drowned in noise, dulled, weakened or cut, rows of other languages and copies added.

    make(folder, sentences, counts, seed) -> {row id: kind of fault}

Needs espeak-ng and Python's standard library.
"""

import array
import math
import operator
import os
import random
import subprocess
import wave
from concurrent.futures import ThreadPoolExecutor

KINDS = ("swapped", "clipped", "noisy", "foreign", "copied", "dull", "faint", "cut")

# What a finding must be called for each kind.
NAMED = {"swapped": {"text"}, "clipped": {"clipping"}, "noisy": {"noise"}, "foreign": {"language"},
         "copied": {"same_recording"}, "dull": {"bandwidth"}, "faint": {"loudness"}, "cut": {"rate"}}

FOREIGN = {
    "de": ["Am Abend ging der alte Mann mit seinem Hund durch den Wald.",
           "Die Kinder spielen heute nicht auf der Wiese hinter dem Haus.",
           "Wir haben gestern einen langen Brief von unserer Tante bekommen.",
           "Das Wetter wird morgen besser, und die Sonne scheint wieder.",
           "Der Zug nach Hamburg hat leider eine Stunde Verspätung."],
    "fr": ["Le petit garçon regarde les bateaux dans le port depuis ce matin.",
           "Nous avons mangé une soupe chaude avec du pain et du fromage.",
           "La vieille dame a perdu ses clefs devant la porte de la maison.",
           "Il pleut beaucoup en automne, mais les enfants aiment jouer dehors.",
           "Elle voudrait partir en voyage avec ses amis pendant l'été."],
}


def speak(jobs):
    """jobs: (voice, path, text)."""
    def one(job):
        subprocess.run(["espeak-ng", "-v", job[0], "-s", "160", "-w", job[1], "--", job[2]], check=True)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(one, jobs))


def read_wav(path):
    with wave.open(path, "rb") as file:
        return array.array("h", file.readframes(file.getnframes())), file.getframerate()


def write_wav(path, samples, rate):
    with wave.open(path, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(array.array("h", (max(-32768, min(32767, round(x))) for x in samples)).tobytes())


def clip(samples, rng):
    """The top is cut off at a fifth to a half of the peak; then the gain is any."""
    limit = max(map(abs, samples)) * rng.uniform(0.2, 0.5)
    gain = rng.choice([1.0, 1.5, 0.7])
    return [gain * max(-limit, min(limit, x)) for x in samples]


def add_noise(samples, rng):
    """White noise 5 to 15 dB below the speech."""
    power = sum(x * x for x in samples) / len(samples)
    sigma = (power / 10 ** (rng.uniform(5, 15) / 10)) ** 0.5
    return [x + rng.gauss(0, sigma) for x in samples]


def dull(samples, rng):
    """What went through half the rate: half of the band is empty. A windowed sinc of 63 taps."""
    n = 63
    taps = [(0.5 if i == n // 2 else math.sin(math.pi * 0.5 * (i - n // 2)) / (math.pi * (i - n // 2)))
            * (0.42 - 0.5 * math.cos(2 * math.pi * i / (n - 1)) + 0.08 * math.cos(4 * math.pi * i / (n - 1))) for i in range(n)]
    padded = [0] * (n // 2) + list(samples) + [0] * (n // 2)
    return [sum(map(operator.mul, taps, padded[i:i + n])) for i in range(len(samples))]


def weaken(samples, rng):
    """10 to 14 dB quieter."""
    gain = 10 ** (-rng.uniform(10, 14) / 20)
    return [gain * x for x in samples]


def cut(samples, rng):
    """Only how it begins."""
    return samples[:int(len(samples) * rng.uniform(0.3, 0.4))]


ALTER = {"clipped": clip, "noisy": add_noise, "dull": dull, "faint": weaken, "cut": cut}


def make(folder, sentences, counts, seed=1):
    """counts: how many rows of each of KINDS. The faults of a swap count by rows, so they come in pairs."""
    rng = random.Random(seed)
    wavs = os.path.join(folder, "wavs")
    os.makedirs(wavs, exist_ok=True)
    texts = {f"row{i:04}": text for i, text in enumerate(sentences)}
    path = lambda name: os.path.join(wavs, name + ".wav")
    speak([("en-us", path(name), text) for name, text in texts.items()])
    free = list(texts)
    rng.shuffle(free)
    planted = {}

    def take(kind):
        names = [free.pop() for _ in range(counts.get(kind, 0))]
        planted.update((name, kind) for name in names)
        return names

    swapped = take("swapped")
    for a, b in zip(swapped[::2], swapped[1::2]):
        texts[a], texts[b] = texts[b], texts[a]
    for kind, alter in ALTER.items():
        for name in take(kind):
            samples, rate = read_wav(path(name))
            write_wav(path(name), alter(samples, rng), rate)
    foreign = [(language, text) for pair in zip(*[[(l, t) for t in lines] for l, lines in FOREIGN.items()]) for language, text in pair]
    for i in range(counts.get("foreign", 0)):
        language, text = foreign[i]
        name = f"foreign{i}"
        texts[name] = text
        speak([(language, path(name), text)])
        planted[name] = "foreign"
    for i in range(counts.get("copied", 0)):  # a little quieter, so that no two files are alike
        samples, rate = read_wav(path(free[i]))
        name = f"zcopy{i}"
        write_wav(path(name), [0.9 * x for x in samples], rate)
        texts[name] = texts[free[i]]
        planted[name] = "copied"
    with open(os.path.join(folder, "metadata.csv"), "w", encoding="utf-8") as file:
        file.writelines(f"{name}|{text}|{text}\n" for name, text in texts.items())
    return planted


def judge(planted, document):
    """What `tandem inspect --json` named of each kind, and which good rows it accused: ({kind: [named, planted]}, rows)."""
    found = {}
    for finding in document["check"]["findings"]:
        found.setdefault(finding["id"], set()).add(finding["check"])
    named = {}
    for name, kind in planted.items():
        tally = named.setdefault(kind, [0, 0])
        tally[0] += bool(found.get(name, set()) & NAMED[kind])
        tally[1] += 1
    return named, {name: checks for name, checks in found.items() if name not in planted}
