// The tab of dead letters: counts by group, redrives, letters, and one letter in a sheet.

import {ago, count, el, put, say, span, spoken} from "./words.js";

const every = 2000; // milliseconds between looks, while the tab is to be seen
const date = (at) => (at ? new Date(at).toISOString().replace("T", " ").slice(0, 19) + "Z" : "–");
const patience = 15000; // milliseconds that the page waits for an answer
const meant = (name) => name.value ?? name.name; // what the store calls a group or a reason
const ask = (what, how) => fetch(what, {...how, signal: AbortSignal.timeout(patience)});
const size = (n) => (n >= 10485760 ? `${Math.round(n / 1048576)} MiB` : n >= 10240 ? `${Math.round(n / 1024)} KiB` : `${n} B`);

export class Letters {
	constructor(host, sheet, tab) {
		Object.assign(this, {host, sheet, tab, on: false, from: "", back: [], group: "", reason: "", id: undefined, rows: new Map(), drives: new Map()});
		sheet.addEventListener("close", () => {
			sheet.replaceChildren();
			if (this.id === undefined) return;
			this.id = undefined;
			if (this.on) history.replaceState(null, "", location.pathname + location.search + "#letters");
		});
		sheet.addEventListener("click", (event) => event.target === sheet && sheet.close());
		document.addEventListener("visibilitychange", () => this.turn());
	}

	/** show shows the tab or hides it, and a letter in the sheet. */
	show(on, id) {
		this.on = on;
		this.host.hidden = !on;
		if (on && !this.parts) this.build();
		if (id) this.open(id);
		else if (this.sheet.open) {
			this.id = undefined;
			this.sheet.close();
		}
		this.turn();
	}

	/** allow shows the controls, or none. Each frame of the page says which. */
	allow(overrides) {
		if (overrides === this.overrides) return;
		this.overrides = overrides;
		if (!this.parts) return;
		this.rows.clear();
		this.drives.clear();
		this.text = "";
		this.build();
		if (this.last) this.take(this.last);
		if (this.id !== undefined) this.load();
	}

	/** turn looks now, and again after a while. There is one look at a time. */
	async turn() {
		clearTimeout(this.timer);
		if (!this.on || document.hidden) return;
		if (!this.looking) {
			this.looking = true;
			await this.look();
			this.looking = false;
			clearTimeout(this.timer);
		}
		if (this.on) this.timer = setTimeout(() => this.turn(), every);
	}

	async look() {
		const q = new URLSearchParams();
		for (const name of ["group", "reason", "from"]) if (this[name]) q.set(name, this[name]);
		const asked = q.toString();
		try {
			const got = await ask("api/v1/letters?" + asked);
			if (!got.ok) throw new Error(await got.text());
			const v = await got.json();
			if (asked === this.wanted()) this.take(v);
		} catch (err) {
			put(this.parts.problem, "The list is old: " + err.message);
		}
	}

	wanted() {
		const q = new URLSearchParams();
		for (const name of ["group", "reason", "from"]) if (this[name]) q.set(name, this[name]);
		return q.toString();
	}

	build() {
		const p = this.parts = {};
		const head = (...names) => el("thead", null, el("tr", null, ...names.map((n) => el("th", {scope: "col"}, n))));
		const narrow = (name) => el("select", {"aria-label": name, onchange: (event) => {
			this[name] = event.target.value;
			this.page("", []);
		}}, el("option", {value: ""}, `every ${name}`));
		this.host.replaceChildren(
			p.problem = el("p.problem", {role: "status"}),
			el("div.scroll", null, el("table.groups", null, el("caption.unseen", null, "Dead letters by group"),
				head("Group", "Waiting", "Taken", "Outcome unknown", "Oldest", "New", "Reasons", ...(this.overrides ? ["Run again"] : [])), p.groups = el("tbody"))),
			p.hidden = el("p.line"),
			p.drivesBox = el("section", {hidden: true}, el("h2", null, "Redrives"), p.drives = el("ul.drives")),
			el("div.narrow", null, p.group = narrow("group"), p.reason = narrow("reason")),
			el("div.scroll", null, el("table.list", null, el("caption.unseen", null, "Dead letters, the oldest first"),
				head("Letter", "Put away", "Group", "Key", "Reason", "Runs", "Last failure"), p.letters = el("tbody"))),
			el("div.pages", null,
				p.before = el("button", {type: "button", hidden: true, onclick: () => this.page(this.back.pop() ?? "", this.back)}, "Back"),
				p.next = el("button", {type: "button", hidden: true, onclick: () => this.page(this.to, [...this.back, this.from])}, "More")));
	}

