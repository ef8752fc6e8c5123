package stores

import (
	"fmt"
	"runtime"
	"testing"
)

// A patient is a test that goes on when a part of it is to be skipped.
type patient struct {
	testing.TB
	why string
}

// Skipf notes why, and ends the part.
func (p *patient) Skipf(format string, args ...any) {
	p.why = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// attempt does a part of a test and returns why it was skipped, if it was.
func attempt(t testing.TB, part func(testing.TB)) string {
	p := &patient{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		part(p)
	}()
	<-done
	if t.Failed() {
		t.FailNow()
	}
	return p.why
}
