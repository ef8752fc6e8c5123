"use strict";

const $ = (id) => document.getElementById(id);

// make is an element with attributes and children.
function make(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(attributes)) {
    if (v === true) e.setAttribute(k, "");
    else if (v !== false && v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

function draw(name, attributes, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(attributes)) e.setAttribute(k, v);
  e.append(...children);
  return e;
}

// ---- The lab: some workers, and a queue of questions.

const lab = {
  idle: [], queue: [], waits: new Map(), next: 1,

  async start() {
    const module = await WebAssembly.compile(await program());
    const n = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 2));
    await Promise.all(Array.from({ length: n }, () => this.hire(module)));
  },

  hire(module) {
    return new Promise((ready, failed) => {
      const w = new Worker("worker.js");
      w.onerror = (e) => failed(new Error(e.message || "the worker does not start"));
      w.onmessage = ({ data }) => {
        if (data.problem) return failed(new Error(data.problem));
        if (data.ready) ready();
        else {
          this.waits.get(data.id)({ ...JSON.parse(data.text), text: data.text, took: data.took });
          this.waits.delete(data.id);
        }
        this.idle.push(w);
        this.hand();
      };
      w.postMessage(module);
    });
  },

  // ask answers a question, and undefined if it is dropped before its turn.
  ask(question) {
    return new Promise((answer) => {
      this.queue.push({ question, answer });
      this.hand();
    });
  },

  // drop forgets the questions that no worker has begun.
  drop() {
    for (const q of this.queue.splice(0)) q.answer(undefined);
  },

  hand() {
    while (this.idle.length && this.queue.length) {
      const { question, answer } = this.queue.shift();
      const id = this.next++;
      this.waits.set(id, answer);
      this.idle.pop().postMessage({ id, question: JSON.stringify(question) });
    }
  },
};

// program is the lab's code. Some servers unpack what ends in .gz, and some do not.
async function program() {
  const response = await fetch("lab.wasm.gz");
  if (!response.ok) throw new Error(`lab.wasm.gz: the server answers ${response.status}`);
  const bytes = new Uint8Array(await response.arrayBuffer());
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return bytes;
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
}

// ---- The world, and the address that holds it.

let about, story, world;

const base = () => (story ? story.world : about.usual);

// read takes the world from the address: a story or the usual world, and what differs from it.
function read() {
  const said = new URLSearchParams(location.hash.slice(1));
  story = about.stories.find((s) => s.name === said.get("story"));
  world = { ...base() };
  for (const [name, is] of Object.entries(world)) {
    const text = said.get(name);
    if (text === null) continue;
    if (typeof is === "number") {
      const k = about.knobs.find((k) => k.name === name);
      const n = Math.round(Number(text));
      if (k && Number.isFinite(n)) world[name] = Math.min(k.max, Math.max(k.min, n));
    } else if (typeof is === "boolean") world[name] = text === "true";
    else if (choices(name).some((c) => c.value === text)) world[name] = text;
  }
  within();
}

// within makes times fit into the call's.
function within() {
  world.attempt = Math.min(world.attempt, world.call);
  world.hedge = Math.min(world.hedge, world.call);
}

const choices = (name) => (name === "trouble" ? about.troubles : about.opponents);

function write() {
  const says = new URLSearchParams();
  if (story) says.set("story", story.name);
  for (const [name, v] of Object.entries(world)) if (v !== base()[name]) says.set(name, v);
  history.replaceState(null, "", "#" + says);
}

// ---- Knobs

const groups = [
  ["policy", "Policy of gabion"], ["clients", "Clients"], ["dependency", "Dependency"], ["trouble", "Trouble, after 15 s"],
];

const shown = new Map(); // by name: what shows the world's value

function number(name, { label, unit, min, max, step }) {
  const id = `knob-${name}`;
  const out = make("output", { for: id });
  const input = make("input", { type: "range", id, min, max, step });
  input.addEventListener("input", () => set(name, Number(input.value)));
  shown.set(name, () => {
    // A step must not round what an address says.
    input.step = (world[name] - min) % step ? 1 : step;
    input.value = world[name];
    out.value = unit === "ms" && world[name] >= 1000 ? `${world[name] / 1000} s` : unit === "/s" ? `${world[name]}/s` : `${world[name]} ${unit}`.trim();
    input.setAttribute("aria-valuetext", out.value);
  });
  return make("div", { class: "knob" }, make("label", { for: id }, label), out, input);
}

