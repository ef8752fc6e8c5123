package ratelimitservice

import (
	"testing"
	"time"
)

// model is what an allowance must do, told as what was said last.
type model struct {
	said  answer
	at    time.Time
	since uint64 // hits let through since it was asked
	fresh uint64 // the same of the question that is out
	sound bool   // it is in force, as far as its time goes
}

// verdict is what a call gets.
func (m *model) verdict(now time.Time, hits uint64) verdict {
	after, left, limited := m.said.bounds()
	switch {
	case !m.sound || !now.Before(m.at.Add(after)):
		return unknown
	case m.said.code == codeOver, limited && m.since+hits > left:
		return refused
	}
	return allowed
}

// An allowance refuses what its last answer does not allow, and nothing else; and each hit that it lets through goes to the service once.
func FuzzAllowance(f *testing.F) {
	f.Add([]byte{0, 1, 3, 2, 0, 1, 0, 9, 4, 5, 0, 1, 2, 7, 0, 1, 5, 0})
	f.Add([]byte{0, 4, 1, 0, 0, 2, 3, 0, 0, 200, 6, 0, 0, 1, 1, 0})
	f.Fuzz(func(t *testing.T, data []byte) {
		var (
			a                    allowance
			m                    model
			out                  bool // a question is out
			through, told, given uint64
		)
		now := time.Unix(1_700_000_000, 0)
		for ; len(data) > 1; data = data[2:] {
			n := uint64(data[1])
			switch data[0] % 6 {
			case 0, 1: // a call
				hits := n%4 + 1
				want := m.verdict(now, hits)
				got, after := a.admit(now, hits)
				if got != want || got == refused && after <= 0 {
					t.Fatalf("%v after %v, want %v", got, after, want)
				}
				if got == refused {
					continue
				}
				through, m.since, m.fresh = through+hits, m.since+hits, m.fresh+hits
				before := a.pending
				switch {
				case a.ask(now):
					told, out, m.fresh = told+a.take(), true, 0
				case !a.asking:
					given += before // while it pauses
				}
			case 2: // time goes by
				now = now.Add(time.Duration(n) * 50 * time.Millisecond)
			case 3, 4: // an answer
				if !out {
					continue
				}
				got := answer{code: codeOK + n%2, statuses: []status{{code: codeOK + n%2, limited: n&2 != 0, left: n >> 3, reset: time.Duration(n) * 20 * time.Millisecond}}}
				a.learn(now, got)
				m.said, m.at, m.sound, m.since = got, now, true, m.fresh
				more := a.take()
				told, out, m.fresh = told+more, more > 0, 0
			case 5: // none
				if !out {
					continue
				}
				given += a.pending
				a.fail(now)
				m.sound, out = m.sound && m.said.code == codeOver, false
			}
			if told+given+a.pending != through {
				t.Fatalf("%d were let through: %d told, %d dropped, %d to tell", through, told, given, a.pending)
			}
			if out != a.asking {
				t.Fatalf("a question is out: %v, and it says %v", out, a.asking)
			}
		}
	})
}
