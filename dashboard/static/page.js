// The page: one stream of frames, one tile for each dependency.

import {Detail} from "./detail.js";
import {Letters} from "./letters.js";
import {Replay} from "./replay.js";
import {Tile} from "./tile.js";
import {el, put, stateWord} from "./words.js";

const many = 50; // with more tiles than that each is a line
const probes = (state) => state === "open" || state === "half_open"; // from one to the other several times a second
const $ = (id) => document.getElementById(id);

class List {
	constructor() {
		this.tiles = new Map();
		this.host = $("tiles");
		this.skew = 0;
		this.filter = "";
		this.detail = new Detail($("detail"), this);
		this.letters = new Letters($("letters"), $("letter"), $("tab-letters"));
		this.visible = new IntersectionObserver((all) => {
			for (const one of all) {
				const tile = this.tiles.get(one.target.dataset.name);
				if (!tile) continue;
				tile.seen = one.isIntersecting;
				if (tile.seen) tile.draw(this.now());
			}
		}, {rootMargin: "200px"});
	}

	now() {
		return performance.now() + this.skew;
	}

	/** take takes a frame in. */
	take(frame) {
		this.skew = frame.at - performance.now();
		this.overrides = frame.overrides;
		this.letters.allow(frame.overrides);
		$("tabs").hidden = !frame.letters;
		if (frame.replay) (this.replay ??= new Replay($("replay"))).show(frame.replay, frame.at);

		const fresh = frame.tiles.length && frame.full ? new Set(frame.tiles.map((r) => r.name)) : null;
		if (frame.full) for (const name of [...this.tiles.keys()]) if (!fresh?.has(name)) this.drop(name);
		for (const name of frame.gone ?? []) this.drop(name);
		let sort = false;
		for (const row of frame.tiles) sort = this.takeRow(row, frame) || sort;
		for (const tile of this.tiles.values()) {
			tile.turn(frame.second);
			if (tile.seen) tile.draw(this.now());
		}
		if (sort) this.sort();
		this.summary();
		this.detail.turn();
	}

	takeRow(row, frame) {
		let tile = this.tiles.get(row.name), fresh = !tile;
		if (fresh) {
			tile = new Tile(row, this);
			this.tiles.set(row.name, tile);
			this.host.append(tile.box);
		}
		const order = fresh ? -1 : tile.order;
		const before = tile.take(row, frame.second, frame.full);
		if (fresh) {
			this.show(tile);
			tile.draw(this.now());
			this.visible.observe(tile.box);
		}
		if (before && before.state !== row.state && !(probes(before.state) && probes(row.state))) this.announce(row);
		return order !== tile.order;
	}

	drop(name) {
		const tile = this.tiles.get(name);
		if (!tile) return;
		this.visible.unobserve(tile.box);
		tile.end();
		this.tiles.delete(name);
	}

	/** sort puts trouble first. A tile that is being used stays where it is. */
	sort() {
		this.host.classList.toggle("long", this.tiles.size > many);
		this.host.classList.toggle("few", this.tiles.size < 3);
		const order = [...this.tiles.values()].sort((a, b) => a.order - b.order || (a.name < b.name ? -1 : 1));
		const busy = document.activeElement?.closest?.(".tile");
		order.forEach((tile, i) => {
			const there = this.host.children[i];
			if (there !== tile.box && tile.box !== busy) this.host.insertBefore(tile.box, there ?? null);
		});
	}

	announce(row) {
		const why = [row.cause?.text, row.notes?.[0]?.text].filter(Boolean).join(", ");
		$("news").append(el("p", null, `${row.name}: ${stateWord(probes(row.state) ? "open" : row.state)}${why ? ", " + why : ""}`));
		while ($("news").children.length > 5) $("news").firstChild.remove();
	}

	summary() {
		const n = [0, 0, 0, 0];
		for (const tile of this.tiles.values()) n[tile.rank]++;
		const parts = [];
		if (n[0]) parts.push(`${n[0]} in trouble`);
		if (n[1]) parts.push(`${n[1]} to watch`);
		if (n[2]) parts.push(`${n[2]} overridden`);
		if (n[3]) parts.push(n[3] === this.tiles.size ? `all ${n[3]} calm` : `${n[3]} calm`);
		put($("summary"), this.tiles.size === 1 ? "" : parts.join(" · "));
		$("filter").parentElement.hidden = this.tiles.size < 7;
		$("empty").hidden = this.tiles.size > 0;
		$("key").hidden = this.tiles.size === 0;
		put($("empty"), "No dependency is known here yet.");
	}

	show(tile) {
		tile.box.hidden = !tile.name.toLowerCase().includes(this.filter);
	}

	search(text) {
		this.filter = text.trim().toLowerCase();
		let found = 0;
		for (const tile of this.tiles.values()) {
			this.show(tile);
			if (!tile.box.hidden) found++;
		}
		$("empty").hidden = found > 0;
		put($("empty"), this.tiles.size ? "No name has that in it." : "No dependency is known here yet.");
	}

	open(name) {
		location.hash = "d=" + encodeURIComponent(name);
	}
}

const list = new List();
let last = 0;

function connect() {
	const stream = new EventSource("api/v1/stream");
	stream.onmessage = (event) => {
		last = performance.now();
		list.take(JSON.parse(event.data));
		link("live", list.replay ? "recording" : "live");
	};
	stream.onerror = () => {
		if (stream.readyState === EventSource.CLOSED) setTimeout(connect, 2000);
	};
}

function link(kind, text) {
	$("link").className = "link " + kind;
	put($("link"), text);
}

setInterval(() => {
	if (last && performance.now() - last > 3500) link("lost", `no news for ${Math.round((performance.now() - last) / 1000)} s`);
}, 1000);

function follow() {
	const name = /^#d=(.*)$/.exec(location.hash)?.[1], letter = /^#letters(?:=([0-9a-f]*))?$/.exec(location.hash);
	for (const part of [$("tiles"), $("empty"), $("summary"), document.querySelector(".filter"), $("key")]) part.classList.toggle("away", !!letter);
	for (const [tab, on] of [[$("tab-tiles"), !letter], [$("tab-letters"), !!letter]]) on ? tab.setAttribute("aria-current", "page") : tab.removeAttribute("aria-current");
	list.letters.show(!!letter, letter?.[1]);
	if (name === undefined) list.detail.close();
	else list.detail.open(decodeURIComponent(name));
}

$("filter").addEventListener("input", (event) => list.search(event.target.value));
addEventListener("hashchange", follow);
addEventListener("keydown", (event) => {
	if (event.key === "/" && !/INPUT|SELECT|TEXTAREA/.test(document.activeElement.tagName)) {
		event.preventDefault();
		$("filter").focus();
	}
});
link("", "connecting");
connect();
follow();
