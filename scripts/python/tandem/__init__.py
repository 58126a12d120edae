"""Tandem from Python, over libtandem and ctypes alone: voices that speak, and training them.

    import tandem
    with tandem.Voice("voice.safetensors") as voice:
        samples = voice.speak("Hello. How are you?")
        voice.save("Hello.", "hello.wav")
        for chunk in voice.stream("A long text. It is heard before its end is made."):
            play(chunk, voice.info.rate)

Samples are a NumPy array of float32 where NumPy is there, else an array.array("f").

    with tandem.Training("my.ini", settings={"training.max_steps": 1000}) as training:
        result = training.run(lambda event: print(event.kind, event.step, event.values))
    tandem.Voice(result.checkpoint)

The library is what the environment variable TANDEM_LIBRARY names, else the system's libtandem.
"""

from ._library import Error
from .training import Training
from .voice import Voice

__all__ = ["Error", "Training", "Voice"]
