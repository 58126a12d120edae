"""The library, and what all of its interfaces share: statuses, errors, the log."""

import ctypes
import ctypes.util
import os


class ErrorRecord(ctypes.Structure):
    """td_error of tandem/status.h."""
    _fields_ = [("status", ctypes.c_int), ("message", ctypes.c_char * 768), ("native", ctypes.c_char * 64),
                ("file", ctypes.c_char_p), ("line", ctypes.c_int)]


class Error(Exception):
    """A call that failed; `status` is the name of its code, such as "TD_ERR_CONFIG"."""

    def __init__(self, code, message):
        library.td_status_name.restype = ctypes.c_char_p
        self.status = library.td_status_name(code).decode()
        super().__init__(message)


def _open():
    name = os.environ.get("TANDEM_LIBRARY") or ctypes.util.find_library("tandem") or "libtandem.so.0"
    return ctypes.CDLL(name)


library = _open()
library.td_error_last.restype = ctypes.POINTER(ErrorRecord)

LOG_SINK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_char_p)
LOG_LEVELS = ("error", "warning", "info", "debug")


def make_log_sink(log):
    """A callback for log(level, message); NULL for None. Keep it as long as the handle."""
    if log is None:
        return LOG_SINK()
    return LOG_SINK(lambda _, level, message: log(LOG_LEVELS[level], message.decode("utf-8", "replace")))


def to_bytes(text):
    """A path or text as the library takes it; None stays."""
    return None if text is None else os.fsencode(text) if isinstance(text, os.PathLike) else str(text).encode()


def raise_error(code, record):
    """The exception for a failed call."""
    raise Error(code, record.message.decode("utf-8", "replace"))


class Handle:
    """Something of the library that is freed by close(), at the end of `with`, or when nobody has it any more.
    `_free` and `_error` are the library's functions for its kind."""
    _free = _error = None

    def __init__(self, log):
        self._handle = ctypes.c_void_p()
        self._log = make_log_sink(log)

    def close(self):
        """Frees it; it is of no use then."""
        self._free(self._handle)
        self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if getattr(self, "_handle", None):
            self.close()

    def _check(self, code):
        if code:
            raise_error(code, self._error(self._handle).contents)