function choice(name, label) {
  const id = `knob-${name}`;
  const input = make("select", { id }, ...choices(name).map((c) => make("option", { value: c.value }, c.label)));
  input.addEventListener("change", () => {
    if (name === "opponent") forget();
    set(name, input.value);
  });
  shown.set(name, () => { input.value = world[name]; });
  return make("div", { class: "knob" }, make("label", { for: id }, label), make("span"), input);
}

function check(name, label) {
  const id = `knob-${name}`;
  const input = make("input", { type: "checkbox", id });
  input.addEventListener("change", () => set(name, input.checked));
  shown.set(name, () => { input.checked = world[name]; });
  return make("div", { class: "check" }, input, make("label", { for: id }, label));
}

function build() {
  for (const [group, title] of groups) {
    const field = make("fieldset", {}, make("legend", {}, title));
    if (group === "trouble") field.append(choice("trouble", "what goes wrong"));
    for (const k of about.knobs.filter((k) => k.group === group)) field.append(number(k.name, k));
    if (group === "policy") field.append(check("breaker", "breaker"));
    $("knobs").append(field);
  }
  $("knobs").append(make("fieldset", {}, make("legend", {}, "Opponent"), choice("opponent", "a library or proxy, with its own settings"), fileKnob()));
  $("stories").append(...[{ name: "", title: "Free play" }, ...about.stories].map((s) => {
    const a = make("a", { href: s.name ? `#story=${s.name}` : "#" }, s.title);
    a.dataset.story = s.name;
    return make("li", {}, a);
  }));
}

// ---- A file of another system, in the place of the opponent.

let theirs; // its name, text and route, and what it is

const routes = make("select", { id: "route" });
const routeKnob = make("div", { class: "knob" }, make("label", { for: "route" }, "which of its routes"), make("span"), routes);
routes.addEventListener("change", () => choose(Number(routes.value)));

function fileKnob() {
  const file = make("input", { type: "file", id: "file" });
  file.addEventListener("change", () => file.files.length && take(file.files[0]));
  return make("div", { class: "knob" }, make("label", { for: "file" }, "or your own file: Istio, Envoy, Linkerd, application.yml, nginx.conf, …"), make("span"), file);
}

// take reads a file that was chosen or dropped. It stays in the browser.
async function take(file) {
  theirs = { name: file.name, text: await file.text() };
  choose(0);
}

// choose asks what the file is, and plays one of its routes.
async function choose(route) {
  const mine = theirs, asked = { name: mine.name, text: mine.text, route };
  const what = await lab.ask({ file: asked });
  if (mine !== theirs) return; // another one was chosen since
  if (!what) return choose(route);
  if (what.problem) {
    forget();
    show();
    $("theirs").replaceChildren(make("h2", {}, asked.name), make("pre", {}, what.problem));
    return;
  }
  theirs = { ...asked, what };
  $("file").closest("fieldset").append(routeKnob);
  routes.replaceChildren(...what.routes.map((title, i) => make("option", { value: i, selected: i === route }, title)));
  $("theirs").replaceChildren(make("h2", {}, `${asked.name}: ${what.title}`),
    make("p", {}, "The side theirs plays what this file says, by the rules of its own system. Here is what has no exact equivalent in gabion's policy, which gabion import writes:"),
    make("ul", {}, ...what.said.map((s) => make("li", {}, `line ${s.line}, ${s.fate}: ${s.key ? `${s.key}: ` : ""}${s.text}`))));
  show();
}

function forget() {
  theirs = undefined;
  $("file").value = "";
  routeKnob.remove();
  $("theirs").replaceChildren();
}

addEventListener("dragover", (e) => e.preventDefault());
addEventListener("drop", (e) => {
  e.preventDefault();
  if (about && e.dataTransfer.files.length) take(e.dataTransfer.files[0]);
});

function set(name, value) {
  world[name] = value;
  if (name === "attempt" || name === "hedge") world.call = Math.max(world.call, value);
  within();
  write();
  show();
}

