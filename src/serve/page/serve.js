// The page of `tandem serve`: speaks while sound is made, clones voices, watches training runs.
"use strict";

const RATE = 24000; // of response_format pcm
const byId = (id) => document.getElementById(id);

// ---------------------------------------------------------------- asking

function headers(more) {
    const key = byId("key").value;
    return key ? {Authorization: "Bearer " + key, ...more} : {...more};
}

async function ask(path, options = {}) {
    const answer = await fetch(path, {...options, headers: headers(options.headers)});
    if (answer.ok) return answer;
    let message = `${answer.status} ${answer.statusText}`;
    try {
        message = (await answer.json()).error.message;
    } catch {} // not in JSON: the status says what there is to say
    throw new Error(message);
}

function tell(id, text) {
    byId(id).textContent = text;
}

function make(tag, properties = {}, ...children) {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
}

const wait = (ms) => new Promise((done) => setTimeout(done, ms));

// ---------------------------------------------------------------- tabs

const TABS = ["speak", "clone", "runs"];

function show(name) {
    for (const tab of TABS) {
        const button = byId("tab-" + tab), isShown = tab === name;
        button.setAttribute("aria-selected", isShown);
        button.tabIndex = isShown ? 0 : -1;
        byId(tab + "-view").hidden = !isShown;
    }
    history.replaceState(null, "", "#" + name);
    if (name === "runs") readRuns();
    else stopWatching();
}

TABS.forEach((name, i) => {
    const button = byId("tab-" + name);
    button.addEventListener("click", () => show(name));
    button.addEventListener("keydown", (event) => {
        const step = {ArrowRight: 1, ArrowLeft: TABS.length - 1}[event.key];
        if (!step) return;
        const next = TABS[(i + step) % TABS.length];
        show(next);
        byId("tab-" + next).focus();
    });
});

// ---------------------------------------------------------------- voices

let voices = []; // as /v1/audio/voices tells them

const plain = () => voices.filter((voice) => !voice.id.includes(":"));

function fill(select, options, first) {
    const former = select.value;
    select.replaceChildren(...first, ...options.map((value) => new Option(value, value)));
    if (options.includes(former)) select.value = former;
}

// Speakers and languages of the voice that is chosen.
function chooseVoice() {
    const voice = voices.find((one) => one.id === byId("voice").value);
    if (!voice) return;
    const speakers = voices.filter((one) => one.id.startsWith(voice.id + ":")).map((one) => one.id.slice(voice.id.length + 1));
    fill(byId("speaker"), speakers, speakers.length && !voice.takes_reference ? [new Option("the first", "")] : []);
    byId("speaker").disabled = speakers.length === 0;
    fill(byId("language"), voice.languages, []);
    byId("language").disabled = voice.languages.length < 2;
}

function showVoices() {
    fill(byId("voice"), plain().map((voice) => voice.id), []);
    fill(byId("other"), voices.map((voice) => voice.id), [new Option("nothing", "")]);
    const bases = plain().filter((voice) => voice.takes_reference && !voice.is_clone);
    fill(byId("clone-base"), bases.map((voice) => voice.id), []);
    byId("clone").disabled = bases.length === 0;
    if (bases.length === 0)
        tell("clone-hint", "None of these voices can follow a recording: serve an XTTS voice, or one trained with a speaker encoder.");
    byId("brought").replaceChildren(...voices.filter((voice) => voice.is_clone).map(showBrought));
    chooseVoice();
}

async function readVoices() {
    voices = (await (await ask("v1/audio/voices")).json()).voices;
    showVoices();
}

async function waitForVoices() {
    for (;;) {
        try {
            await readVoices();
            return tell("state", "");
        } catch (error) {
            tell("state", error.message);
            await wait(500);
        }
    }
}

// ---------------------------------------------------------------- sound

let context = null; // AudioContext, made at the first click, as browsers want it
let running = null; // AbortController of the request under way
let sources = [];   // sounds that are due

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
    source.onended = () => {
        sources = sources.filter((other) => other !== source);
        showWhatCanBe();
    };
    return start + buffer.duration;
}

function toFloats(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const samples = new Float32Array(bytes.byteLength / 2);
    for (let i = 0; i < samples.length; i++) samples[i] = view.getInt16(2 * i, true) / 32768;
    return samples;
}

// Parts of 16-bit samples as a WAV file.
function toWav(parts, rate) {
    const size = parts.reduce((sum, part) => sum + part.byteLength, 0);
    const header = new DataView(new ArrayBuffer(44));
    const put = (at, text) => [...text].forEach((c, i) => header.setUint8(at + i, c.charCodeAt(0)));
    put(0, "RIFF");
    header.setUint32(4, 36 + size, true);
    put(8, "WAVEfmt ");
    header.setUint32(16, 16, true);
    header.setUint16(20, 1, true);
    header.setUint16(22, 1, true);
    header.setUint32(24, rate, true);
    header.setUint32(28, 2 * rate, true);
    header.setUint16(32, 2, true);
    header.setUint16(34, 16, true);
    put(36, "data");
    header.setUint32(40, size, true);
    return new Blob([header.buffer, ...parts], {type: "audio/wav"});
}

