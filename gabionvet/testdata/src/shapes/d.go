package shapes

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	randv2 "math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/sony/gobreaker"
)

// What is asked once.
type once struct {
	db   *sql.DB
	once sync.Once
	name string
	err  error

	again sync.Once
}

var settings = sync.OnceValues(func() ([]byte, error) { // want `G135`
	return fetchSettings("http://settings/v1")
})

func fetchSettings(url string) ([]byte, error) {
	resp, err := (&http.Client{Timeout: time.Second}).Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// It runs again after a failure.
func (o *once) get(ctx context.Context) (string, error) {
	o.again.Do(func() { o.err = o.db.QueryRowContext(ctx, "SELECT 1").Scan(&o.name) })
	if o.err != nil {
		o.again = sync.Once{}
	}
	return o.name, o.err
}

// It keeps what only opens.
func (o *once) open(dsn string) (*sql.DB, error) {
	o.once.Do(func() { o.db, o.err = sql.Open("postgres", dsn) })
	return o.db, o.err
}

// What ends something does so once, and says each time how that went.
func (o *once) Close(ctx context.Context) error {
	o.once.Do(func() { _, o.err = o.db.ExecContext(ctx, "SELECT pg_advisory_unlock(1)") })
	return o.err
}

func (o *once) end(ctx context.Context) error {
	o.once.Do(func() { o.err = o.flush(ctx) })
	return o.err
}

func (o *once) flush(ctx context.Context) error {
	_, err := o.db.ExecContext(ctx, "UPDATE jobs SET done = true WHERE id = 1")
	return err
}

// What answers are decoded into.
type balance struct{ Cents int64 }

type envelope struct {
	Result balance
	Error  string
}

func decode(c *http.Client, req *http.Request) (list []balance, err error) {
	resp, err := c.Do(req) // want `G136`
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return list, json.Unmarshal(data, &list)
}

// The envelope says itself that it failed.
func decodeEnvelope(c *http.Client, req *http.Request) (e envelope, err error) {
	resp, err := c.Do(req)
	if err != nil {
		return e, err
	}
	defer resp.Body.Close()
	return e, json.NewDecoder(resp.Body).Decode(&e)
}

// Another function looks at the status.
func decodeChecked(c *http.Client, req *http.Request) (b balance, err error) {
	resp, err := c.Do(req)
	if err != nil {
		return b, err
	}
	defer resp.Body.Close()
	if err := expected(resp); err != nil {
		return b, err
	}
	return b, json.NewDecoder(resp.Body).Decode(&b)
}

func expected(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %s", resp.Status)
	}
	return nil
}

// The answer is thrown away, and what is decoded is something else.
func tellAll(c *http.Client, req *http.Request, text []byte) (b balance, err error) {
	if err := json.Unmarshal(text, &b); err != nil {
		return b, err
	}
	resp, err := c.Do(req)
	if err != nil {
		return b, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return b, err
}

// Units.
type delays struct {
	pause_seconds int64
	PauseMs       int
	items, params int

	PauseNanoSeconds, PauseMicroSeconds, PauseMilliSeconds int
}

func waitFor(d delays) {
	time.Sleep(time.Duration(d.pause_seconds))       // want `G137`
	timer := time.NewTimer(time.Duration(d.PauseMs)) // want `G137`
	<-timer.C
	time.Sleep(time.Duration(d.items))             // no unit in its name
	time.Sleep(time.Duration(d.params))            // nor here
	time.Sleep(time.Duration(d.PauseNanoSeconds))  // it counts nanoseconds
	time.Sleep(time.Duration(d.PauseMilliSeconds)) // want `G137.* \* time.Millisecond`
	time.Sleep(time.Duration(d.PauseMicroSeconds)) // want `G137.* \* time.Microsecond`
	pause := time.Duration(d.PauseMs)
	pause *= time.Millisecond
	time.Sleep(pause)
	time.Sleep(time.Duration(d.PauseMs) * time.Millisecond)
}

// A timeout for the whole call, of which the loop hears.
func wholeCall(ctx context.Context, db *sql.DB) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var err error
	for range 3 {
		if _, err = db.ExecContext(ctx, "UPDATE jobs SET done = true WHERE id = 1"); err == nil || errors.Is(err, sql.ErrNoRows) {
			return err
		}
		select {
		case <-time.After(randv2.N(time.Second)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// A generator of one's own, whose seed is constant.
type geo struct{ draws *randv2.Rand }

func newGeo() *geo { return &geo{draws: randv2.New(randv2.NewPCG(1, 2))} }

func (g *geo) connect(ctx context.Context, db *sql.DB) error {
	var err error
	for range 3 {
		if err = db.PingContext(ctx); err == nil {
			return nil
		}
		select {
		case <-time.After(time.Duration(g.draws.Int64N(int64(time.Second)))): // want `G101`
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return err
}

// A token that is fetched anew, once.
type session struct {
	c       *http.Client
	renewed bool
}

func (s *session) get(req *http.Request) (int, error) {
	resp, err := s.c.Do(req)
	if err != nil {
		return 0, err
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode == http.StatusUnauthorized && !s.renewed {
		s.renewed = true
		return s.get(req)
	}
	return resp.StatusCode, nil
}

// Two servers for a charge: the second is asked only where nothing was sent to the first.
type bureau struct {
	c   *http.Client
	url string
}

var errRefused = errors.New("connection refused")

func (a *bureau) Charge(ctx context.Context, order string) error {
	req, err := http.NewRequestWithContext(ctx, "POST", a.url, strings.NewReader(order))
	if err != nil {
		return err
	}
	resp, err := a.c.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	io.Copy(io.Discard, resp.Body)
	return expected(resp)
}

func payAtEither(ctx context.Context, first, second *bureau, order string) error {
	err := first.Charge(ctx, order)
	if err != nil {
		return second.Charge(ctx, order) // want `G111`
	}
	return nil
}

func payCarefully(ctx context.Context, first, second *bureau, order string) error {
	err := first.Charge(ctx, order)
	if err != nil {
		if !errors.Is(err, errRefused) {
			return err
		}
		return second.Charge(ctx, order)
	}
	return nil
}

// A breaker that is made once, by a method that looks as if it were made each time.
type guarded struct {
	cb *gobreaker.CircuitBreaker
	mu sync.Mutex
}

func (g *guarded) breaker() *gobreaker.CircuitBreaker {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.cb == nil {
		g.cb = gobreaker.NewCircuitBreaker(gobreaker.Settings{Name: "stock"})
	}
	return g.cb
}

func (g *guarded) Reserve(ctx context.Context, sku string) error {
	_, err := g.breaker().Execute(func() (any, error) { return nil, ctx.Err() })
	return err
}
