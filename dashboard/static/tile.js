// One dependency, as a card or as a line of a long list.

import {Spark, bar, strip} from "./chart.js";
import {ago, count, el, mark, percent, put, rank, rate, say, span, stateWord, times, toneWord, what, when} from "./words.js";

const seconds = Array.from({length: 119}, (_, i) => i - 118);
const outcomes = [
	["first", "succeeded"], ["rescued", "succeeded after a retry or hedge"], ["answered_no", "answered “no”"],
	["failed", "failed"], ["refused", "refused here"], ["caller_left", "caller left"],
];

export class Tile {
	constructor(row, list) {
		this.name = row.name;
		this.list = list;
		this.history = [0, 1, 2].map(() => new Array(119).fill(0));
		this.second = 0;
		this.seen = false;
		this.build();
	}

	build() {
		const p = this.parts = {};
		const open = () => this.list.open(this.name);
		this.box = el("article.tile", {"data-name": this.name},
			el("header", null,
				p.mark = el("span.mark", {"aria-hidden": "true"}),
				el("h2", null, p.name = el("button.name", {type: "button", onclick: open, title: this.name}, this.name)),
				p.state = el("span.state")),
			el("div.about", null, p.cause = el("p.cause"), p.notes = el("div.notes"), p.doing = el("p.doing")),
			el("dl.figures", null,
				figure("calls/s", p.rate = el("dd")),
				figure("attempts per call", p.amp = el("dd")),
				figure("succeeded", p.good = el("dd")),
				figure("p95", p.p95 = el("dd"))),
			p.spark = el("div.spark", {role: "img", title: "calls per second in grey, failed in red, refused here dashed; two minutes"}),
			p.latency = el("div.latency", null, p.percentiles = el("p.line"), p.strip = el("div.strip")),
			p.results = el("div.results", null, p.bar = el("div.bar"), p.legend = el("p.line")),
			p.gauges = el("div.gauges", null,
				p.slots = gauge("slots"), p.budget = gauge("re-sends")),
			p.sums = el("p.line.sums"),
			p.errors = el("ul.errors"));
		this.spark = new Spark(p.spark, 52);
	}

	/** take takes a row in. The tile is drawn when it can be seen. */
	take(row, second, full) {
		const before = this.row;
		this.row = row;
		if (full && row.history) {
			for (let i = 0; i < 3; i++) this.history[i] = row.history.map((s) => s[i]);
			this.second = second;
		}
		return before && (before.state !== row.state || before.tone !== row.tone) ? before : null;
	}

	/** turn moves the sparkline on to a second. A row that did not come has not changed. */
	turn(second) {
		if (this.second === 0) this.second = second - 1;
		const last = this.row.second ?? [0, 0, 0];
		for (; this.second < second; this.second++) {
			for (let i = 0; i < 3; i++) {
				this.history[i].shift();
				this.history[i].push(this.second === second - 1 ? last[i] : 0);
			}
		}
	}

	get rank() {
		return rank[this.row.tone] ?? 3;
	}

	/** order puts what refuses everything before what fails. */
	get order() {
		return this.rank * 2 + (/open$/.test(this.row.state) ? 0 : 1);
	}

	data() {
		return [seconds, this.history[0], this.history[2], this.history[1]];
	}

	draw(now) {
		const r = this.row, p = this.parts;
		say(this.box, "data-tone", r.tone);
		say(this.box, "data-state", r.state);
		put(p.mark, mark(r.tone));
		put(p.state, stateWord(r.state));
		say(p.state, "aria-label", `${stateWord(r.state)}, ${toneWord(r.tone)}`);
		cause(p.cause, r, now);
		notes(p.notes, r.notes ?? [], now, 2, true);
		put(p.doing, r.doing ?? "");
		p.doing.hidden = !r.doing;
		put(p.rate, rate(r.calls_per_second));
		put(p.amp, times(r.amplification));
		p.amp.classList.toggle("high", r.amplification > 1.2);
		put(p.good, percent(r.succeeded));
		put(p.p95, r.latency ? span(r.latency.p95) : "–");
		this.spark.show(this.data());
		this.drawLatency(r, p);
		this.drawResults(r, p);
		this.drawGauges(r, p);
		lines(p.errors, (r.errors ?? []).map((e) => errorLine(e, now)));
		p.errors.hidden = !r.errors;
	}

