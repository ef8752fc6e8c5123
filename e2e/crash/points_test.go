package crash

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// An outcome is the client's answer after a crash and what had happened, all runs together.
type outcome struct {
	says           string // charged by this very request, replayed, or the problem
	debits, credit int
}

const (
	isCharged  = "charged"
	isReplayed = "replayed"
)

var isUnknown = string("outcome-unknown")

// afterDeath has, for each point and guarantee, what may follow. It is the table of
// docs/idempotency.md for a process that dies.
var afterDeath = map[point]map[idempotency.Guarantee][]outcome{
	beforeBeginAck: {tx: {{isCharged, 1, 1}}, hold: {{isUnknown, 0, 0}}, reexecute: {{isCharged, 1, 1}}},
	afterBegin:     {tx: {{isCharged, 1, 1}}, hold: {{isUnknown, 0, 0}}, reexecute: {{isCharged, 1, 1}}},
	midEffect:      {tx: {{isCharged, 1, 1}}, hold: {{isUnknown, 1, 0}}, reexecute: {{isCharged, 2, 1}}},
	afterEffect:    {tx: {{isCharged, 1, 1}}, hold: {{isUnknown, 1, 1}}, reexecute: {{isCharged, 2, 2}}},
	beforeComplete: {tx: {{isCharged, 1, 1}}, hold: {{isUnknown, 1, 1}}, reexecute: {{isCharged, 2, 2}}},
	insideCommit: {
		tx:        {{isCharged, 1, 1}, {isReplayed, 1, 1}},
		hold:      {{isUnknown, 1, 1}, {isReplayed, 1, 1}},
		reexecute: {{isCharged, 2, 2}, {isReplayed, 1, 1}},
	},
	afterComplete: {tx: {{isReplayed, 1, 1}}, hold: {{isReplayed, 1, 1}}, reexecute: {{isReplayed, 1, 1}}},
}

// E: the server dies at each point. The client's next answer, and how often the work was done, are what
// the guarantee says and nothing else.
//
// Servers die with ten requests each at the same point. Where only one can be there,
// there are fewer deaths.
func TestDeathAtNamedPoints(t *testing.T) {
	t.Parallel()
	for _, kind := range stores {
		if kind.name == "memory" {
			continue // it dies with its process
		}
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			for _, g := range guarantees {
				if g == tx && !kind.tx {
					continue
				}
				t.Run(g.String(), func(t *testing.T) {
					t.Parallel()
					dieEverywhere(t, kind, g)
				})
			}
		})
	}
}

func dieEverywhere(t *testing.T, kind *storeKind, g idempotency.Guarantee) {
	d := &deathRow{T: t, rig: newRig(t, kind, "", 100*time.Millisecond), g: g}
	d.launch()
	defer func() { d.server.kill() }()
	for _, at := range points {
		together, deaths := 10, soak(30, 500)
		if at == insideCommit || g == tx && kind.name == "sqlite" {
			together, deaths = 1, soak(6, 100) // one write lock, or one fatal commit
		}
		for n := 0; n < deaths; n += together {
			d.dieAt(at, together)
		}
	}
	d.verify(t)
	d.compare()
}

// A deathRow is a rig whose server dies again and again.
type deathRow struct {
	*testing.T
	*rig
	g      idempotency.Guarantee
	server *process
	n      int
	died   []death
}

type death struct {
	request
	at     point
	answer Answer // to the first request after it
}

func (d *deathRow) launch() {
	d.Helper()
	p, err := launch(d.settings)
	if err != nil {
		d.Fatal(err)
	}
	d.server = p
}

// dieAt lets some requests die together and asks for each again.
func (d *deathRow) dieAt(at point, together int) {
	d.Helper()
	died := make([]death, together)
	for i := range died {
		d.n++
		died[i] = death{at: at, request: request{
			scope: "a", key: fmt.Sprintf("%s-%s-%d", d.g, at, d.n), guarantee: d.g, amount: d.n, order: order{dieAt: at, crowd: together},
		}}
	}
	crowd(together, func(i int) {
		if a := d.charge(context.Background(), d.server, died[i].request); a.Err == nil {
			d.Errorf("%s: an answer from the dead: %d %s", died[i].key, a.Status, a.Body)
		}
		d.lost(died[i].request)
	})
	if !d.server.died(answerLimit) {
		d.Fatalf("%v: the server lives\n%s", at, d.server.log.String())
	}
	d.launch()
	crowd(together, func(i int) {
		died[i].answer = d.settle(d.server, died[i].request, 0)
		d.settle(d.server, died[i].request, 0)
	})
	d.died = append(d.died, died...)
	if i := slices.IndexFunc(died, func(x death) bool { return x.answer.undecided() }); i >= 0 {
		d.verify(d.T)
		d.Fatalf("%v: a key is stuck: %s", at, died[i].answer.said())
	}
}

// compare holds each death against the table.
func (d *deathRow) compare() {
	for _, x := range d.died {
		h := d.histories["a/"+x.key]
		got := outcome{x.answer.Problem, h.count(Debit), h.count(Credit)}
		switch {
		case x.answer.Replayed:
			got.says = isReplayed
		case x.answer.ok():
			got.says = isCharged
		}
		allowed := false
		for _, want := range afterDeath[x.at][d.g] {
			allowed = allowed || got == want
		}
		if !allowed {
			d.Errorf("%v: got %v, want one of %v\n%v", x.at, got, afterDeath[x.at][d.g], h)
		}
	}
}
