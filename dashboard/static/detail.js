// Everything about one dependency, in a sheet beside the list.

import {Spark} from "./chart.js";
import {cause, errorLine, lines, notes} from "./tile.js";
import {ago, clock, count, el, put, rate, say, sentence, span, spoken, stateWord, times, percent} from "./words.js";

const actions = [
	["force_open", "Force open", "refuses every call"], ["reset", "Close (reset)", "closes the breaker with nothing counted"],
	["disable", "Disable", "lets every call through and counts nothing"], ["observe_only", "Observe only", "counts and never refuses"],
	["retries_off", "Retries off", "sends nothing again, and no hedges"], ["retries_on", "Retries on", "ends that"],
];

export class Detail {
	constructor(host, list) {
		Object.assign(this, {host, list, name: null, opened: new Set()});
		host.addEventListener("close", () => {
			if (this.name === null) return;
			this.leave();
			history.replaceState(null, "", location.pathname + location.search);
		});
		host.addEventListener("click", (event) => event.target === host && host.close());
	}

	open(name) {
		if (this.name === name) return;
		if (this.name !== null) this.leave();
		this.name = name;
		this.build();
		if (!this.host.open) this.host.showModal();
		this.load();
	}

	close() {
		if (this.host.open) this.host.close();
	}

	leave() {
		this.name = null;
		this.opened.clear();
		clearTimeout(this.asked);
		this.asked = 0;
		this.spark?.end();
		this.host.replaceChildren();
	}

	/** turn is called with each frame. */
	turn() {
		if (this.name !== null && !this.loading) this.load();
	}

	async load() {
		this.loading = true;
		const name = this.name;
		try {
			const answer = await fetch("api/v1/dependency?name=" + encodeURIComponent(name));
			if (this.name !== name) return;
			if (answer.ok) this.show(await answer.json());
			else put(this.parts.state, await answer.text());
		} catch {
			// The stream says that there is no connection.
		} finally {
			this.loading = false;
		}
	}

	build() {
		const p = this.parts = {};
		const section = (title, ...inside) => el("section", {hidden: true}, el("h3", null, title), ...inside);
		this.host.replaceChildren(
			el("header", null,
				el("h2", {id: "detail-name", tabindex: -1, autofocus: true}, this.name),
				p.state = el("span.state"),
				el("button.close", {type: "button", "aria-label": "Close", onclick: () => this.host.close()}, "×")),
			p.cause = el("p.cause"),
			p.notes = el("div.notes"),
			p.doing = el("p.doing"),
			p.figures = el("p.line"),
			p.chart = el("div.chart", {"aria-hidden": "true"}),
			el("p.key", null, el("span.k.calls", null, "calls"), el("span.k.failed", null, "failed"), el("span.k.refused", null, "refused"), " per second, last two minutes"),
			p.hand = el("div.override", {hidden: true}),
			p.calls = section("Calls worth reading", p.callList = el("div")),
			p.errors = section("Last errors", p.errorList = el("ul.errors")),
			p.refusals = section("Not sent, and why", p.refusalList = el("ul.errors")),
			p.partitions = section("Partitions to look at", p.partitionList = el("ul.errors"), p.hidden = el("p.line")),
			p.levels = section("Levels", p.levelList = el("ul.errors")),
			p.news = section("What happened", p.newsList = el("ol.news")),
			p.codes = section("Decided about keys and messages", p.codeList = el("ul.errors")),
			p.rules = section("Rules in force", p.ruleTable = el("table.rules")));
		this.spark = new Spark(p.chart, 150, true);
		this.rulesText = "";
	}

	show(d) {
		const p = this.parts, now = d.at, r = d.row;
		say(this.host, "data-tone", r.tone);
		say(this.host, "data-state", r.state);
		put(p.state, stateWord(r.state));
		cause(p.cause, r, now);
		notes(p.notes, r.notes ?? [], now, 10);
		put(p.doing, r.doing ?? "");
		p.doing.hidden = !r.doing;
		put(p.figures, `${rate(r.calls_per_second)} calls/s · ${times(r.amplification)} attempts per call · ${percent(r.succeeded)} succeeded` +
			(r.hedges ? ` · ${count(r.hedges)} hedges` : "") + (r.latency ? ` · p99 ${span(r.latency.p99)}` : ""));
		const h = r.history, x = h.map((_, i) => i - h.length + 1);
		this.spark.show([x, h.map((s) => s[0]), h.map((s) => s[2]), h.map((s) => s[1])]);
		if (this.list.overrides && !p.hand.firstChild) this.buildHand(); // a link leads here before the first frame
		p.hand.hidden = !this.list.overrides || !d.rules;
		part(p.errors, p.errorList, d.errors, (e) => errorLine(e, now) + (e.partition ? ` · ${e.partition}` : "") + (e.operation ? ` · ${e.operation}` : ""));
		part(p.refusals, p.refusalList, d.refusals, (e) => `${spoken(e.reason)} ×${count(e.count)} in 30 s, last ${ago(e.last, now)}${e.text ? ": " + e.text : ""}`);
		part(p.partitions, p.partitionList, d.partitions, (e) => `${e.name}: ${stateWord(e.state)}${e.text ? ", " + sentence({...e, then: e.state === "open" ? "next probe at the latest" : "ends"}, now) : ""}`);
		put(p.hidden, d.partitions_hidden ? `and ${count(d.partitions_hidden)} more, less troubled` : "");
		part(p.news, p.newsList, d.news, newsLine);
		part(p.codes, p.codeList, d.decisions, (e) => `${spoken(e.name)} ×${count(e.count)}`);
		part(p.levels, p.levelList, [...(r.budget ? ["budget: " + r.budget.text] : []), ...(d.levels ?? [])], (text) => text);
		this.showCalls(d.calls ?? [], now);
		this.showRules(d.rules ?? []);
	}

