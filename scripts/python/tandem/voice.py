"""Voices: tandem/voice.h."""

import array
import collections
import ctypes
import queue
import threading
import wave

from ._library import LOG_SINK, ErrorRecord, Handle, library, raise_error, to_bytes

try:
    import numpy
except ImportError:
    numpy = None

_FLOATS = ctypes.POINTER(ctypes.c_float)
_SINK = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, _FLOATS, ctypes.c_size_t)


class _VoiceOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("path", ctypes.c_char_p), ("device", ctypes.c_char_p),
                ("cache_dir", ctypes.c_char_p), ("log", LOG_SINK), ("log_context", ctypes.c_void_p),
                ("log_level", ctypes.c_int), ("lexicon", ctypes.c_char_p)]


class _VoiceInfo(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("family", ctypes.c_char_p), ("languages", ctypes.c_char_p),
                ("speakers", ctypes.c_char_p), ("device", ctypes.c_void_p), ("parameters", ctypes.c_uint64),
                ("rate", ctypes.c_uint32), ("n_speakers", ctypes.c_uint32), ("needs_reference", ctypes.c_bool),
                ("has_speed", ctypes.c_bool), ("has_pitch", ctypes.c_bool), ("has_energy", ctypes.c_bool)]


class _SpeakOptions(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("speaker", ctypes.c_char_p), ("reference", ctypes.c_char_p),
                ("language", ctypes.c_char_p), ("speed", ctypes.c_double), ("pitch_shift", ctypes.c_double),
                ("energy", ctypes.c_double), ("seed", ctypes.c_uint64), ("strict_text", ctypes.c_bool)]


Info = collections.namedtuple("Info", "family languages speakers parameters rate needs_reference has_speed has_pitch "
                                      "has_energy")

library.td_voice_error.restype = ctypes.POINTER(ErrorRecord)
for _name in ("td_voice_error", "td_voice_close", "td_voice_cancel", "td_voice_free_samples"):
    getattr(library, _name).argtypes = [ctypes.c_void_p]
library.td_voice_get_info.argtypes = [ctypes.c_void_p, ctypes.POINTER(_VoiceInfo)]
library.td_voice_speak.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_SpeakOptions),
                                   ctypes.POINTER(_FLOATS), ctypes.POINTER(ctypes.c_size_t)]
library.td_voice_stream.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_SpeakOptions), _SINK,
                                    ctypes.c_void_p]


def _copy_samples(samples, count):
    content = ctypes.string_at(samples, 4 * count)
    return array.array("f", content) if numpy is None else numpy.frombuffer(content, numpy.float32).copy()


def _make_options(speaker=None, reference=None, language=None, speed=1.0, pitch_shift=0.0, energy=1.0, seed=0,
                  strict_text=False):
    return _SpeakOptions(ctypes.sizeof(_SpeakOptions), to_bytes(speaker), to_bytes(reference), to_bytes(language), speed,
                         pitch_shift, energy, seed, strict_text)


class Voice(Handle):
    """A voice's file, opened on a device ("cpu", "gpu", "cl:0.0" ...; None: the best there is).

    One thread at a time, but for cancel(); several voices may speak at once. speak(), stream() and save() take
    speaker, reference (path of a recording), language, speed, pitch_shift (semitones), energy, seed and strict_text
    (a character that the voice has not learnt is an error instead of a warning).
    `log` is called with a level's name and a line; `lexicon` is a file of lines WORD<TAB>RESPELLING or
    WORD<TAB>/PHONEMES/. A text that begins with <speak> is SSML.
    """
    _free, _error = library.td_voice_close, library.td_voice_error

    def __init__(self, path, device=None, cache_dir=None, log=None, lexicon=None):
        super().__init__(log)
        options = _VoiceOptions(ctypes.sizeof(_VoiceOptions), to_bytes(path), to_bytes(device), to_bytes(cache_dir),
                                self._log, None, 2, to_bytes(lexicon))
        error = ErrorRecord()
        code = library.td_voice_open(ctypes.byref(options), ctypes.byref(self._handle), ctypes.byref(error))
        if code:
            raise_error(code, error)
        info = _VoiceInfo(ctypes.sizeof(_VoiceInfo))
        library.td_voice_get_info(self._handle, ctypes.byref(info))
        self.info = Info(info.family.decode(), info.languages.decode().splitlines(), info.speakers.decode().splitlines(),
                         info.parameters, info.rate, info.needs_reference, info.has_speed, info.has_pitch,
                         info.has_energy)

    def speak(self, text, **options):
        """All samples of a text, 1 being full scale."""
        samples, count = _FLOATS(), ctypes.c_size_t()
        self._check(library.td_voice_speak(self._handle, to_bytes(text), ctypes.byref(_make_options(**options)),
                                           ctypes.byref(samples), ctypes.byref(count)))
        try:
            return _copy_samples(samples, count.value)
        finally:
            library.td_voice_free_samples(samples)

    def stream(self, text, **options):
        """Yields samples while the rest is made. Whoever stops asking for more ends the speech."""
        options = _make_options(**options)
        chunks, ended, failures = queue.Queue(maxsize=2), threading.Event(), []

        def put(chunk):
            while not ended.is_set():
                try:
                    chunks.put(chunk, timeout=0.1)
                    return True
                except queue.Full:
                    pass
            return False

        def speak():
            sink = _SINK(lambda _, samples, count: put(_copy_samples(samples, count)))
            try:
                self._check(library.td_voice_stream(self._handle, to_bytes(text), ctypes.byref(options), sink, None))
            except Exception as failure:  # handed over to who asks for samples
                failures.append(failure)
            put(None)

        thread = threading.Thread(target=speak)
        thread.start()
        try:
            while (chunk := chunks.get()) is not None:
                yield chunk
        finally:
            ended.set()
            self.cancel()
            thread.join()
        if failures:
            raise failures[0]

    def save(self, text, path, **options):
        """Speaks into a WAV file of 16 bits, while it is made."""
        with wave.open(str(path), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(self.info.rate)
            for chunk in self.stream(text, **options):
                values = array.array("h", (round(32767 * min(max(value, -1.0), 1.0)) for value in chunk.tolist()))
                file.writeframes(values.tobytes())

    def cancel(self):
        """Ends the call that the voice is in, from any thread."""
        library.td_voice_cancel(self._handle)
