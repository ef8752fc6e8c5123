// Words and numbers as people read them. Everything is put into the page as text.

/** el makes an element: el("p.note", {title: "x"}, "text", child, …). */
export function el(what, attributes, ...children) {
	const [tag, ...classes] = what.split(".");
	const e = document.createElement(tag);
	if (classes.length) e.className = classes.join(" ");
	for (const [name, value] of Object.entries(attributes ?? {})) {
		if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
		else if (value === true) e.setAttribute(name, "");
		else if (value !== false && value != null) e.setAttribute(name, value);
	}
	e.append(...children.filter((c) => c != null));
	return e;
}

/** put changes an element's text only when it is another, so that nothing is laid out for nothing. */
export function put(e, text) {
	if (e.textContent !== text) e.textContent = text;
}

/** say sets an attribute likewise. */
export function say(e, name, value) {
	if (e.getAttribute(name) !== value) e.setAttribute(name, value);
}

/** rate is a number of calls per second. */
export const rate = (x) => (x >= 10 || x === 0 ? count(Math.round(x)) : x.toFixed(1));

export const count = (n) => n.toLocaleString("en");

const unit = (text, name) => text + "\u00a0" + name;

/** span is a duration in milliseconds as text. */
export function span(ms) {
	if (ms <= 0) return unit("0", "ms");
	if (ms < 1) return unit(Math.round(ms * 1000), "µs");
	if (ms < 10) return unit(ms.toFixed(1), "ms");
	if (ms < 999.5) return unit(Math.round(ms), "ms");
	if (ms < 9950) return unit((ms / 1000).toFixed(1), "s");
	if (ms < 119500) return unit(Math.round(ms / 1000), "s");
	if (ms < 7170000) return unit(Math.round(ms / 60000), "min");
	return unit(Math.round(ms / 3600000), "h");
}

export const ago = (at, now) => (now - at < 1000 ? "just now" : span(now - at) + "\u00a0ago");

export const clock = (at) => new Date(at).toLocaleTimeString("en-GB");

export const spoken = (word) => word.replaceAll("_", " ");

export const times = (x) => (x == null ? "–" : x.toFixed(2) + "×");

export const percent = (x) => (x == null ? "–" : unit(x === 1 ? "100" : (x * 100).toFixed(1), "%"));

/** what says what a note is about, and on request its numbers. */
export function what(note, now, numbers = true) {
	const head = note.head ? `${note.head} since ${clock(note.since)} (${span(now - note.since)}): ` : "";
	return head + note.text.replaceAll(" %", "\u00a0%") + (note.numbers && numbers ? ` (${note.numbers})` : "");
}

/** when says since when, what else there is to say, and until when. */
export function when(note, now, line = "; ") {
	const parts = [];
	if (note.since > 0 && !note.head) parts.push(ago(note.since, now));
	if (note.more) parts.push(...note.more.split("; "));
	if (note.until > now) parts.push(`${note.then} in ${span(note.until - now)}`);
	else if (note.until > 0 && /probe/.test(note.then)) parts.push("probes with the next calls");
	else if (note.until === -1 && note.then) parts.push("until somebody ends it");
	return parts.join(note.more ? line : "; ");
}

/** sentence is both. */
export function sentence(note, now) {
	const times = when(note, now);
	return what(note, now) + (times ? ", " + times : "");
}

const states = {
	closed: "breaker closed", open: "breaker open", disabled: "breaker disabled",
	never_called: "never called", no_breaker: "no breaker", watched: "no breaker seen", keys: "keys and messages",
	half_open: "half open", forced_open: "forced open", observe_only: "observe only",
};

export const stateWord = (state) => states[state] ?? spoken(state);

const marks = {trouble: "▲", warning: "◆", hand: "■", good: "●", quiet: "○"};
const tones = {trouble: "in trouble", warning: "to watch", hand: "overridden", good: "well again", quiet: "calm"};

export const mark = (tone) => marks[tone] ?? "○";
export const toneWord = (tone) => tones[tone] ?? tone;
export const rank = {trouble: 0, warning: 1, hand: 2, good: 3, quiet: 3};
