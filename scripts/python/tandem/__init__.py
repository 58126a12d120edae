"""Voices of Tandem from Python, over libtandem and ctypes alone.

    import tandem
    with tandem.Voice("voice.safetensors") as voice:
        samples = voice.speak("Hello. How are you?")
        voice.save("Hello.", "hello.wav")
        for chunk in voice.stream("A long text. It is heard before its end is made."):
            play(chunk, voice.info.rate)

Samples are a NumPy array of float32 where NumPy is there, else an array.array("f").

The library is what the environment variable TANDEM_LIBRARY names, else the system's libtandem.
"""

from ._library import Error
from .voice import Voice

__all__ = ["Error", "Voice"]
