// Package bridge holds the lab to what production does.
//
// Its tests play one trace of calls in the lab and through the front door, and
// want the same decisions to the nanosecond; they ask over real HTTP what package
// gabionhttp makes of what the lab's services answer; and they run one outage in
// real time on the loopback device, and say by how much the lab was off.
//
// With GABION_SOAK=1 they are longer, and print the table of docs/lab.md.
package bridge