	page(from, back) {
		Object.assign(this, {from, back});
		this.turn();
	}

	take(v) {
		const p = this.parts, now = v.at;
		put(p.problem, v.problem ?? "");
		if (v.problem) return;
		this.last = v;
		put(this.tab, `Dead letters (${count(v.groups.reduce((n, g) => n + g.waiting, 0))})`);
		this.keyed(this.rows, p.groups, v.groups, meant, () => this.groupRow(), (row, g) => row.take(g, now));
		if (!v.groups.length) p.groups.replaceChildren(el("tr", null, el("td", {colspan: 8}, "No dead letters.")));
		put(p.hidden, v.groups_hidden ? `and ${count(v.groups_hidden)} more groups` : "");
		p.drivesBox.hidden = !v.redrives.length;
		this.keyed(this.drives, p.drives, v.redrives, (d) => d.id, () => this.driveRow(), (row, d) => row.take(d, now));
		this.choices(p.group, v.groups, this.group);
		this.choices(p.reason, v.groups.flatMap((g) => g.reasons).filter((r) => r.name).sort((a, b) => (a.name < b.name ? -1 : 1)), this.reason);
		this.lines(v.letters, now);
		this.to = v.next;
		p.next.hidden = !v.next;
		p.before.hidden = !this.back.length;
	}

	/** keyed keeps the elements of what stays, so that a field that somebody types in stays, too. */
	keyed(have, host, all, key, make, take) {
		const names = new Set(all.map(key));
		for (const [name, row] of have) if (!names.has(name)) (row.box.remove(), have.delete(name));
		all.forEach((one, i) => {
			let row = have.get(key(one));
			if (!row) have.set(key(one), row = make());
			take(row, one);
			if (host.children[i] !== row.box) host.insertBefore(row.box, host.children[i] ?? null);
		});
		while (host.children.length > all.length) host.lastChild.remove();
	}

	choices(select, all, chosen) {
		const names = new Map(all.map((one) => [meant(one), one.name]));
		if (chosen && !names.has(chosen)) names.set(chosen, chosen);
		const text = JSON.stringify([...names]);
		if (select.dataset.names === text || select === document.activeElement) return;
		select.dataset.names = text;
		select.replaceChildren(select.firstChild, ...Array.from(names, ([value, name]) => el("option", {value, selected: value === chosen}, spoken(name))));
	}

