"""The judges of evaluate.sh. Each takes samples at 16 kHz as evaluate.py prepares them."""

import collections
import importlib.util
import io
import math
import multiprocessing
import os
import pickle
import sys
import types
import zipfile

import librosa
import numpy
import parselmouth

RATE = 16000
HOP = 160  # samples from frame to frame, 10 ms


# ---------------------------------------------------------------- words

def transcribe(samples):
    # It asks for this module on import, for microphones; the module asks for a library of the system.
    sys.modules.setdefault("sounddevice", types.ModuleType("sounddevice"))
    import moonshine_voice

    with moonshine_voice.Transcriber(str(moonshine_voice.get_model_path("tiny-en")),
                                     moonshine_voice.ModelArch.TINY) as transcriber:
        return " ".join(line.text.strip() for line in
                        transcriber.transcribe_without_streaming(samples.tolist(), RATE).lines)


def hear(samples):
    """What moonshine tiny-en understands, which knows any English and nothing of these sentences. What it has heard
    changes what it hears next, so each sound has a process of its own."""
    quiet = numpy.zeros(RATE // 2, numpy.float32)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(transcribe, (numpy.concatenate([quiet, samples, quiet]),))


# ---------------------------------------------------------------- quality

class Dnsmos:
    """Overall quality from 1 to 5, as people would rate it."""

    def __init__(self):
        from speechmos import dnsmos

        self.dnsmos = dnsmos

    def rate(self, samples):
        return float(self.dnsmos.run(samples, RATE)["ovrl_mos"])


# ---------------------------------------------------------------- speaker

def read_weights(path):
    """Tensors of a PyTorch file, without PyTorch; nothing in the file is called but what makes tensors."""
    with zipfile.ZipFile(path) if zipfile.is_zipfile(path) else LegacyFile(path) as file:
        return file.read_state() if isinstance(file, LegacyFile) else read_zip(file)


def make_tensor(storage, offset, shape, stride, *_):
    return numpy.lib.stride_tricks.as_strided(storage[offset:], shape, [s * storage.itemsize for s in stride])


class Unpickler(pickle.Unpickler):
    CALLS = {("torch._utils", "_rebuild_tensor_v2"): make_tensor,
             ("collections", "OrderedDict"): collections.OrderedDict,
             ("torch", "FloatStorage"): "float32", ("torch", "LongStorage"): "int64"}

    def __init__(self, file, load):
        super().__init__(file, encoding="utf-8")
        self.load_storage = load

    def find_class(self, module, name):
        if (module, name) not in self.CALLS:
            raise pickle.UnpicklingError(f"{module}.{name} is not expected in weights")
        return self.CALLS[module, name]

    def persistent_load(self, pid):
        return self.load_storage(pid)


def read_zip(file):
    root = file.namelist()[0].split("/")[0]
    return Unpickler(io.BytesIO(file.read(f"{root}/data.pkl")),
                     lambda pid: numpy.frombuffer(file.read(f"{root}/data/{pid[2]}"), pid[1])).load()


class LegacyFile:
    """The layout before zip files: three pickles, the object, a list of storages, then their bytes."""

    def __init__(self, path):
        self.file = open(path, "rb")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()

    def read_state(self):
        storages = {}

        def load(pid):
            return storages.setdefault(pid[2], numpy.zeros(pid[4], pid[1]))

        for _ in range(3):  # magic, version, sizes of types
            Unpickler(self.file, load).load()
        state = Unpickler(self.file, load).load()
        for key in Unpickler(self.file, load).load():
            count = int.from_bytes(self.file.read(8), "little")
            into = storages[key]
            into[:] = numpy.frombuffer(self.file.read(count * into.itemsize), into.dtype)
        return state


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


class Speakers:
    """Resemblyzer's encoder: three LSTM layers of 256 over windows of 1.6 s of 40 mel bands, then a linear one."""

    WINDOW, STEP, LEAST = 160, 77, 0.75  # frames; share of a last window that must be there

    def __init__(self):
        folder = importlib.util.find_spec("resemblyzer").submodule_search_locations[0]
        self.weights = read_weights(os.path.join(folder, "pretrained.pt"))["model_state"]

    def run_layer(self, x, layer):
        w = self.weights
        inputs = x @ w[f"lstm.weight_ih_l{layer}"].T + w[f"lstm.bias_ih_l{layer}"] + w[f"lstm.bias_hh_l{layer}"]
        recurrent = numpy.ascontiguousarray(w[f"lstm.weight_hh_l{layer}"].T)
        h = c = numpy.zeros((x.shape[0], recurrent.shape[0]), numpy.float32)
        out = numpy.empty((*x.shape[:2], recurrent.shape[0]), numpy.float32)
        for t in range(x.shape[1]):
            i, f, g, o = numpy.split(inputs[:, t] + h @ recurrent, 4, axis=1)
            c = sigmoid(f) * c + sigmoid(i) * numpy.tanh(g)
            out[:, t] = h = sigmoid(o) * numpy.tanh(c)
        return out

    def embed(self, samples):
        """A vector of length 1."""
        n_frames = math.ceil((len(samples) + 1) / HOP)
        starts = list(range(0, max(1, n_frames - self.WINDOW + self.STEP + 1), self.STEP))
        if len(starts) > 1 and (len(samples) - starts[-1] * HOP) / (self.WINDOW * HOP) < self.LEAST:
            starts.pop()
        samples = numpy.pad(samples, (0, max(0, (starts[-1] + self.WINDOW) * HOP - len(samples))))
        mel = librosa.feature.melspectrogram(y=samples, sr=RATE, n_fft=400, hop_length=HOP, n_mels=40).T
        x = numpy.stack([mel[s:s + self.WINDOW] for s in starts]).astype(numpy.float32)
        for layer in range(3):
            x = self.run_layer(x, layer)
        parts = numpy.maximum(x[:, -1] @ self.weights["linear.weight"].T + self.weights["linear.bias"], 0)
        parts /= numpy.linalg.norm(parts, axis=1, keepdims=True) + 1e-9
        whole = parts.mean(axis=0)
        return whole / (numpy.linalg.norm(whole) + 1e-9)

    @staticmethod
    def compare(embedding, known):
        """Cosine to the speaker, who is the mean of the known ones."""
        centre = numpy.mean(known, axis=0)
        return float(embedding @ centre / numpy.linalg.norm(centre))


# ---------------------------------------------------------------- prosody

def track_pitch(samples):
    """Hz every 10 ms, 0 where there is no voice."""
    sound = parselmouth.Sound(samples.astype(numpy.float64), RATE)
    return sound.to_pitch(time_step=HOP / RATE, pitch_floor=75, pitch_ceiling=500).selected_array["frequency"]


def make_cepstra(samples, n_frames):
    cepstra = librosa.feature.mfcc(y=samples, sr=RATE, n_mfcc=13, n_fft=512, hop_length=HOP)[1:]
    return cepstra[:, :n_frames]


def compare_prosody(original, other):
    """Errors of pitch and voicing along the best alignment of the two, and of the length of speech."""
    pitches = [track_pitch(samples) for samples in (original, other)]
    cepstra = [make_cepstra(samples, len(pitch)) for samples, pitch in zip((original, other), pitches)]
    lengths = [min(c.shape[1], len(p)) for c, p in zip(cepstra, pitches)]
    _, path = librosa.sequence.dtw(cepstra[0][:, :lengths[0]], cepstra[1][:, :lengths[1]])
    a, b = pitches[0][path[:, 0]], pitches[1][path[:, 1]]
    both = (a > 0) & (b > 0)
    cents = 1200 * numpy.log2(b[both] / a[both])
    voiced = pitches[1][pitches[1] > 0]
    return {"pitch_error_cents": float(numpy.sqrt(numpy.mean(cents ** 2))) if both.any() else None,
            "pitch_range_cents": float(1200 * numpy.std(numpy.log2(voiced))) if len(voiced) else None,
            "voicing_error": float(numpy.mean((a > 0) != (b > 0))),
            "duration_error": abs(len(other) / len(original) - 1)}
