// Drawings: sparklines by uPlot, bars and strips as SVG.

const ns = "http://www.w3.org/2000/svg";

function svg(tag, attributes) {
	const e = document.createElementNS(ns, tag);
	for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
	return e;
}

const scheme = matchMedia("(prefers-color-scheme: dark)");
const charts = new Set();
scheme.addEventListener("change", () => charts.forEach((c) => c.renew()));

function colour(name) {
	return getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim();
}

/** A Spark draws two minutes of calls, failed calls and refused calls. With axes it is a chart. */
export class Spark {
	constructor(host, height, axes = false) {
		Object.assign(this, {host, height, axes, plot: null, data: null});
		charts.add(this);
		this.sizes = new ResizeObserver(() => this.fit());
		this.sizes.observe(host);
	}

	show(data) {
		this.data = data;
		if (this.plot) this.plot.setData(data);
		else this.fit();
	}

	fit() {
		const width = Math.floor(this.host.clientWidth);
		if (!width || !this.data) return;
		if (!this.plot) this.plot = new uPlot(this.options(width), this.data, this.host);
		else if (this.plot.width !== width) this.plot.setSize({width, height: this.height});
	}

	options(width) {
		const soft = colour("soft"), line = colour("line");
		const axis = {stroke: soft, grid: {stroke: line, width: 1}, ticks: {show: false}, font: "12px system-ui, sans-serif"};
		const series = (name, stroke, fill, dash) => ({label: name, stroke, fill, dash, width: 1.25, points: {show: false}});
		return {
			width, height: this.height, legend: {show: false}, cursor: {show: false},
			padding: this.axes ? [8, 18, 0, 0] : [3, 0, 1, 0],
			scales: {x: {time: false}, y: {range: (_, __, most) => [0, Math.max(most, 1) * 1.05]}},
			axes: this.axes
				? [{...axis, values: (_, all) => all.map((s) => (s === 0 ? "now" : `${s} s`)), size: 26}, {...axis, size: 44}]
				: [{show: false}, {show: false}],
			series: [
				{},
				series("calls", colour("curve"), colour("curve-fill")),
				series("refused", colour("warning"), undefined, [4, 3]),
				series("failed", colour("trouble"), colour("trouble-fill")),
			],
		};
	}

	renew() {
		this.plot?.destroy();
		this.plot = null;
		this.fit();
	}

	end() {
		charts.delete(this);
		this.sizes.disconnect();
		this.plot?.destroy();
	}
}

/** bar draws parts of a whole: [[class, share], …]. */
export function bar(host, parts) {
	let at = 0;
	const rects = [];
	for (const [kind, share] of parts) {
		if (share <= 0) continue;
		rects.push([kind, at, share]);
		at += share;
	}
	drawRects(host, rects);
}

function drawRects(host, rects) {
	const text = rects.map(([kind, at, share]) => `${kind} ${at.toFixed(4)} ${share.toFixed(4)}`).join();
	if (host.drawn === text) return;
	host.drawn = text;
	let e = host.firstElementChild;
	if (!e) host.append(e = svg("svg", {width: "100%", height: "100%", "aria-hidden": "true", focusable: "false"}));
	e.replaceChildren(...rects.map(([kind, at, share]) =>
		svg("rect", {class: kind, x: at * 100 + "%", width: share * 100 + "%", y: 0, height: "100%"})));
}

/** strip draws percentiles on a logarithmic scale, with the attempt timeout as a line. */
export function strip(host, l) {
	const low = Math.max(l.p50 / 4, 0.01), high = Math.max(l.attempt_timeout ?? 0, l.p99) * 1.35;
	const at = (ms) => Math.min(Math.max(Math.log(ms / low) / Math.log(high / low), 0), 1);
	const rects = [["p50", 0, at(l.p50)], ["p95", at(l.p50), at(l.p95) - at(l.p50)], ["p99", at(l.p95), at(l.p99) - at(l.p95)]];
	if (l.attempt_timeout) rects.push([l.p99 >= l.attempt_timeout * 0.9 ? "limit reached" : "limit", at(l.attempt_timeout), 0.006]);
	drawRects(host, rects);
}