	showCalls(calls, now) {
		const p = this.parts;
		p.calls.hidden = !calls.length;
		const have = new Map([...p.callList.children].map((e) => [e.dataset.call, e]));
		p.callList.replaceChildren(...calls.map((c) => {
			const e = have.get(String(c.call)) ?? callBox(c);
			put(e.when, ago(c.at, now));
			return e;
		}));
	}

	showRules(rules) {
		const text = JSON.stringify(rules);
		if (text === this.rulesText) return;
		this.rulesText = text;
		this.parts.rules.hidden = !rules.length;
		this.parts.ruleTable.replaceChildren(
			el("thead", null, el("tr", null, el("th", null, "rule"), el("th", null, "value"), el("th", null, "from"))),
			el("tbody", null, ...rules.map((r) => el(r.source === "default" ? "tr.default" : "tr", {title: r.why ?? null},
				el("th", null, r.path), el("td", null, r.value), el("td", null, r.source)))));
	}

	buildHand() {
		const p = this.parts;
		const minutes = el("select", {"aria-label": "for how long"}, ...[1, 5, 15, 60].map((n) => el("option", {value: n, selected: n === 5}, `for ${n} min`)));
		const answer = el("p.line", {role: "status"});
		p.hand.replaceChildren(el("h3", null, "Override"), minutes,
			...actions.map(([action, label, title]) => el("button", {type: "button", title, "data-action": action, onclick: ({currentTarget}) => {
				if (action !== "force_open" || this.sure(currentTarget, label, minutes)) this.act(action, Number(minutes.value), answer);
			}}, label)),
			answer);
	}

	/** sure asks once more: what stops every call takes a second click within five seconds. */
	sure(button, label, minutes) {
		const calm = () => {
			clearTimeout(this.asked);
			this.asked = 0;
			put(button, label);
			button.classList.remove("asks");
		};
		if (this.asked) {
			calm();
			return true;
		}
		put(button, `Really force open for ${minutes.value} min?`);
		button.classList.add("asks");
		this.asked = setTimeout(calm, 5000);
		minutes.addEventListener("change", calm, {once: true});
		return false;
	}

	async act(action, minutes, answer) {
		put(answer, "…");
		try {
			const got = await fetch("api/v1/override", {
				method: "POST", headers: {"Content-Type": "application/json"},
				body: JSON.stringify({dependency: this.name, action, minutes}),
			});
			const verdict = await got.json();
			put(answer, verdict.text + (verdict.until ? `, until ${clock(verdict.until)}` : ""));
		} catch (err) {
			put(answer, "It could not be asked for: " + err.message);
		}
		this.load();
	}
}

function part(box, list, all, text) {
	box.hidden = !all?.length;
	lines(list, (all ?? []).map(text));
}

function newsLine(e) {
	const at = e.since ? clock(e.since) : "";
	return `${clock(e.at)} ${e.text}` + (at ? `, since ${at}` : "") + (e.last ? `, last: ${e.last}` : "");
}

/** callBox is one call with its timeline. */
function callBox(c) {
	const when = el("span.when");
	const total = Math.max(c.took, 0.001);
	const steps = c.steps.map((s) => el("li." + s.tone, null,
		el("span.after", null, "+" + span(s.after)), el("span.text", null, s.text),
		s.setting ? el("span.setting", {title: "the rule behind it"}, s.setting) : null));
	const box = el("details.call", {"data-call": c.call},
		el("summary", null, el("span.number", {title: "call= in logs, and gabion explain --call"}, "#" + c.call), " ", el("span.outcome", null, c.outcome), " ", el("span.took", null, span(total)), " ",
			el("span.what", null, [c.operation, c.partition].filter(Boolean).join(" · ")), " ", when),
		el("ol.steps", null, ...steps),
		el("p.line", null, "of a recording: ", el("code", null, `gabion explain --call ${c.call}`), "; in logs: ", el("code", null, `call=${c.call}`)));
	return Object.assign(box, {when});
}