	groupRow() {
		const cell = (label) => el("td", {"data-label": label}), row = {};
		const c = {waiting: cell("waiting"), taken: cell("taken"), unresolved: cell("outcome unknown"), oldest: cell("oldest"), fresh: cell("new"), reasons: el("td")};
		const name = el("th", {scope: "row"});
		row.box = el("tr", null, name, ...Object.values(c));
		let g;
		if (this.overrides) {
			const rate = el("input.rate", {type: "number", min: "0.01", max: "10000", step: "any", value: "5", "aria-label": "letters a second"});
			const answer = el("p.line", {role: "status"});
			const button = el("button", {type: "button", onclick: () => {
				if (!rate.reportValidity()) return;
				if (this.sure(button, "Redrive", this.reason ? `Really run those of ${g.name} with ${this.parts.reason.selectedOptions[0].text}?` : `Really run ${count(g.waiting - g.unresolved)} of ${g.name}?`)) this.act({action: "redrive", group: meant(g), reason: this.reason, rate: Number(rate.value)}, answer);
			}}, "Redrive");
			row.box.append(el("td.hand", null, rate, " a second ", button, answer));
		}
		row.take = (fresh, now) => {
			g = fresh;
			put(name, g.name);
			for (const key of ["waiting", "taken", "unresolved"]) put(c[key], count(g[key]));
			c.unresolved.classList.toggle("warning", g.unresolved > 0);
			put(c.oldest, g.oldest ? ago(g.oldest, now) : "–");
			put(c.fresh, g.new_seconds ? `${count(g.new)} in ${span(g.new_seconds * 1000)}` : "–");
			put(c.reasons, g.reasons.map((r) => `${spoken(r.name || "others")} ${count(r.count)}`).join(", ") || "–");
		};
		return row;
	}

	driveRow() {
		const text = el("p.line"), bar = el("progress", {"aria-label": "letters that ran"}), answer = el("p.line", {role: "status"});
		let d;
		const stop = this.overrides ? el("button", {type: "button", onclick: () => this.act({action: "stop", redrive: d.id}, answer)}, "Stop") : null;
		const row = {box: el("li", null, text, bar, stop, answer)};
		row.take = (fresh, now) => {
			d = fresh;
			row.box.classList.toggle("warning", d.state === "stopped_by_itself");
			put(text, `${d.group}: ${spoken(d.state)}, ${count(d.done)} of ${count(d.total)} done, ${count(d.failed)} failed, ${count(d.left)} left · ${d.rate} a second · ordered ${ago(d.made, now)}${d.by ? " by " + d.by : ""}${d.why ? " · " + d.why : ""}`);
			say(bar, "max", String(Math.max(1, d.total)));
			say(bar, "value", String(d.done + d.failed)); // not what is left: of one that was stopped nothing is
			if (stop) stop.hidden = d.state !== "driving";
		};
		return row;
	}

	lines(letters, now) {
		const body = this.parts.letters, used = document.activeElement?.dataset?.letter;
		const text = JSON.stringify(letters);
		if (text !== this.text) {
			this.text = text;
			body.replaceChildren(...letters.map((l) => el("tr", null,
				el("th", {scope: "row"}, el("a", {href: "#letters=" + l.id, "data-letter": l.id}, l.id.slice(0, 12))),
				el("td", {title: date(l.kept), "data-at": l.kept}), el("td", null, l.group), el("td", null, l.key ?? "–"), el("td", null, why(l)), el("td", {"data-label": "runs"}, count(l.attempts)), el("td.error", null, l.error ?? "–"))));
			if (!letters.length) body.replaceChildren(el("tr", null, el("td", {colspan: 7}, "No such letters.")));
			if (used) body.querySelector(`[data-letter="${used}"]`)?.focus();
		}
		for (const e of body.querySelectorAll("[data-at]")) put(e, ago(Number(e.dataset.at), now));
	}

	async open(id) {
		this.id = id;
		this.sheet.replaceChildren(
			el("header", null, el("h2", {id: "letter-name", tabindex: -1, autofocus: true}, id),
				el("button.close", {type: "button", "aria-label": "Close", onclick: () => this.sheet.close()}, "×")),
			this.inside = el("div", null, el("p.line", null, "…")));
		if (!this.sheet.open) this.sheet.showModal();
		await this.load();
	}

	async load() {
		const id = this.id;
		try {
			const got = await ask("api/v1/letter?id=" + encodeURIComponent(id));
			if (this.id !== id) return;
			if (got.ok) this.inside.replaceChildren(...this.letter(await got.json()));
			else this.inside.replaceChildren(el("p.line", null, await got.text()));
		} catch (err) {
			this.inside.replaceChildren(el("p.line", null, "It could not be read: " + err.message));
		}
	}

