package crash

import (
	"context"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A point is a place in a request's life at which a test can kill its server.
type point string

const (
	beforeBeginAck point = "before-begin-ack" // the claim is stored, the handler has not heard; under tx: locked, nothing done
	afterBegin     point = "after-begin"      // the handler runs, nothing was done
	midEffect      point = "mid-effect"       // the debit is done, the credit is not
	afterEffect    point = "after-effect"     // both are
	beforeComplete point = "before-complete"  // the response is there, the store was not asked
	insideCommit   point = "inside-commit"    // the store was asked and has not answered
	afterComplete  point = "after-complete"   // the store has answered, nothing was sent
)

var points = []point{beforeBeginAck, afterBegin, midEffect, afterEffect, beforeComplete, insideCommit, afterComplete}

// Headers by which the rig tells a server what to do in a request.
const (
	headerDieAt = "X-Die-At" // a point
	headerCrowd = "X-Crowd"  // how many requests reach the point before the server dies
	headerWork  = "X-Work"   // how long the work takes between debit and credit
	headerScope = "X-Scope"  // on whose behalf
)

// An order is what a request asks of its server.
type order struct {
	dieAt point
	crowd int
	work  time.Duration
}

type orderKey struct{}

func orderOf(ctx context.Context) order {
	o, _ := ctx.Value(orderKey{}).(order)
	return o
}

// A scaffold is where a server dies.
type scaffold struct {
	armed atomic.Bool // the next commit is fatal
	mu    sync.Mutex  // guards there
	there int
}

// reach dies at the point, if the request asked for it, together with all who are to die there. A
// request that is to die does not pass.
func (s *scaffold) reach(ctx context.Context, at point) {
	o := orderOf(ctx)
	if o.dieAt != at {
		return
	}
	s.mu.Lock()
	s.there++
	last := s.there >= o.crowd
	s.mu.Unlock()
	if last {
		die()
	}
	select {}
}

// arm makes the next commit fatal, if the request asked for it.
func (s *scaffold) arm(ctx context.Context) {
	if orderOf(ctx).dieAt == insideCommit {
		s.armed.Store(true)
	}
}

func (s *scaffold) inCommit() {
	if s.armed.Load() {
		die()
	}
}

// die ends the process as kill -9 does: nothing is flushed, no connection is closed in order.
func die() {
	self, err := os.FindProcess(os.Getpid())
	if err == nil {
		self.Kill()
	}
	select {}
}

// ordered reads the request's orders.
func ordered(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		o := order{dieAt: point(r.Header.Get(headerDieAt)), crowd: atoi(r.Header.Get(headerCrowd))}
		o.work, _ = time.ParseDuration(r.Header.Get(headerWork)) // absent: none
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), orderKey{}, o)))
	})
}
