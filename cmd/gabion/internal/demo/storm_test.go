package demo

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wires are listeners in memory, by their addresses. Nothing waits for the machine's network, so a
// bubble of package synctest has a run of the demo in virtual time.
type wires struct {
	mu  sync.Mutex // guards all
	all map[string]*wire
}

type wire struct {
	name string
	in   chan net.Conn
	shut context.Context
	stop context.CancelFunc
}

func (w *wire) Network() string { return "wire" }
func (w *wire) String() string  { return w.name }
func (w *wire) Addr() net.Addr  { return w }
func (w *wire) Close() error    { w.stop(); return nil }

func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.in:
		return c, nil
	case <-w.shut.Done():
		return nil, net.ErrClosed
	}
}

func (ws *wires) listen() (net.Listener, error) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	w := &wire{name: fmt.Sprintf("127.0.0.1:%d", 1+len(ws.all)), in: make(chan net.Conn)}
	w.shut, w.stop = context.WithCancel(context.Background())
	ws.all[w.name] = w
	return w, nil
}

func (ws *wires) dial(ctx context.Context, _, address string) (net.Conn, error) {
	ws.mu.Lock()
	w := ws.all[address]
	ws.mu.Unlock()
	here, there := net.Pipe()
	select {
	case w.in <- there:
		return here, nil
	case <-w.shut.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// virtually runs a plan in virtual time, with the defaults.
func virtually(t *testing.T, plan string, seed uint64) (r *Report) {
	t.Helper()
	outage, _, err := loadOutage(plan)
	if err != nil {
		t.Fatal(err)
	}
	before := roads
	defer func() { roads = before }()
	synctest.Test(t, func(t *testing.T) {
		ws := &wires{all: map[string]*wire{}}
		roads.listen = ws.listen
		roads.lead = func(t *http.Transport) *http.Transport { t.DialContext = ws.dial; return t }
		r, err = run(t.Context(), Settings{Seed: seed, Outage: outage}, func(*stage) {})
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Ten seconds of the demo show what gabion prevents: the loop's retries are a storm, its orders are
// charged twice, and its provider does not come back. It is the first that a reader sees.
func TestTenSecondsShowWhatGabionPrevents(t *testing.T) {
	const seed = 1
	r := virtually(t, defaultPlan, seed)
	ten, doubles := 10*time.Second, make([]int, len(r.Clients))
	for i := range r.lines {
		for k := range r.lines[i].cells[:r.lines[i].column(ten)] {
			doubles[i] += r.lines[i].cells[k].doubles
		}
	}
	at := func(i int) PhaseReport { return r.Clients[i].Phases[1] }
	loop, keyed, library, mine := at(0), at(1), at(2), at(3)
	said := fmt.Sprintf("seed %d: in the trouble %s, %s, %s and %s answered, %.2f, %.2f, %.2f and %.2f attempts a call; %v charged twice by then; well again: %s, %s, %s, %s",
		seed, loop.text(), keyed.text(), library.text(), mine.text(), loop.Amplification, keyed.Amplification, library.Amplification, mine.Amplification,
		doubles, recoveryText(r.Clients[0]), recoveryText(r.Clients[1]), recoveryText(r.Clients[2]), recoveryText(r.Clients[3]))
	t.Log(said)
	_, end := r.plan.Fault()
	switch {
	case end != ten:
		t.Errorf("the trouble ends after %v", end)
	case loop.share() > 0.3, keyed.share() > 0.5, mine.share() < 0.65, mine.share() < library.share()-0.02,
		loop.Amplification < 3, mine.Amplification > 1.2, mine.Amplification > library.Amplification,
		doubles[0] < 25, r.Clients[3].DoubleCharges > 0, r.Clients[3].ChargedAndDenied > 0,
		r.Clients[0].Recovered, r.Clients[3].RecoveryS > 1 || !r.Clients[3].Recovered:
		t.Error(said)
	}
}
