// Package overload drives a real server to a multiple of its capacity, and compares what
// comes of it with what the lab said.
//
// A [World] is a server whose workers are busy for a set time with each request, the
// clients that call it, and the load: some of the capacity, then for a while several times
// as much, then as before. A [Case] says how the server is protected and what the callers
// do. [World.Run] runs it with net/http, in real time over loopback or in the made-up time
// of a test's bubble; [World.Predict] runs it in the lab. Both return [Figures].
//
// Work is waiting, so the capacity does not depend on the processor. The load is open: a
// call is made when it is due, whatever became of the ones before, and its time is counted
// from then.
//
// Command report runs all cases and writes docs/overload.md.
package overload
