// Package dashboard shows a program's dependencies on a live page: the state of each
// and why, what is sent and what comes back, what is refused, and by which numbers.
//
//	mux.Handle("/debug/gabion/", dashboard.Handler(registry))
//
// The page works under any path that ends in a slash, in any program, as net/http/pprof does. It
// is made of files that are built in, and asks for nothing from elsewhere. Without script it is a
// table.
//
// For programs, api/v1/state below that path is what the page shows, as JSON, and
// api/v1/stream is the same once a second as server-sent events (?once=1 for a single one).
// api/v1/dependency?name=payments is everything about one dependency.
//
// With a store of dead letters in [Config.Letters] the page has a second tab, and
// api/v1/letters and api/v1/letter?id= are that as JSON.
//
// # Security
//
// The page is read-only unless [Config.AllowOverrides] is set. It shows names, numbers and
// settings: dependencies, operations, partitions such as hosts, error codes. It never shows keys,
// bodies or error texts, because events have none; the tab of dead letters shows keys and error texts,
// and never payloads or the values of headers. Everyone who reaches the page sees all of that, and with
// overrides can stop calls, and order, resolve and drop letters. So mount it where you mount pprof: on
// a listener of its own on the loopback, or behind your authentication. The check of Origin that guards
// overrides stops other sites from using a browser that is logged in. It is no login.
package dashboard
