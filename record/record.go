// Package record keeps gabion's events as JSON lines: one object per event, in the
// order in which they were observed. A recording can be read again, shown and compared.
package record

import "time"

// Line is one event as it is written. Times are nanoseconds since the origin of
// the dependency's clock; fields that mean nothing for a kind are left out.
type Line struct {
	At         int64         `json:"at"`
	Kind       string        `json:"kind"`
	Dependency string        `json:"dependency,omitempty"`
	Operation  string        `json:"operation,omitempty"`
	Partition  string        `json:"partition,omitempty"`
	Call       uint64        `json:"call,omitempty"`
	Seq        uint64        `json:"seq,omitempty"`
	Attempt    int           `json:"attempt,omitempty"`
	Hedge      bool          `json:"hedge,omitempty"`
	Class      string        `json:"class,omitempty"`
	Reason     string        `json:"reason,omitempty"`
	Effect     string        `json:"effect,omitempty"`
	Slow       bool          `json:"slow,omitempty"`
	Took       time.Duration `json:"took,omitempty"`
	Wait       string        `json:"wait,omitempty"`
	Until      int64         `json:"until,omitempty"`
	Due        int64         `json:"due,omitempty"`
	From       string        `json:"from,omitempty"`
	To         string        `json:"to,omitempty"`
	Cause      string        `json:"cause,omitempty"`
	Calls      int64         `json:"calls,omitempty"`
	Failures   int64         `json:"failures,omitempty"`
	Slows      int64         `json:"slows,omitempty"`
	Count      int64         `json:"count,omitempty"`
}