// ---------------------------------------------------------------- speaking

function keep(text, voice, blob) {
    const url = URL.createObjectURL(blob);
    const short = text.length > 80 ? text.slice(0, 77) + "..." : text;
    if (!byId("said").querySelector("audio")) byId("said").replaceChildren();
    byId("said").prepend(make("li", {}, make("div", {textContent: `${voice}: ${short}`}),
                              make("audio", {src: url, controls: true}),
                              make("a", {href: url, download: voice.replace(/[^\w-]+/g, "_") + ".wav",
                                         textContent: "Download"})));
}

async function say(text, voice, signal, at) {
    const begun = performance.now();
    const body = {model: "tandem", input: text, voice, response_format: "pcm", speed: Number(byId("speed").value)};
    if (!byId("language").disabled) body.language = byId("language").value;
    const answer = await ask("v1/audio/speech", {method: "POST", signal, body: JSON.stringify(body),
                                                 headers: {"Content-Type": "application/json"}});
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
    keep(text, voice, toWav(parts, RATE));
    tell("state", `First sound after ${Math.round(first)} ms, all of it after ${Math.round(performance.now() - begun)} ms.`);
    return at;
}

function showWhatCanBe() {
    byId("speak").disabled = running !== null;
    byId("stop").disabled = running === null && sources.length === 0;
}

function stop() {
    if (running) running.abort();
    running = null;
    sources.forEach((source) => source.stop());
    sources = [];
    showWhatCanBe();
}

