package gabionmsg

import (
	"strconv"
	"testing"
	"time"
)

// Waits are remembered for a bounded number of messages, those that wait longest.
func TestWaitsTakeNoMemoryWithoutEnd(t *testing.T) {
	var w waiting
	begun := time.Now()
	w.until("long", begun.Add(time.Hour))
	for n := range mostWaiting + 100 {
		w.until(strconv.Itoa(n), begun)
	}
	if len(w.due) != mostWaiting {
		t.Errorf("%d waits", len(w.due))
	}
	if due, known := w.end("long"); !known || !due.Equal(begun.Add(time.Hour)) {
		t.Errorf("the longest wait: %v, %v", due, known)
	}
	for n := range mostWaiting + 100 {
		w.forget(strconv.Itoa(n))
	}
	w.forget("long")
	if _, known := w.end("long"); known || w.some.Load() {
		t.Error("something is remembered")
	}
}
