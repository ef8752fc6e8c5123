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
	"strconv"
	"sync"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/chance"
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

// provider is a payment provider: a real HTTP server on loopback that works on a
// few charges at once, queues the rest, and writes each charge to its ledger
// before it answers. What goes wrong with it is the plan's decision, drawn from
// the seed for each request, so that two providers hit the same attempt of the
// same order alike.
//
// As most servers do, it works off a request once it has read it, whether or not
// the caller is still there.
type provider struct {
	name   string
	plan   Plan
	seed   uint64
	now    func() time.Duration // since the start of the run
	path   string               // of the ledger
	ledger *ledger
	keys   *keys
	bucket bucket
	flaky  *flaky.Server // plays the plan of a file; nil plays the demo's own

	slots chan struct{} // a token for each charge in work
	queue chan struct{} // a token for each request in work or waiting
	quit  chan struct{} // closed when the run is over
	busy  sync.RWMutex  // held for reading by each request; for writing once no more may come

	listener net.Listener
	server   *http.Server
	served   sync.WaitGroup

	mu       sync.Mutex // guards arrivals, attempts, charges, doubles
	arrivals []arrival
	attempts map[int]int // by order
	charges  map[int]int // by order; only for the live view, the ledger is the truth
	doubles  int
}

// startProvider starts a provider whose ledger is in dir.
func startProvider(dir, name string, plan Plan, s Settings, now func() time.Duration) (*provider, error) {
	p := &provider{
		name: name, plan: plan, seed: s.Seed, now: now,
		path:     filepath.Join(dir, name+".ledger"),
		bucket:   bucket{rate: limitOf(plan), burst: limitOf(plan)},
		slots:    make(chan struct{}, slots),
		queue:    make(chan struct{}, slots+waiting),
		quit:     make(chan struct{}),
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
	if p.listener, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, errors.Join(err, p.keys.store.Close(), p.ledger.close())
	}
	if s.Outage != nil {
		if p.flaky, err = flaky.New(s.Outage, flaky.Options{Seed: s.Seed, Handler: p.keys.handler}); err != nil {
			return nil, errors.Join(err, p.listener.Close(), p.keys.store.Close(), p.ledger.close())
		}
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
	close(p.quit)
	if p.flaky != nil {
		_ = p.flaky.Close() // which never fails
	}
	err := p.server.Close()
	p.served.Wait()
	p.busy.Lock() // for good
	return errors.Join(err, p.keys.store.Close(), p.ledger.close())
}

func (p *provider) url() string { return "http://" + p.listener.Addr().String() + "/charges" }

// charge is the handler. First the door, then the work, then the way back.
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
	at := p.now()
	attempt := p.note(at, pay.Number)
	if p.flaky != nil {
		r = visit{pay, attempt}.in(r)
		r.Body = io.NopCloser(bytes.NewReader(body))
		p.flaky.ServeHTTP(w, r)
		return
	}
	phase, index := p.plan.At(at)
	hit := phase.Share > 0 && p.draw(pay.Number, attempt, drawFault+chance.Purpose(1+index)) < phase.Share
	switch {
	case hit && phase.Kind == Unavailable:
		http.Error(w, "try again", http.StatusServiceUnavailable)
		return
	case hit && phase.Kind == Reset:
		reset(w)
		return
	case phase.Kind == RateLimited:
		if ok, wait := p.bucket.take(at); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(retryAfter(wait)))
			http.Error(w, "too many requests", http.StatusTooManyRequests)
			return
		}
	}
	r = visit{pay, attempt}.in(r)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if hit && phase.Kind == Lost {
		p.keys.handler.ServeHTTP(nowhere(http.Header{}), r)
		reset(w)
		return
	}
	p.keys.handler.ServeHTTP(w, r)
}

// work waits for a slot, takes its time and charges the card. What it refuses had no
// effect, so the same key may be tried again.
func (p *provider) work(w http.ResponseWriter, r *http.Request) {
	v := visitOf(r.Context())
	if p.flaky != nil { // the work's time is over
		p.posted(w, r, v)
		return
	}
	refuse := func(why string) {
		idempotency.NoEffect(r.Context())
		answer(w, http.StatusServiceUnavailable, problem(why))
	}
	select {
	case p.queue <- struct{}{}:
		defer func() { <-p.queue }()
	default:
		refuse("the queue is full")
		return
	}
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-p.quit:
		refuse("closing")
		return
	}
	if !pause(p.takes(v.pay.Number, v.attempt), p.quit) {
		refuse("closing")
		return
	}
	p.posted(w, r, v)
}

// posted charges the card and answers.
func (p *provider) posted(w http.ResponseWriter, r *http.Request, v visit) {
	if err := p.post(r.Header.Get(keyHeader), v.pay); err != nil {
		answer(w, http.StatusInternalServerError, problem(err.Error()))
		return
	}
	answer(w, http.StatusCreated, fmt.Sprintf(`{"charged":%q}`, orderID(v.pay.Number)))
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
		p.doubles++
	}
	return nil
}

// takes is how long a charge takes: half to one and a half of the mean, longer
// when the plan says so at the moment it begins.
func (p *provider) takes(order, attempt int) time.Duration {
	d := service/2 + time.Duration(p.draw(order, attempt, drawService)*float64(service))
	if phase, _ := p.plan.At(p.now()); phase.Kind == Slow {
		return d * time.Duration(phase.Factor)
	}
	return d
}

func (p *provider) draw(order, attempt int, purpose chance.Purpose) float64 {
	return chance.U(p.seed, uint64(order), uint64(attempt), purpose)
}

// note counts a request and returns which attempt of its order it is.
func (p *provider) note(at time.Duration, order int) (attempt int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attempts[order]++
	attempt = p.attempts[order]
	p.arrivals = append(p.arrivals, arrival{at, order, attempt})
	return attempt
}

// seen returns what reached the provider so far.
func (p *provider) seen() []arrival {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]arrival(nil), p.arrivals...)
}

// sofar returns how many requests came and how many orders were charged twice.
func (p *provider) sofar() (requests, doubles int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.arrivals), p.doubles
}

// reset cuts the connection the hard way: the caller sees "connection reset by
// peer", and can't tell whether the work was done.
func reset(w http.ResponseWriter) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler) // the connection is gone already
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // without it a close is a polite FIN; failing that, a FIN will do
	}
	_ = conn.Close()
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

// limitOf returns the rate limit of a plan.
func limitOf(plan Plan) float64 {
	for _, p := range plan.Phases {
		if p.Kind == RateLimited {
			return p.Rate
		}
	}
	return load
}
