"""Training: tandem/train.h."""

import collections
import ctypes
import os

from ._library import LOG_SINK, ErrorRecord, Handle, library, raise_error, to_bytes


class _Options(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("log_level", ctypes.c_int), ("log", LOG_SINK),
                ("log_context", ctypes.c_void_p)]


class _Value(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("value", ctypes.c_double)]


class _Event(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("kind", ctypes.c_int), ("step", ctypes.c_uint64), ("epoch", ctypes.c_uint64),
                ("is_progress", ctypes.c_bool), ("is_best", ctypes.c_bool), ("n_losses", ctypes.c_size_t),
                ("n_values", ctypes.c_size_t), ("values", ctypes.POINTER(_Value)), ("path", ctypes.c_char_p),
                ("text", ctypes.c_char_p), ("json", ctypes.c_char_p)]


class _Result(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("reason", ctypes.c_int), ("step", ctypes.c_uint64),
                ("n_skipped", ctypes.c_uint64), ("n_saved", ctypes.c_uint64), ("loss", ctypes.c_double),
                ("best_loss", ctypes.c_double), ("ms_per_step", ctypes.c_double), ("save_ms", ctypes.c_double),
                ("data_peak_bytes", ctypes.c_uint64), ("model_peak_bytes", ctypes.c_uint64),
                ("reason_text", ctypes.c_char_p), ("checkpoint", ctypes.c_char_p)]


Event = collections.namedtuple("Event", "kind step epoch is_progress is_best values path text")
Result = collections.namedtuple("Result", "reason step skipped saved loss best_loss ms_per_step checkpoint")

_KINDS = ("start", "step", "validation", "saved", "sampled", "skipped", "warning", "end")
_REASONS = ("done", "time", "patience", "stopped", "dumped", "wished")
_RECEIVER = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.POINTER(_Event))

library.td_training_error.restype = ctypes.POINTER(ErrorRecord)
for _name in ("td_training_error", "td_training_free", "td_training_stop"):
    getattr(library, _name).argtypes = [ctypes.c_void_p]
library.td_training_load.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
library.td_training_set.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_char_p]
library.td_training_get.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_char_p)]
library.td_training_run.argtypes = [ctypes.c_void_p, _RECEIVER, ctypes.c_void_p]
library.td_training_get_result.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Result)]


def _to_text(content):
    return None if content is None else os.fsdecode(content)


def _copy_event(event):
    kind = _KINDS[event.kind] if event.kind < len(_KINDS) else str(event.kind)
    values = {event.values[i].name.decode(): event.values[i].value for i in range(event.n_values)}
    return Event(kind, event.step, event.epoch, event.is_progress, event.is_best, values, _to_text(event.path),
                 _to_text(event.text))


class Training(Handle):
    """A training run: INI files, then keys with values that win over them ({"training.max_steps": 1000}).

    One thread at a time, but for stop(); several runs may go on at once, each in a folder of its own. `log` is called
    with a level's name and a line.
    """
    _free, _error = library.td_training_free, library.td_training_error

    def __init__(self, *files, settings=None, log=None):
        super().__init__(log)
        options = _Options(ctypes.sizeof(_Options), 2, self._log, None)
        code = library.td_training_create(ctypes.byref(options), ctypes.byref(self._handle))
        if code:
            raise_error(code, library.td_error_last().contents)
        for path in files:
            self._check(library.td_training_load(self._handle, to_bytes(path)))
        for key, value in (settings or {}).items():
            self[key] = value

    def __setitem__(self, key, value):
        text = str(value).lower() if isinstance(value, bool) else value
        self._check(library.td_training_set(self._handle, to_bytes(key), to_bytes(text)))

    def __getitem__(self, key):
        value = ctypes.c_char_p()
        self._check(library.td_training_get(self._handle, to_bytes(key), ctypes.byref(value)))
        return _to_text(value.value)

    def run(self, receiver=None):
        """Trains to the end. receiver(event) is called meanwhile; what it raises ends the run and is raised here."""
        raised = []

        def receive(_, event):
            if receiver is None or raised:
                return
            try:
                receiver(_copy_event(event.contents))
            except BaseException as exception:  # not to be lost in the library
                raised.append(exception)
                self.stop()

        code = library.td_training_run(self._handle, _RECEIVER(receive), None)
        if raised:
            raise raised[0]
        self._check(code)
        result = _Result(ctypes.sizeof(_Result))
        self._check(library.td_training_get_result(self._handle, ctypes.byref(result)))
        return Result(_REASONS[result.reason], result.step, result.n_skipped, result.n_saved, result.loss,
                      result.best_loss, result.ms_per_step, _to_text(result.checkpoint))

    def stop(self):
        """Ends the run after its current step, with a checkpoint. From any thread, and from the receiver."""
        library.td_training_stop(self._handle)
