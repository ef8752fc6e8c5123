package crash

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/idempotency/sqlstore"
)

// settingsEnv makes this binary a server. Its value is the settings.
const settingsEnv = "GABION_CRASH_SERVER"

// settings are a server's.
type settings struct {
	Store   string // the name of an entry of stores
	Where   string // of the store
	Witness string // the file of effects
	Lease   time.Duration
	Wait    time.Duration // how long duplicates wait
	Keep    time.Duration // the retention; zero means the Handler's

	exe string // of the server; empty means this one
	env string // further environment
}

// serveIfChild is a server, for as long as its parent lives, if the rig started
// this process as one. It does not return then.
func serveIfChild() {
	text := os.Getenv(settingsEnv)
	if text == "" {
		return
	}
	var c settings
	err := json.Unmarshal([]byte(text), &c)
	if err == nil {
		err = serve(c)
	}
	fmt.Fprintln(os.Stderr, "server:", err)
	os.Exit(1)
}

// serve listens on a free port and says so on its output.
func serve(c settings) error {
	kind := storeNamed(c.Store)
	if kind == nil {
		return errors.New("no store called " + c.Store)
	}
	s := &server{}
	store, err := kind.open(context.Background(), c.Where, s.scaffold.inCommit)
	if err != nil {
		return err
	}
	if s.witness, err = openWitness(c.Witness); err != nil {
		return err
	}
	h, err := s.handler(kind, store, c)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { // the rig holds the other end, so it is dead when this ends
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	fmt.Println(l.Addr())
	both := new(http.Protocols)
	both.SetHTTP1(true)
	both.SetUnencryptedHTTP2(true)
	return (&http.Server{Handler: h, Protocols: both}).Serve(l)
}

// A server charges.
type server struct {
	scaffold scaffold
	witness  *witness
	attempts sync.Map // idempotency.Ref to the number of the run
}

// guarantees are the routes: POST /hold and so on, all on one store.
var guarantees = []idempotency.Guarantee{hold, reexecute, tx}

func (s *server) handler(kind *storeKind, store *opened, c settings) (http.Handler, error) {
	mux := http.NewServeMux()
	charge := http.HandlerFunc(s.charge)
	for _, g := range guarantees {
		if g == tx && !kind.tx {
			continue
		}
		config := idempotency.Config{RunnerConfig: idempotency.RunnerConfig{Guarantee: g, Lease: c.Lease, Wait: c.Wait, Retention: c.Keep, StoreTimeout: 10 * time.Second, Observer: silence{}}}
		h, err := idempotency.New(scopeOf, s.wrap(store.Store), charge, config)
		if err != nil {
			return nil, err
		}
		mux.Handle("POST /"+g.String(), h)
	}
	return ordered(mux), nil
}

type silence struct{}

func (silence) Observe(context.Context, idempotency.Event) {}

func scopeOf(r *http.Request) string { return r.Header.Get(headerScope) }

// charge is the work: a debit, perhaps some time, a credit, an answer.
func (s *server) charge(w http.ResponseWriter, r *http.Request) {
	ctx := r.Context()
	s.scaffold.reach(ctx, afterBegin)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	c := Charge{Scope: scopeOf(r), Key: r.Header.Get("Idempotency-Key"), Amount: atoi(string(body)), Token: idempotency.Token(ctx), Nonce: rand.Text()}
	if n, ok := s.attempts.Load(idempotency.Ref{ID: idempotency.IDOf(c.Scope, c.Key), Token: c.Token}); ok {
		c.Attempt = n.(int)
	}
	err = s.effect(ctx, c, Debit)
	if err == nil {
		s.scaffold.reach(ctx, midEffect)
		if work := orderOf(ctx).work; work > 0 {
			time.Sleep(work)
		}
		err = s.effect(ctx, c, Credit)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.scaffold.reach(ctx, afterEffect)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Location", "/charges/"+c.Nonce)
	w.WriteHeader(http.StatusCreated)
	json.NewEncoder(w).Encode(c)
}

func (s *server) effect(ctx context.Context, c Charge, part string) error {
	e := Effect{c.Scope + "/" + c.Key, c.Token, c.Attempt, part, c.Amount}
	if tx := sqlstore.TxFrom(ctx); tx != nil {
		return insertEffect(ctx, tx, e)
	}
	return s.witness.write(e)
}

// wrap puts the points that lie in the store around it.
func (s *server) wrap(store idempotency.Store) idempotency.Store {
	w := watched{store, s}
	if inner, ok := store.(idempotency.TxStore); ok {
		return watchedTx{w, inner}
	}
	return w
}

type watched struct {
	idempotency.Store
	s *server
}

func (w watched) Begin(ctx context.Context, c idempotency.Claim) (idempotency.Answer, error) {
	a, err := w.Store.Begin(ctx, c)
	if err == nil && a.Decision == idempotency.DecisionRun {
		w.s.began(c.ID, a.Record)
		w.s.scaffold.reach(ctx, beforeBeginAck)
	}
	return a, err
}

func (s *server) began(id idempotency.ID, r idempotency.Record) {
	s.attempts.Store(idempotency.Ref{ID: id, Token: r.Token}, r.Attempt)
}

func (w watched) Apply(ctx context.Context, ref idempotency.Ref, c idempotency.Change) error {
	if c.State != idempotency.StateDone {
		return w.Store.Apply(ctx, ref, c)
	}
	w.s.scaffold.reach(ctx, beforeComplete)
	w.s.scaffold.arm(ctx)
	err := w.Store.Apply(ctx, ref, c)
	w.s.scaffold.reach(ctx, insideCommit) // the store was faster than what was to kill it
	if err == nil {
		w.s.scaffold.reach(ctx, afterComplete)
	}
	return err
}

type watchedTx struct {
	watched
	inner idempotency.TxStore
}

func (w watchedTx) Tx(ctx context.Context, c idempotency.Claim, run idempotency.Work) (idempotency.Answer, error) {
	a, err := w.inner.Tx(ctx, c, func(ctx context.Context, r idempotency.Record) (idempotency.Result, idempotency.Ending, error) {
		w.s.began(c.ID, r)
		w.s.scaffold.reach(ctx, beforeBeginAck)
		res, how, err := run(ctx, r)
		if err == nil {
			w.s.scaffold.reach(ctx, beforeComplete)
			w.s.scaffold.arm(ctx)
		}
		return res, how, err
	})
	if err == nil && a.Decision == idempotency.DecisionRun {
		w.s.scaffold.reach(ctx, afterComplete)
	}
	return a, err
}

// atoi returns zero for what is no number, such as an absent header.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
