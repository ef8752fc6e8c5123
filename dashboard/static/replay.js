// The controls of a page that plays a recording.

import {clock, el, put} from "./words.js";

const speeds = [1, 2, 5, 10, 30, 60, 300];

export class Replay {
	constructor(host) {
		this.host = host;
		host.replaceChildren(
			this.button = el("button", {type: "button", onclick: () => this.ask({playing: !this.state.playing, ...(this.over() ? {at: this.state.first} : {})})}),
			this.time = el("output.time"),
			this.slider = el("input", {type: "range", "aria-label": "moment", min: 0, step: "any"}),
			this.end = el("span.time"),
			this.speed = el("select", {"aria-label": "speed"}, ...speeds.map((n) => el("option", {value: n}, n + "×"))));
		this.slider.addEventListener("input", () => {
			this.sliding = true;
			put(this.time, clock(this.chosen()));
		});
		this.slider.addEventListener("change", () => {
			this.sliding = false;
			this.ask({at: this.chosen()});
		});
		this.speed.addEventListener("change", () => this.ask({speed: Number(this.speed.value)}));
	}

	// A slider places its thumb by small numbers only.
	chosen() {
		return this.state.first + Math.round(Number(this.slider.value));
	}

	over() {
		return this.at >= this.state.last - 1;
	}

	show(state, at) {
		Object.assign(this, {state, at});
		this.host.hidden = false;
		put(this.button, state.playing ? "Pause" : this.over() ? "Again" : "Play");
		put(this.end, clock(state.last));
		if (document.activeElement !== this.speed) {
			if (!speeds.includes(state.speed) && !this.odd) this.speed.prepend(this.odd = el("option", {value: state.speed}, state.speed + "×"));
			this.speed.value = String(state.speed);
		}
		if (this.sliding) return;
		this.slider.max = state.last - state.first;
		this.slider.value = at - state.first;
		put(this.time, clock(at));
	}

	ask(what) {
		if (what.at !== undefined && what.playing === undefined && this.over()) what.playing = true;
		fetch("api/v1/replay", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(what)});
	}
}