	drawLatency(r, p) {
		p.latency.classList.toggle("none", !r.latency);
		if (!r.latency) {
			put(p.percentiles, "no attempts in the last 30 s");
			p.strip.classList.add("none");
			return;
		}
		p.strip.classList.remove("none");
		const l = r.latency;
		put(p.percentiles, `p50 ${span(l.p50)} · p95 ${span(l.p95)} · p99 ${span(l.p99)}` + (l.attempt_timeout ? ` │ timeout ${span(l.attempt_timeout)}` : ""));
		strip(p.strip, l);
	}

	drawResults(r, p) {
		p.results.classList.toggle("none", !r.calls);
		bar(p.bar, outcomes.map(([key]) => [key, r.calls ? r.outcomes[key] / r.calls : 0]));
		const text = outcomes.filter(([key]) => r.outcomes[key]).map(([key, long]) => `${count(r.outcomes[key])} ${long}`);
		put(p.legend, text.length ? "last 30 s: " + text.join(" · ") : "no calls in the last 30 s");
	}

	drawGauges(r, p) {
		p.slots.hidden = !r.slots;
		p.budget.hidden = p.sums.hidden = !r.budget;
		if (r.slots) {
			const s = r.slots;
			put(p.slots.value, `${s.in_use} of ${count(s.limit)}` + (s.queued ? `, ${s.queued} wait` : ""));
			say(p.slots.value, "title", s.text);
			bar(p.slots.bar, [[s.in_use >= s.limit ? "full" : "level", Math.min(s.in_use / Math.max(s.limit, 1), 1)]]);
		}
		if (r.budget) {
			put(p.budget.value, r.budget.off ? "no bound" : `${count(r.budget.level)} left`);
			say(p.sums, "title", r.budget.text);
			put(p.sums, r.budget.text.replace(/^\d+ re-sends? left: /, "re-sends: "));
			bar(p.budget.bar, [[r.budget.level ? "level" : "full", r.budget.off ? 1 : Math.min(r.budget.level / Math.max(r.budget.most, 1), 1)]]);
		}
	}

	end() {
		this.spark.end();
		this.box.remove();
	}
}

function figure(label, value) {
	return el("div", null, el("dt", null, label), value);
}

function gauge(label) {
	const value = el("span.value"), host = el("div.bar");
	const box = el("div.gauge", null, el("p.line", null, el("span.label", null, label), " ", value), host);
	return Object.assign(box, {value, bar: host});
}

/** cause writes what fails most, before all else. */
export function cause(host, r, now) {
	host.hidden = !r.cause;
	put(host, r.cause ? `${r.cause.text}, ${ago(r.cause.last, now)}` : "");
}

/** notes writes sentences into host, each with its tone. When they are short, the first alone has its numbers. */
export function notes(host, all, now, most, short = false) {
	const shown = all.slice(0, most);
	while (host.children.length > shown.length) host.lastChild.remove();
	while (host.children.length < shown.length) host.append(el("p", null, el("span.what"), " ", el("span.when"), " ", el("a.help", {target: "_blank", rel: "noreferrer"}, "what to do")));
	shown.forEach((note, i) => {
		const p = host.children[i];
		say(p, "class", "note " + note.tone);
		put(p.firstChild, what(note, now, !short || i === 0));
		put(p.querySelector(".when"), when(note, now, host.closest(".long") ? "; " : "\n"));
		p.lastChild.hidden = !note.help;
		if (note.help) say(p.lastChild, "href", note.help);
	});
}

/** lines writes texts into a list. */
export function lines(host, texts) {
	while (host.children.length > texts.length) host.lastChild.remove();
	while (host.children.length < texts.length) host.append(el("li"));
	texts.forEach((text, i) => put(host.children[i], text));
}

export function errorLine(e, now) {
	const code = e.code ? " " + e.code : "";
	const limit = e.reason ? `, ${e.reason.replaceAll("_", " ")}` : "";
	return `${e.class}${code}${limit} ×${count(e.count)}, ${ago(e.last, now)}`;
}
