package fleet

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/redis/go-redis/v9"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/backoff"
	"github.com/gabion-go/gabion/classify"
	"github.com/gabion-go/gabion/contrib/gabionpgx/pgxfleet"
	"github.com/gabion-go/gabion/contrib/gabionredis/redisfleet"
	"github.com/gabion-go/gabion/contrib/natsmsg/natsfleet"
	gabionfleet "github.com/gabion-go/gabion/fleet"
	"github.com/gabion-go/gabion/policy"
)

// childEnv makes the test's binary a process of the fleet.
const childEnv = "GABION_FLEET_CHILD"

// A job is what a process has to do.
type job struct {
	Process uint32
	Store   string // URL
	Witness string
	Rate    float64 // of all processes
	Lease   time.Duration
	Wait    time.Duration // for one's turn, at most
	Way     string        // one of the following
}

const (
	wayGabion = "gabion"
	wayRate   = "redis_rate"

	wayGuarded = "guarded" // as wayGabion, with a breaker
	wayResends = "resends" // retries within a budget whose floor is shared, and no limit
)

// A told is what a process says of a time when it is asked.
type told struct {
	Process        uint32
	Wanted, Sent   int64
	P50, P99, P999 time.Duration // from when a call was wanted until it was answered, of those that were
	Failures       map[string]int64
}

// child is the process. It reads "demand N" and "tell" from standard input, and answers on standard output. It ends with its input.
func child(text string) error {
	var j job
	if err := json.Unmarshal([]byte(text), &j); err != nil {
		return err
	}
	p := &process{job: j, conns: make(chan net.Conn, 8)}
	for range cap(p.conns) {
		conn, err := net.Dial("tcp", j.Witness)
		if err != nil {
			return err
		}
		p.conns <- conn
	}
	leave, err := p.join()
	if err != nil {
		return err
	}
	defer leave()
	go p.generate()
	fmt.Println("ready")
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		var n float64
		if _, err := fmt.Sscanf(lines.Text(), "demand %g", &n); err == nil {
			p.demand.Store(int64(n * 1000))
			continue
		}
		text, err := json.Marshal(p.tell())
		if err != nil {
			return err
		}
		fmt.Println(string(text))
	}
	return nil
}

// process makes calls at the rate that the test asks for.
type process struct {
	job
	conns  chan net.Conn
	demand atomic.Int64 // calls wanted in 1000 s
	call   func(context.Context, func() error) error

	mu   sync.Mutex // guards all below
	told told
	took []time.Duration
}