byId("form").addEventListener("submit", async (event) => {
    event.preventDefault();
    context = context || new AudioContext({sampleRate: RATE});
    stop();
    const own = running = new AbortController();
    showWhatCanBe();
    tell("state", "Speaking ...");
    try {
        const speaker = byId("speaker").value;
        const chosen = [byId("voice").value + (speaker ? ":" + speaker : ""), byId("other").value];
        let at = 0;
        for (const voice of chosen.filter((one) => one)) at = await say(byId("text").value, voice, own.signal, at);
    } catch (error) {
        if (running && running !== own) return; // the next text is being said
        tell("state", error.name === "AbortError" ? "Stopped." : error.message);
    }
    running = null;
    showWhatCanBe();
});
byId("text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
byId("stop").addEventListener("click", stop);
byId("voice").addEventListener("change", chooseVoice);
byId("key").addEventListener("change", () => { if (!byId("runs-view").hidden) readRuns(); });

// ---------------------------------------------------------------- cloning

let recorder = null; // while it records
let recorded = null; // a WAV file, or null

// What the microphone gave, as one channel of 16 bits: the server reads no formats of browsers.
async function toOneChannel(blob) {
    const context = new AudioContext();
    const sound = await context.decodeAudioData(await blob.arrayBuffer()).finally(() => context.close());
    const samples = new Int16Array(sound.length);
    for (let c = 0; c < sound.numberOfChannels; c++) {
        const channel = sound.getChannelData(c);
        for (let i = 0; i < samples.length; i++)
            samples[i] += Math.round(32767 * Math.max(-1, Math.min(1, channel[i])) / sound.numberOfChannels);
    }
    return toWav([new Uint8Array(samples.buffer)], sound.sampleRate);
}

// null: nothing yet.
function hear(blob) {
    const heard = byId("clone-heard");
    recorded = blob;
    URL.revokeObjectURL(heard.src);
    heard.hidden = !blob;
    if (blob) heard.src = URL.createObjectURL(blob);
    else heard.removeAttribute("src");
    heard.load(); // else what was heard before stays
}

async function record() {
    if (recorder) return recorder.stop();
    if (!navigator.mediaDevices)
        throw new Error("The browser lends its microphone only to pages of this computer (http://localhost) or by https.");
    const stream = await navigator.mediaDevices.getUserMedia({audio: true}), parts = [];
    recorder = new MediaRecorder(stream);
    recorder.ondataavailable = (event) => parts.push(event.data);
    recorder.onstop = async () => {
        stream.getTracks().forEach((track) => track.stop());
        recorder = null;
        tell("record", "Record again");
        try {
            hear(await toOneChannel(new Blob(parts)));
        } catch (error) {
            tell("clone-state", error.message);
        }
    };
    hear(null); // what was chosen before is not meant any more
    byId("clone-file").value = "";
    recorder.start();
    tell("record", "End the recording");
}

byId("record").addEventListener("click", () => record().catch((error) => tell("clone-state", error.message)));
byId("clone-file").addEventListener("change", () => {
    const file = byId("clone-file").files[0];
    if (file) hear(file);
});

byId("clone-form").addEventListener("submit", async (event) => {
    event.preventDefault();
    if (!recorded) return tell("clone-state", "Choose a recording, or make one.");
    const form = new FormData(), name = byId("clone-name").value;
    form.append("name", name);
    form.append("voice", byId("clone-base").value);
    form.append("consent", byId("consent").checked);
    form.append("audio_sample", recorded, "sample");
    tell("clone-state", "Cloning ...");
    try {
        await ask("v1/audio/voices", {method: "POST", body: form});
        await readVoices();
        byId("voice").value = name;
        chooseVoice();
        tell("clone-state", `${name} can speak now.`);
    } catch (error) {
        tell("clone-state", error.message);
    }
});

function showBrought(voice) {
    const button = make("button", {textContent: "Remove", ariaLabel: `Remove ${voice.id}`});
    button.addEventListener("click", async () => {
        try {
            await ask("v1/audio/voices/" + encodeURIComponent(voice.id), {method: "DELETE"});
            tell("clone-state", `${voice.id} was removed.`);
        } catch (error) {
            tell("clone-state", error.message);
        }
        await readVoices();
    });
    return make("li", {}, make("span", {textContent: voice.id}), button);
}

// ---------------------------------------------------------------- runs

const MOST_POINTS = 600; // of a curve
let watching = null;     // AbortController of the events that are followed
let points = {};         // curves by name: [step, value] each
let drawing = false;

function stopWatching() {
    if (watching) watching.abort();
    watching = null;
}

async function readRuns() {
    try {
        const {runs, is_offered} = await (await ask("runs")).json();
        const former = byId("run").value;
        byId("run").replaceChildren(...runs.map((run) => new Option(run.name + (run.is_training ? " (training)" : ""), run.id)));
        const isSame = runs.some((run) => run.id === former);
        if (isSame) byId("run").value = former;
        tell("run-state", !is_offered ? "Start the server with --runs FOLDER to watch training here."
                                      : runs.length ? "" : "There is no run in the folder yet.");
        if (runs.length && !(isSame && watching)) watch();
    } catch (error) {
        tell("run-state", error.message);
    }
}

// Half of the points of a long curve tell as much.
function add(name, step, value) {
    if (typeof value !== "number") return;
    const curve = points[name] = points[name] || [];
    curve.push([step, value]);
    if (curve.length > MOST_POINTS) points[name] = curve.filter((_, i) => i % 2 === MOST_POINTS % 2);
}

const short = (value) => Math.abs(value) >= 1000 || Math.abs(value) < 0.001 && value ? value.toExponential(2) : Number(value.toPrecision(4)).toString();

function draw(title, names) {
    const WIDTH = 400, HEIGHT = 160, curves = names.filter((name) => points[name]);
    const all = curves.flatMap((name) => points[name]);
    if (!all.length) return null;
    const [x0, x1] = [Math.min(...all.map((p) => p[0])), Math.max(...all.map((p) => p[0]))];
    const [y0, y1] = [Math.min(...all.map((p) => p[1])), Math.max(...all.map((p) => p[1]))];
    const x = (v) => 4 + (WIDTH - 8) * (v - x0) / (x1 - x0 || 1);
    const y = (v) => HEIGHT - 20 - (HEIGHT - 40) * (v - y0) / (y1 - y0 || 1);
    const COLOURS = ["#3b7dd8", "#d0743c", "#4a9a62", "#9a5bb8", "#8a8f98"];
    const svg = (tag, attributes, text = "") => {
        const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
        for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
        element.textContent = text;
        return element;
    };
    const picture = svg("svg", {viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title});
    curves.forEach((name, i) => picture.append(svg("path", {
        stroke: COLOURS[i % COLOURS.length], d: points[name].map((p, k) => `${k ? "L" : "M"}${x(p[0]).toFixed(1)} ${y(p[1]).toFixed(1)}`).join("")})));
    picture.append(svg("text", {x: 4, y: 12}, short(y1)), svg("text", {x: 4, y: HEIGHT - 4}, short(y0)),
                   svg("text", {x: WIDTH - 4, y: HEIGHT - 4, "text-anchor": "end"}, `step ${x1}`));
    const caption = make("figcaption", {}, title + " ");
    curves.forEach((name, i) => {
        const mark = make("span", {textContent: `● ${name.replace("loss.", "")} ${short(points[name].at(-1)[1])} `});
        mark.style.color = COLOURS[i % COLOURS.length];
        caption.append(mark);
    });
    return make("figure", {}, caption, picture);
}

function redraw() {
    drawing = false;
    const terms = Object.keys(points).filter((name) => name.startsWith("loss."));
    const figures = [draw("Loss", ["loss"]), draw("Its terms", terms), draw("Validation", ["validation"]),
                     draw("Busy, per cent", ["model device", "data device"]), draw("Learning rate", ["lr"])];
    byId("curves").replaceChildren(...figures.filter((figure) => figure));
}

function card(name, value) {
    return make("div", {className: "card"}, make("b", {textContent: value}), name);
}

function take(event) {
    if (event.event === "start") {
        tell("run-state", (event.devices || []).map((device) => `${device.role}: ${device.name}`).join("; "));
    } else if (event.event === "step") {
        for (const [name, value] of Object.entries(event))
            if (name === "loss" || name.startsWith("loss.") || name === "lr") add(name, event.step, value);
        if ("model_utilisation" in event) add("model device", event.step, 100 * event.model_utilisation);
        if ("data_utilisation" in event) add("data device", event.step, 100 * event.data_utilisation);
        byId("figures").replaceChildren(card("step", event.step), card("loss", short(event.loss)),
                                        card("ms a step", short(event.ms_per_step || 0)),
                                        card("minutes left", event.eta_s > 0 ? short(event.eta_s / 60) : "–"));
    } else if (event.event === "validation") {
        add("validation", event.step, event.loss);
    } else if (event.event === "sampled") {
        setTimeout(readSamples, 1500); // they are drawn beside the training
    } else if (event.event === "end") {
        tell("run-state", `Ended: ${event.text || "done"}`);
    }
    if (event.event === "start" || event.event === "end")
        byId("run-sample").disabled = byId("run-stop").disabled = event.event === "end";
    if (!drawing) setTimeout(redraw, 200);
    drawing = true;
}

async function follow(id, signal) {
    const reader = (await ask(`runs/${id}/events`, {signal})).body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const {done, value} = await reader.read();
        if (done) return;
        const lines = (rest + value).split("\n");
        rest = lines.pop();
        for (const line of lines) if (line.startsWith("data: ")) take(JSON.parse(line.slice(6)));
    }
}

