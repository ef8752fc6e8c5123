"use strict";
// The server draws; this shows what it drew, now and of the runs before.
const at = id => document.getElementById(id);
let run = "";
const as = name => name + (innerWidth < 600 ? "?narrow" : "");
async function look() {
	try {
		const now = await fetch(as("now.svg"), {cache: "no-store"});
		at("now").innerHTML = await now.text();
		if (now.headers.get("Run") !== run) {
			const earlier = await fetch(as("earlier"), {cache: "no-store"});
			at("earlier").innerHTML = await earlier.text();
			run = now.headers.get("Run");
		}
	} catch {
		return; // the demo is over; what it showed stays
	}
	setTimeout(look, 500);
}
look();
