package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"github.com/gabion-go/gabion/lab/flaky"
)

// keyHeader names the intent of a request, so that repeating it is safe.
const keyHeader = "Idempotency-Key"

// payment is the body of a request: POST /charges.
type payment struct {
	Number int `json:"order"`
	Amount int `json:"amount"`
}

// arrival is one request that reached the provider.
type arrival struct {
	at      time.Duration
	order   int
	attempt int // of its order, from 1
}

// provider is a payment provider: a real HTTP server on loopback that writes each charge
// to its ledger before it answers. How many it works on at once, how many wait, how long that
// takes and what goes wrong is the plan's decision, drawn from the seed for each request, so
// that two providers hit the same attempt of the same order alike.
//
// As most servers do, it works off a request once it has read it, whether or not
// the caller is still there.
type provider struct {
	name   string
	now    func() time.Duration // since the start of the run
	path   string               // of the ledger
	ledger *ledger
	keys   *keys
	flaky  *flaky.Server // plays the plan
	busy   sync.RWMutex  // held for reading by each request; for writing once no more may come

	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup

	mu       sync.Mutex // guards arrivals, attempts, charges, doubles
	arrivals []arrival
	attempts map[int]int     // by order
	charges  map[int]int     // by order; only for the live view, the ledger is the truth
	doubles  []time.Duration // when an order was charged for the second time
}

// startProvider starts a provider whose ledger is in dir.
func startProvider(dir, name string, s Settings, now func() time.Duration) (*provider, error) {
	p := &provider{
		name: name, now: now,
		path:     filepath.Join(dir, name+".ledger"),
		attempts: map[int]int{},
		charges:  map[int]int{},
	}
	var err error
	if p.ledger, err = newLedger(p.path); err != nil {
		return nil, err
	}
	if p.keys, err = openKeys(dir, name, p.work); err != nil {
		return nil, errors.Join(err, p.ledger.close())
	}
	if p.flaky, err = flaky.New(s.Outage, flaky.Options{Seed: s.Seed, Handler: p.keys.handler}); err != nil {
		return nil, errors.Join(err, p.keys.store.Close(), p.ledger.close())
	}
	if p.listener, err = roads.listen(); err != nil {
		return nil, errors.Join(err, p.keys.store.Close(), p.ledger.close())
	}
	p.serve()
	return p, nil
}

func (p *provider) serve() {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /charges", p.charge)
	// The plan makes errors by the thousand; they are counted, not logged.
	p.server = &http.Server{Handler: mux, ErrorLog: log.New(io.Discard, "", 0), ReadHeaderTimeout: 10 * time.Second}
	p.served.Go(func() { _ = p.server.Serve(p.listener) }) // always ErrServerClosed
}

// close stops the provider and reports whether its books are complete. It waits for all requests
// under way, so that the ledger has every charge.
func (p *provider) close() error {
	_ = p.flaky.Close() // which never fails
	err := p.server.Close()
	p.served.Wait()
	p.busy.Lock() // for good
	return errors.Join(err, p.keys.store.Close(), p.ledger.close())
}

func (p *provider) url() string { return "http://" + p.listener.Addr().String() + "/charges" }

// charge is the handler: it counts a request, and the plan does the rest.
func (p *provider) charge(w http.ResponseWriter, r *http.Request) {
	if !p.busy.TryRLock() {
		http.Error(w, "closing", http.StatusServiceUnavailable)
		return
	}
	defer p.busy.RUnlock()
	var pay payment
	body, err := io.ReadAll(io.LimitReader(r.Body, 4096))
	if err == nil {
		err = json.Unmarshal(body, &pay)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.note(p.now(), pay.Number)
	r = pay.in(r)
	r.Body = io.NopCloser(bytes.NewReader(body))
	p.flaky.ServeHTTP(w, r)
}

// work charges the card and answers. The time that this takes is over.
func (p *provider) work(w http.ResponseWriter, r *http.Request) {
	pay := paymentOf(r.Context())
	if err := p.post(r.Header.Get(keyHeader), pay); err != nil {
		answer(w, http.StatusInternalServerError, problem(err.Error()))
		return
	}
	answer(w, http.StatusCreated, fmt.Sprintf(`{"charged":%q}`, orderID(pay.Number)))
}

func answer(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may have left
}

// post writes the charge down.
func (p *provider) post(key string, pay payment) error {
	err := p.ledger.add(charge{Time: p.now(), Order: orderID(pay.Number), Key: key, Amount: pay.Amount})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.charges[pay.Number]++
	if p.charges[pay.Number] == 2 {
		p.doubles = append(p.doubles, p.now())
	}
	return nil
}

// note counts a request.
func (p *provider) note(at time.Duration, order int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[order]++
	p.arrivals = append(p.arrivals, arrival{at, order, p.attempts[order]})
}

// seen returns what reached the provider so far.
func (p *provider) seen() []arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]arrival(nil), p.arrivals...)
}

// mark puts what happened at the provider into a timeline.
func (p *provider) mark(line *timeline) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.arrivals {
		line.cells[line.column(p.arrivals[i].at)].requests++
	}
	for _, at := range p.doubles {
		line.cells[line.column(at)].doubles++
	}
}

// problem is an error body.
func problem(title string) string { return fmt.Sprintf(`{"title":%q}`, title) }

// pause waits for d and reports whether it could: quit ends it.
func pause(d time.Duration, quit <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-quit:
	}
	select {
	case <-quit:
		return false
	default:
		return true
	}
}