async function watch() {
    stopWatching();
    points = {};
    byId("figures").replaceChildren();
    byId("curves").replaceChildren();
    byId("run-sample").disabled = byId("run-stop").disabled = false;
    const own = watching = new AbortController();
    readSamples();
    try {
        await follow(byId("run").value, own.signal);
    } catch (error) {
        if (error.name !== "AbortError") tell("run-state", error.message);
    }
}

// A file of the run, fetched with the key.
async function load(id, file) {
    return URL.createObjectURL(await (await ask(`runs/${id}/samples/${file.id}`)).blob());
}

async function showSample(id, stem, files) {
    const figure = make("figure", {}), find = (ending) => files.find((file) => file.name === stem + ending);
    const text = find(".txt"), sound = find(".wav"), truth = find("-target.wav");
    figure.append(make("figcaption", {textContent: text ? await (await ask(`runs/${id}/samples/${text.id}`)).text() : stem}));
    if (sound) figure.append(make("audio", {src: await load(id, sound), controls: true, title: "the voice"}));
    if (truth) figure.append("as it was recorded", make("audio", {src: await load(id, truth), controls: true}));
    for (const ending of ["-spectrogram.png", "-target.png", "-alignment.png"])
        if (find(ending)) figure.append(make("img", {src: await load(id, find(ending)), alt: ending.slice(1, -4)}));
    return figure;
}

// Those of the last step that has some.
async function readSamples() {
    const id = byId("run").value;
    try {
        const {files} = await (await ask(`runs/${id}/samples`)).json();
        const stems = files.map((file) => /^step-(\d+)-\d+(?=\.wav$|-spectrogram\.png$)/.exec(file.name)).filter((match) => match);
        if (!stems.length) return;
        const last = Math.max(...stems.map((match) => Number(match[1])));
        const names = [...new Set(stems.filter((match) => Number(match[1]) === last).map((match) => match[0]))].slice(0, 4);
        const figures = await Promise.all(names.map((stem) => showSample(id, stem, files)));
        byId("samples").replaceChildren(...figures);
    } catch (error) {
        tell("run-state", error.message);
    }
}

async function wish(what, words) {
    try {
        await ask(`runs/${byId("run").value}/${what}`, {method: "POST"});
        tell("run-state", words);
    } catch (error) {
        tell("run-state", error.message);
    }
}

byId("run").addEventListener("change", watch);
byId("run-sample").addEventListener("click", () => wish("sample", "The run will make samples after this step."));
byId("run-stop").addEventListener("click", () => wish("stop", "The run will stop after this step, with a checkpoint."));

const wanted = location.hash.slice(1);
if (TABS.includes(wanted)) show(wanted);
waitForVoices();