	letter(l) {
		const facts = [["group", l.group], ["reason", why(l)], ["key", l.key], ["source", l.source], ["position", l.position], ["order", l.order],
			["put away", date(l.kept)], ["runs", count(l.attempts)], ["taken", l.redriven ? `${count(l.redriven)}× for a run again, admitted or not` : ""], ["by", l.by], ["note", l.note],
			["headers", l.headers.join(", ")], ["payload", l.sealed ? "sealed, and this page has no key" : l.state === "dropped" ? "erased" : `${size(l.payload_bytes)}, SHA-256 ${l.payload_sha256}`]];
		return [
			el("table.facts", null, el("tbody", null, ...facts.filter(([, v]) => v).map(([k, v]) => el("tr", null, el("th", {scope: "row"}, k), el("td", null, v))))),
			el("section", null, el("h3", null, l.sealed ? "The last failure" : "Failures, the oldest first"), el("ol.news", null, ...l.failures.map((f) => el("li", null,
				`${f.attempt ? "run " + f.attempt + ", " : ""}${date(f.at)}, took ${span(f.took_ms)}${f.class ? ", " + spoken(f.class) : ""}: ${f.message || "–"}`)))),
			el("section", null, el("h3", null, "On the command line"), el("p.line", null, el("code", null, "gabion deadletter show " + l.id))),
			...(this.overrides ? [this.hand(l)] : []),
		];
	}

	/** hand is what can be done with a letter. */
	hand(l) {
		const answer = el("p.line", {role: "status"}), note = el("input.note", {type: "text", placeholder: "Why, or how it was found out", "aria-label": "note", maxlength: 500});
		const buttons = [], open = l.reason === "outcome_unknown" && !l.resolved;
		const button = (label, title, onclick) => buttons.push(el("button", {type: "button", title, onclick: ({currentTarget}) => onclick(currentTarget)}, label));
		const noted = () => note.value.trim() || (put(answer, "Say why first."), note.focus(), "");
		if (l.state === "waiting" && !open) button("Redrive", "a consumer runs it again, under the same key", () => this.act({action: "redrive", id: l.id, rate: 1}, answer, true));
		if (l.state === "waiting" && open) for (const [as, label, title] of [["done", "It was done", "it had its effect: the letter is done"], ["nothing", "Nothing happened", "it had no effect: a redrive may run it"]])
			button(label, title, () => noted() && this.act({action: "resolve", id: l.id, as, note: note.value}, answer, true));
		if (l.state === "waiting") button("Drop", "gives it up: its payload is erased", (b) =>
			noted() && this.sure(b, "Drop", "Really erase it?") && this.act({action: "drop", id: l.id, note: note.value}, answer, true));
		return el("div.override", {hidden: !buttons.length}, el("h3", null, open ? "Its outcome is unknown" : "By hand"), note, ...buttons, answer);
	}

	/** sure asks once more: it takes a second click within five seconds. */
	sure(button, label, question) {
		const calm = () => {
			clearTimeout(this.asked);
			this.asked = 0;
			put(this.asking, this.label);
			this.asking.classList.remove("asks");
		};
		const again = this.asked && this.asking === button;
		if (this.asked) calm();
		if (again) return true;
		Object.assign(this, {asking: button, label});
		put(button, question);
		button.classList.add("asks");
		this.asked = setTimeout(calm, 5000);
		return false;
	}

	async act(what, answer, reload) {
		put(answer, "…");
		try {
			const got = await ask("api/v1/letter-act", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(what)});
			const text = (await got.json()).text;
			put(answer, text);
			if (got.ok && reload) {
				await this.load();
				this.inside.append(el("p.line", {role: "status"}, text));
			}
		} catch (err) {
			put(answer, "It could not be asked for: " + err.message);
		}
		this.turn();
	}
}

const why = (l) => (l.state !== "waiting" ? l.state + ", " : "") + spoken(l.reason) + (l.resolved ? ` (${l.resolved})` : "");