// join makes the limiter.
func (p *process) join() (leave func(), err error) {
	if p.Way == wayRate {
		return p.joinRate()
	}
	store, err := openStore(context.Background(), p.Store)
	if err != nil {
		return nil, err
	}
	r, err := gabion.NewRegistry(map[string]policy.Policy{"provider": p.policy()})
	if err != nil {
		return nil, err
	}
	d, err := r.Get("provider")
	if err != nil {
		return nil, err
	}
	m, err := gabionfleet.Join(context.Background(), r, store, gabionfleet.Options{
		Name: "e2e", ID: fmt.Sprint("p", p.Process), Lease: p.Lease, Version: "v1", Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, err
	}
	p.call = func(ctx context.Context, send func() error) error {
		return d.Run(ctx, func(context.Context) error { return send() })
	}
	return m.Close, nil
}

// The budget of wayResends.
const (
	resendRatio  = 0.1
	resendFloor  = 4 // a second, of all processes
	resendWindow = 5 * time.Second
)

func (p *process) policy() policy.Policy {
	made := policy.Policy{
		RateLimit: policy.RateLimit{Rate: policy.PerSecond(p.Rate), Burst: int(p.Rate / 50), MaxWait: p.Wait}, // 102 % in any second
		Retry:     policy.Retry{Attempts: 1}, Bulkhead: policy.Bulkhead{Off: true}, Breaker: policy.Breaker{Off: p.Way != wayGuarded},
		Timeout: policy.Timeout{Call: 10 * time.Second},
		Fleet:   policy.Fleet{Rate: true},
	}
	if p.Way == wayResends {
		made.RateLimit, made.Fleet, made.Safe = policy.RateLimit{}, policy.Fleet{Budget: true}, true
		made.Retry = policy.Retry{Attempts: 3, Backoff: backoff.Const(50 * time.Millisecond), Budget: policy.Budget{
			Shape: policy.BudgetWindow, Ratio: resendRatio, Floor: resendFloor, Window: resendWindow,
		}}
	}
	return made
}

// joinRate asks Redis before each call. A call that is not let through tries again after the time that the answer names, as long as its
// wait lasts.
func (p *process) joinRate() (func(), error) {
	o, err := redis.ParseURL(p.Store)
	if err != nil {
		return nil, err
	}
	client := redis.NewClient(o)
	limiter := redis_rate.NewLimiter(client)
	limit := redis_rate.PerSecond(int(p.Rate)) // with a burst of as much
	p.call = func(ctx context.Context, send func() error) error {
		for end := time.Now().Add(p.Wait); ; {
			r, err := limiter.Allow(ctx, "provider", limit)
			switch {
			case err != nil:
				return err
			case r.Allowed > 0:
				return send()
			case time.Now().Add(r.RetryAfter).After(end):
				return errLimited
			}
			time.Sleep(r.RetryAfter + time.Duration(rand.Int64N(int64(20*time.Millisecond))))
		}
	}
	return func() { client.Close() }, nil
}

var errLimited = errors.New("limited")

func openStore(ctx context.Context, url string) (gabionfleet.Store, error) {
	switch kind, _, _ := strings.Cut(url, ":"); kind {
	case "redis":
		o, err := redis.ParseURL(url)
		if err != nil {
			return nil, err
		}
		o.ContextTimeoutEnabled = true
		return redisfleet.New(redis.NewClient(o), redisfleet.Options{})
	case "postgres":
		config, err := pgxpool.ParseConfig(url)
		if err != nil {
			return nil, err
		}
		config.MaxConns = 1
		pool, err := pgxpool.NewWithConfig(ctx, config)
		if err != nil {
			return nil, err
		}
		s, err := pgxfleet.New(pool, "gabion_fleet")
		if err != nil {
			return nil, err
		}
		return s, s.Migrate(ctx)
	}
	nc, err := nats.Connect(url, nats.ReconnectBufSize(-1), nats.MaxReconnects(-1), nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
	if err != nil {
		return nil, err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	return natsfleet.Open(ctx, js, natsfleet.Options{})
}

// generate makes calls at random moments, as clients that know nothing of each other do.
func (p *process) generate() {
	const step = 5 * time.Millisecond
	due := 0.0
	for last := time.Now(); ; {
		time.Sleep(step)
		now := time.Now()
		due += float64(p.demand.Load()) / 1000 * min(now.Sub(last), 10*step).Seconds() * 2 * rand.Float64()
		last = now
		for ; due >= 1; due-- {
			go p.one()
		}
	}
}

func (p *process) one() {
	began := time.Now()
	err := p.call(context.Background(), p.send)
	took := time.Since(began)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told.Wanted++
	if err == nil {
		p.told.Sent++
		p.took = append(p.took, took)
		return
	}
	if p.told.Failures == nil {
		p.told.Failures = map[string]int64{}
	}
	text := err.Error()
	if reason := gabion.ReasonOf(err); reason != 0 {
		text = reason.String()
	}
	p.told.Failures[text[:min(len(text), 60)]]++
}

// send is the call itself.
func (p *process) send() error {
	var message [messageSize]byte
	binary.BigEndian.PutUint32(message[:], p.Process)
	binary.BigEndian.PutUint64(message[4:], uint64(time.Now().UnixNano()))
	conn := <-p.conns
	defer func() { p.conns <- conn }()
	if _, err := conn.Write(message[:]); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, message[:1]); err != nil {
		return err
	}
	if message[0] == bad {
		return errBad
	}
	return nil
}

// errBad is a failure that may be repeated.
var errBad = classify.Transient(errors.New("the witness says that it has failed"))

// tell is what was since it was asked last.
func (p *process) tell() told {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.told
	t.Process = p.Process
	slices.Sort(p.took)
	if n := len(p.took); n > 0 {
		t.P50, t.P99, t.P999 = p.took[n/2], p.took[n*99/100], p.took[n*999/1000]
	}
	p.told, p.took = told{}, nil
	return t
}
