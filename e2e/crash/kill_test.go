package crash

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// D: kill -9 at any moment of a server under load. What it acknowledged is there
// when it comes back, it always comes back, and no key has an effect too many.
func TestKillsAtAnyMoment(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		kills := embeddedKills[kind.name] // others are not killed with the server: see E
		for lane := range killLanes {
			if kills == 0 {
				break
			}
			t.Run(fmt.Sprintf("%s/%d", kind.name, lane), func(t *testing.T) {
				t.Parallel()
				killAgain(t, kind, soak(kills, 5000)/killLanes)
			})
		}
	}
}

// killLanes is how many servers of a kind are being killed at once.
const killLanes = 2

// embeddedKills are the stores that live in the killed process, and how often an
// ordinary run kills it.
var embeddedKills = map[string]int{"bolt": 80, "sqlite": 30}

func killAgain(t *testing.T, kind *storeKind, kills int) {
	r := newRig(t, kind, "", 100*time.Millisecond)
	l := &load{rig: r}
	for range kills {
		p, err := launch(r.settings)
		if err != nil {
			t.Fatalf("it does not come back: %v", err)
		}
		l.run(p, func() { time.Sleep(40*time.Millisecond + r.draw(120*time.Millisecond)) })
	}
	l.finish(t, kills, kills)
}

// finish asks for everything a last time and checks it. There must be at least that many charges.
func (l *load) finish(t *testing.T, lives, least int) {
	t.Helper()
	p, err := launch(l.settings)
	if err != nil {
		t.Fatalf("it does not come back: %v", err)
	}
	l.askAll(p)
	p.kill()
	l.verify(t)
	if l.done < least {
		t.Errorf("%d answers in %d lives: the server did next to nothing", l.done, lives)
	}
	t.Logf("%d lives, %d keys, %d acknowledged", lives, l.n, l.done)
}

// A load charges new keys and asks again for earlier ones.
type load struct {
	*rig
	mu   sync.Mutex // guards all below but up
	n    int
	done int
	open []request // interrupted: the outcome is unknown
	last []request // acknowledged in this life
	up   func()    // to be called with every charge, and when the store refuses
}

const clients = 4

// slowStart is when a life begins to count though nothing was charged in it.
const slowStart = 3 * time.Second

// run loads a server and kills it as soon as end, which begins with the first
// charge, returns.
func (l *load) run(p *process, end func()) {
	l.mu.Lock()
	again := append(l.open, l.last...) // what the last life left is looked at first
	l.open, l.last = nil, nil
	l.mu.Unlock()
	l.up = sync.OnceFunc(func() { // not before: a busy machine takes its time
		go func() {
			end()
			p.kill()
		}()
	})
	defer time.AfterFunc(slowStart, l.up).Stop()
	crowd(clients, func(i int) {
		for j := i; j < len(again); j += clients {
			l.charge(context.Background(), p, again[j])
		}
		for l.one(p) {
		}
	})
	<-p.gone
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range l.open {
		l.lost(q)
	}
}

// one charges a new key, or asks for one that was charged in this life, and reports
// whether the server lives.
func (l *load) one(p *process) bool {
	q, again := l.next()
	a := l.charge(context.Background(), p, q)
	if a.ok() || a.Status == http.StatusServiceUnavailable {
		l.up()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case again:
	case a.ok():
		l.done++
		l.last = append(l.last, q)
	default:
		l.open = append(l.open, q)
	}
	return a.Err == nil
}

func (l *load) next() (q request, again bool) {
	again = l.chance(30)
	l.mu.Lock()
	defer l.mu.Unlock()
	if again && len(l.last) > 0 {
		return l.last[l.draw(time.Duration(len(l.last)-1))], true
	}
	g := guarantees[l.n%len(guarantees)]
	if g == tx && !l.kind.tx {
		g = hold
	}
	l.n++
	return request{scope: "a", key: fmt.Sprintf("%v-%d", g, l.n), guarantee: g, amount: l.n}, false
}

// askAll settles every key that was interrupted, and asks for a sample of the
// others.
func (l *load) askAll(p *process) {
	most := soak(2000, 50000)
	ask := append(l.open, l.last...)
	for _, h := range l.histories {
		if most--; most < 0 {
			break
		}
		ask = append(ask, request{scope: h.Scope, key: h.Key, guarantee: h.Guarantee, amount: h.Answers[0].Amount})
	}
	crowd(clients, func(i int) {
		for j := i; j < len(ask); j += clients {
			l.settle(p, ask[j], 0)
		}
	})
}

// acknowledged returns how many charges were answered 2xx so far.
func (l *load) acknowledged() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}
