// The page of `tandem serve`: asks for samples, plays them while they come, keeps what was said.
"use strict";

const RATE = 24000; // of response_format pcm
const byId = (id) => document.getElementById(id);
let context = null; // AudioContext, made at the first click, as browsers want it
let running = null; // AbortController of the request under way
let sources = [];   // sounds that are due

function tell(text) {
    byId("state").textContent = text;
}

async function readVoices() {
    const answer = await fetch("v1/audio/voices");
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const voices = (await answer.json()).voices;
    for (const voice of voices) {
        byId("voice").add(new Option(voice.name, voice.id));
        byId("other").add(new Option(voice.name, voice.id));
    }
    tell("");
}

async function waitForVoices() {
    for (;;) {
        try {
            return await readVoices();
        } catch (error) {
            tell(error.message);
            await new Promise((done) => setTimeout(done, 500));
        }
    }
}

// Plays samples behind those that are already due; returns when they end.
function play(samples, at) {
    const buffer = context.createBuffer(1, samples.length, RATE);
    buffer.copyToChannel(samples, 0);
    const source = context.createBufferSource();
    source.buffer = buffer;
    source.connect(context.destination);
    const start = Math.max(at, context.currentTime + 0.05);
    source.start(start);
    sources.push(source);
    return start + buffer.duration;
}

function toFloats(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const samples = new Float32Array(bytes.byteLength / 2);
    for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
    return samples;
}

function toWav(parts) {
    const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
    const header = new DataView(new ArrayBuffer(44));
    const put = (at, text) => [...text].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
    put(0, "RIFF");
    header.setUint32(4, 36 + size, true);
    put(8, "WAVEfmt ");
    header.setUint32(16, 16, true);
    header.setUint16(20, 1, true);
    header.setUint16(22, 1, true);
    header.setUint32(24, RATE, true);
    header.setUint32(28, 2 * RATE, true);
    header.setUint16(32, 2, true);
    header.setUint16(34, 16, true);
    put(36, "data");
    header.setUint32(40, size, true);
    return new Blob([header.buffer, ...parts], {type: "audio/wav"});
}

function keep(text, voice, blob) {
    const url = URL.createObjectURL(blob);
    const item = document.createElement("li"), sound = new Audio(url), link = document.createElement("a");
    const title = document.createElement("div");
    title.textContent = voice + ": " + (text.length > 80 ? text.slice(0, 77) + "..." : text);
    sound.controls = true;
    link.href = url;
    link.download = voice.replace(/[^\w-]+/g, "_") + ".wav";
    link.textContent = "Download";
    item.append(title, sound, link);
    byId("said").prepend(item);
}

async function say(text, voice, signal, at) {
    const headers = {"Content-Type": "application/json"};
    if (byId("key").value) headers.Authorization = "Bearer " + byId("key").value;
    const begun = performance.now();
    const answer = await fetch("v1/audio/speech", {
        method: "POST", headers, signal,
        body: JSON.stringify({model: "tandem", input: text, voice, response_format: "pcm",
                              speed: Number(byId("speed").value)}),
    });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.getReader(), parts = [];
    let rest = new Uint8Array(0), first = 0;
    for (;;) {
        const {done, value} = await reader.read();
        if (done) break;
        if (!first) first = performance.now() - begun;
        const bytes = new Uint8Array(rest.length + value.length);
        bytes.set(rest);
        bytes.set(value, rest.length);
        const even = bytes.length & ~1;
        rest = bytes.slice(even);
        parts.push(bytes.slice(0, even));
        if (even) at = play(toFloats(bytes.subarray(0, even)), at);
    }
    keep(text, voice, toWav(parts));
    tell(`First sound after ${Math.round(first)} ms, all of it after ${Math.round(performance.now() - begun)} ms.`);
    return at;
}

function end() {
    running = null;
    byId("stop").disabled = true;
    byId("speak").disabled = false;
}

function stop() {
    if (running) running.abort();
    sources.forEach((source) => source.stop());
    sources = [];
    end();
}

byId("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    context = context || new AudioContext({sampleRate: RATE});
    stop();
    running = new AbortController();
    byId("stop").disabled = false;
    byId("speak").disabled = true;
    tell("Speaking ...");
    try {
        const voices = [byId("voice").value, byId("other").value].filter((voice) => voice);
        let at = 0;
        for (const voice of voices) at = await say(byId("text").value, voice, running.signal, at);
    } catch (error) {
        tell(error.name === "AbortError" ? "Stopped." : error.message);
    }
    end();
    byId("stop").disabled = false;
});
byId("stop").addEventListener("click", stop);
waitForVoices();