function tell() {
  for (const a of $("stories").querySelectorAll("a")) {
    if (a.dataset.story === (story ? story.name : "")) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  $("story").replaceChildren();
  if (!story) return;
  $("story").append(make("h2", {}, story.title), ...story.text.map((t) => make("p", {}, t)));
  const moves = [...story.try.map((m) => [m.says, m.world]), ["Back to the beginning", story.world]];
  for (const [says, to] of moves) {
    const b = make("button", { type: "button" }, says);
    b.addEventListener("click", () => { world = { ...to }; write(); show(); });
    $("story").append(b);
  }
}

// ---- Runs

let round = 0;
const last = new Map(); // by side: what it came to

// show runs all sides, and draws each when it is there.
async function show() {
  const mine = ++round;
  document.body.dataset.round = mine;
  for (const update of shown.values()) update();
  const file = theirs && theirs.what ? { name: theirs.name, text: theirs.text, route: theirs.route } : undefined;
  const names = ["gabion", "plain", "naive", file ? "theirs" : world.opponent];
  const fresh = new Set();
  const redraw = () => {
    const peers = names.map((n) => last.get(n)).filter(Boolean);
    $("sides").replaceChildren(...names.map((n) => card(n, last.get(n), fresh.has(n), peers)));
    $("score").replaceChildren(...peers.map((r) => make("span", {}, `${r.name} `, make("b", {}, share(r.totals.answered)))));
  };
  redraw();
  lab.drop();
  const asked = { ...world };
  const began = performance.now();
  const ask = async (question) => {
    const answer = await lab.ask({ world: asked, ...question });
    if (mine !== round) throw new Error("late");
    if (answer.problem) throw new Error(answer.problem);
    return answer;
  };
  const run = async (side) => {
    const answer = await ask(side === "theirs" ? { side, file } : { side });
    last.set(side, answer);
    fresh.add(side);
    redraw();
    return answer;
  };
  const write = async () => {
    const files = await ask({ files: true });
    $("policy").textContent = files.policy;
    $("scenario").textContent = files.scenario;
  };
  try {
    const [, ...runs] = await Promise.all([write(), ...names.map(run)]);
    const sum = (key) => runs.reduce((n, r) => n + r[key], 0);
    say(`${sum("events").toLocaleString("en")} events of four runs: ${(sum("took") / 1000).toFixed(2)} s of work, ${((performance.now() - began) / 1000).toFixed(2)} s on the clock. ` +
      `Seed ${asked.seed}: these numbers are the same in every browser.`);
    document.body.dataset.done = mine;
  } catch (e) {
    if (mine === round) say(e.message, true);
  }
}

function say(text, problem = false) {
  $("status").textContent = text;
  $("status").classList.toggle("problem", problem);
}

const titles = { gabion: "with the policy on this page", plain: "one try, same timeouts", naive: "three tries at once", theirs: "your file, by the rules of its own system" };

const share = (x) => (x === null ? "–" : `${(100 * x).toFixed(1)} %`);
const time = (s) => (s < 1 ? `${Math.round(s * 1000)} ms` : `${s.toFixed(1)} s`);

// card is one side. It is stale while a new run is on its way.
function card(name, r, fresh, peers) {
  const e = make("article", { class: fresh ? "" : "stale" });
  e.dataset.side = name;
  const title = make("h2", {}, make("span", {}, name));
  e.append(title);
  const about = make("p", { class: "says" }, titles[name] || "its own settings, same timeouts");
  e.append(about);
  if (!r) return e;
  const t = r.totals;
  title.append(make("b", {}, share(t.answered)));
  about.append(make("span", {}, "answered in time"));
  e.append(load(r, Math.max(...peers.flatMap((p) => [...p.requests, ...p.capacity]))));
  e.append(keys([["load", "requests at the dependency"], ["good", "answers in time"], ["cap", "its capacity"]]));
  e.append(latency(r, Math.max(...peers.flatMap((p) => p.p99))));
  e.append(keys([["p99", "latency of answers: 99 %, and half (dotted)"]]));
  const trouble = r.from < r.to;
  const list = [
    ["requests for each that is needed", `× ${t.load.toFixed(2)}`, t.load > 1.3],
    ["most requests in a second", Math.round(t.peak).toLocaleString("en")],
    ["work for callers who had gone", share(t.wasted), t.wasted > 0.2],
    ["99 % of answers within", t.p99 === null ? "–" : time(t.p99)],
  ];
  if (trouble) list.unshift(["answered during the trouble", share(t.during)], ["and after it", share(t.after), t.after < 0.9],
    ["recovered after", t.recovery === null ? "not in this run" : time(t.recovery), t.recovery === null]);
  e.append(make("dl", {}, ...list.flatMap(([k, v, bad]) => [make("dt", {}, k), make("dd", { class: bad ? "bad" : false }, v)])));
  return e;
}

const keys = (of) => make("ul", { class: "key" }, ...of.map(([c, text]) => make("li", { class: c }, text)));

// ---- Charts: 600 wide, with room for numbers on the left.

const left = 54, right = 596, width = right - left;

// nice is a round number of at least x.
function nice(x) {
  if (!(x > 0)) return 1;
  const p = 10 ** Math.floor(Math.log10(x));
  return [1, 2, 3, 4, 5, 6, 8, 10].find((n) => n * p >= x) * p;
}

function frame(r, height, top, format, label) {
  const n = r.requests.length;
  const x = (i) => left + (width * i) / n;
  const y = (v) => height - 16 - ((height - 24) * Math.min(v, top)) / top;
  const svg = draw("svg", { viewBox: `0 0 600 ${height}`, role: "img", "aria-label": label });
  if (r.from < r.to) svg.append(draw("rect", { class: "trouble", x: x(r.from), y: 8, width: x(r.to) - x(r.from), height: height - 24 }));
  for (const v of [0, top / 2, top]) {
    svg.append(draw("line", { class: "axis", x1: left, x2: right, y1: y(v), y2: y(v) }));
    svg.append(draw("text", { x: left - 5, y: y(v) + 4, "text-anchor": "end" }, format(v)));
  }
  for (const s of [0, 15, 30, 45, 60]) {
    if (s <= n) svg.append(draw("text", { x: x(s), y: height - 3, "text-anchor": s === 0 ? "start" : s === n ? "end" : "middle" }, `${s} s`));
  }
  // A line has gaps where nothing is known.
  const line = (c, values, known = () => true) => {
    const points = values.map((v, i) => known(i) && `${known(i - 1) && i ? "L" : "M"}${x(i + 0.5).toFixed(1)} ${y(v).toFixed(1)}`);
    svg.append(draw("path", { class: c, d: points.filter(Boolean).join("") }));
  };
  return { svg, line };
}

function load(r, most) {
  const { svg, line } = frame(r, 190, nice(most), (v) => v.toLocaleString("en"),
    `Per second: at most ${Math.round(r.totals.peak)} requests at the dependency; ${share(r.totals.answered)} of calls answered in time`);
  if (r.capacity.every((c) => c >= 0)) line("cap", r.capacity);
  line("load", r.requests);
  line("good", r.answers);
  return svg;
}

function latency(r, most) {
  const { svg, line } = frame(r, 110, nice(most), (v) => time(v).replace(".0 ", " "),
    `Latency of answers: ${r.totals.p99 === null ? "unknown" : `99 % within ${time(r.totals.p99)}`}`);
  const answered = (i) => r.answers[i] > 0;
  line("p50", r.p50, answered);
  line("p99", r.p99, answered);
  return svg;
}

// ---- Files

function save(name, text) {
  const a = make("a", { href: URL.createObjectURL(new Blob([text], { type: "application/yaml" })), download: name });
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 1000);
}

$("save-policy").addEventListener("click", () => save("gabion.yaml", $("policy").textContent));
$("save-scenario").addEventListener("click", () => save("scenario.yaml", $("scenario").textContent));
$("reset").addEventListener("click", () => { forget(); world = { ...base() }; write(); show(); });
$("knobs").addEventListener("submit", (e) => e.preventDefault());
addEventListener("hashchange", () => {
  const skipped = location.hash === "#sides"; // the link to the charts
  if (skipped) return write();
  read(); tell(); show();
});

(async () => {
  try {
    await lab.start();
    about = await lab.ask({});
    build(); read(); tell(); show();
  } catch (e) {
    say(`The lab can't run here: ${e.message}`, true);
  }
})();
