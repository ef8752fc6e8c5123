package shop

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Question is a situation, and what a program does in it.
type Question struct {
	Name string
	Slow bool // it takes seconds of real time
	Long bool // it takes minutes
	Ask  func(ctx context.Context, s *Server, c Client) string
}

// breath is the time between calls that come one after the other: some libraries count
// in the background.
const breath = 5 * time.Millisecond

var unavailable = Step{Status: http.StatusServiceUnavailable}

// Questions are put to both programs of a migration, each to a new client and server.
var Questions = []Question{
	{Name: "A GET fails twice with 503, then works", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(unavailable, unavailable, Step{})
		return fmt.Sprintf("%s, %s", price(ctx, c), Attempts(s))
	}},
	{Name: "A POST without a key: the answer is lost", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Lost: true}, Step{})
		err := c.Charge(ctx, "order-7", "")
		return fmt.Sprintf("%s, charged %s", verdict(err), times(s.Charged()))
	}},
	{Name: "A POST with a key: the answer is lost", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Lost: true}, Step{})
		err := c.Charge(ctx, "order-7", "key-of-order-7")
		return fmt.Sprintf("%s, charged %s", verdict(err), times(s.Charged()))
	}},
	{Name: "503 with `Retry-After: 2`", Slow: true, Ask: wait("2", 16)},
	{Name: "503 with a Retry-After that is a date in 2 s", Slow: true, Ask: wait("date", 16)},
	{Name: "503 with `Retry-After: 3600`", Long: true, Ask: wait("3600", 1)},
	{Name: "Every attempt is answered with 503", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(unavailable)
		p, err := c.Price(ctx, "tea")
		if p == OnRequest {
			return "the fallback answers"
		}
		if err != nil && strings.Contains(err.Error(), Closed) {
			return "the caller can read the last answer"
		}
		return verdict(err) + ", without the last answer"
	}},
	{Name: "The shop never answers", Slow: true, Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Hang: true})
		start := time.Now()
		came := price(ctx, c)
		return fmt.Sprintf("%s within %s, %s", came, upTo(time.Since(start)), Attempts(s))
	}},
	{Name: "20 GETs, one after the other, each answered 503 once", Slow: true, Ask: func(ctx context.Context, s *Server, c Client) string {
		answered := 0
		for range 20 {
			s.Plan(unavailable, Step{})
			if price(ctx, c) == "answered" {
				answered++
			}
		}
		return fmt.Sprintf("%d answered, over %s", answered, plural(s.Connections(), "connection"))
	}},
	{Name: "60 answers of 404, then the shop is asked once more", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Status: http.StatusNotFound})
		for range 60 {
			c.Price(ctx, "tea") //nolint:errcheck // the last call tells
			pause(ctx, breath)
		}
		return onceMore(ctx, s, c)
	}},
	{Name: "30 callers give up after 50 ms, then the shop is asked once more", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Hang: true})
		var callers sync.WaitGroup
		for range 5 {
			for range 6 {
				callers.Go(func() {
					soon, cancel := context.WithCancel(ctx)
					defer time.AfterFunc(50*time.Millisecond, cancel).Stop()
					c.Price(soon, "tea") //nolint:errcheck // the last call tells
				})
			}
			callers.Wait()
		}
		return onceMore(ctx, s, c)
	}},
	{Name: "20 calls at once, each takes 300 ms", Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(Step{Takes: 300 * time.Millisecond})
		return fmt.Sprintf("%d answered", rush(ctx, c, 20, breath))
	}},
	{Name: "100 calls, one after the other, all answered 503", Slow: true, Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(unavailable)
		for range 100 {
			price(ctx, c)
			pause(ctx, breath)
		}
		return perCall(s, 100)
	}},
	{Name: "After 20 s of nothing but 503: the quickest of ten calls", Long: true, Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(unavailable)
		rush(ctx, c, 100, 200*time.Millisecond)
		quickest := time.Minute
		for range 10 {
			start := time.Now()
			price(ctx, c)
			quickest = min(quickest, time.Since(start))
		}
		if quickest < 10*time.Millisecond {
			return "takes no time"
		}
		return fmt.Sprintf("takes %.1f s", quickest.Seconds())
	}},
	{Name: "One answer in ten is 503 for half a minute, 5 calls a second", Long: true, Ask: faulty(0.1)},
	{Name: "Half of the answers are 503 for half a minute, 5 calls a second", Long: true, Ask: faulty(0.5)},
	{Name: "All answers are 503 for half a minute, 5 calls a second", Long: true, Ask: func(ctx context.Context, s *Server, c Client) string {
		s.Plan(unavailable)
		rush(ctx, c, 150, 200*time.Millisecond)
		load := perCall(s, 150)
		s.Plan(Step{})
		start := time.Now()
		for time.Since(start) < 5*time.Minute && price(ctx, c) != "answered" {
			pause(ctx, 100*time.Millisecond)
		}
		return fmt.Sprintf("%s, back within %s", load, upTo(time.Since(start)))
	}},
}

// faulty asks what becomes of calls while a share of the answers are failures.
func faulty(share float64) func(context.Context, *Server, Client) string {
	return func(ctx context.Context, s *Server, c Client) string {
		draw := rand.New(rand.NewPCG(1, 2))
		steps := make([]Step, 1000)
		for i := range steps {
			if draw.Float64() < share {
				steps[i] = unavailable
			}
		}
		s.Plan(steps...)
		answered := rush(ctx, c, 150, 200*time.Millisecond)
		return fmt.Sprintf("%.0f %% answered, %s", math.Round(float64(answered)/150*20)*5, perCall(s, 150))
	}
}

// wait asks whether a program comes back before its Retry-After is over. Between the rounds all is
// well.
func wait(retryAfter string, rounds int) func(context.Context, *Server, Client) string {
	return func(ctx context.Context, s *Server, c Client) string {
		early, late, came := 0, 0, ""
		for range rounds {
			s.Plan(Step{})
			for range 6 {
				price(ctx, c)
			}
			s.Plan(Step{Status: http.StatusServiceUnavailable, RetryAfter: retryAfter}, Step{})
			before := len(s.Requests())
			came = price(ctx, c)
			at := s.Requests()[before:]
			switch {
			case len(at) < 2:
			case at[1].Sub(at[0]) < 2*time.Second-time.Millisecond:
				early++
			default:
				late++
			}
		}
		switch {
		case early+late == 0:
			return came + " at once"
		case early == 0 && retryAfter == "3600":
			return "waits for an hour"
		case early == 0:
			return "never comes back too early"
		case late == 0:
			return "comes back too early"
		}
		return "comes back too early at times"
	}
}

// onceMore says whether a program still asks a shop that works.
func onceMore(ctx context.Context, s *Server, c Client) string {
	s.Plan(Step{})
	before := len(s.Requests())
	came := price(ctx, c)
	if len(s.Requests()) == before {
		return "the shop is not asked"
	}
	return came
}

// rush makes calls at a fixed rate, however long each takes, and counts those that the
// shop answered.
func rush(ctx context.Context, c Client, calls int, every time.Duration) int {
	var callers sync.WaitGroup
	var answered atomic.Int64
	for range calls {
		callers.Go(func() {
			if price(ctx, c) == "answered" {
				answered.Add(1)
			}
		})
		pause(ctx, every)
	}
	callers.Wait()
	return int(answered.Load())
}

// perCall says how many attempts the shop got for each call.
func perCall(s *Server, calls int) string {
	return fmt.Sprintf("%.1f attempts a call", float64(len(s.Requests()))/float64(calls))
}

func pause(ctx context.Context, d time.Duration) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// price asks for one and says what came.
func price(ctx context.Context, c Client) string {
	p, err := c.Price(ctx, "tea")
	if p == OnRequest {
		return "the fallback answers"
	}
	return verdict(err)
}

func verdict(err error) string {
	if err != nil {
		return "fails"
	}
	return "answered"
}

// Attempts says how many requests came.
func Attempts(s *Server) string { return plural(len(s.Requests()), "attempt") }

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func upTo(d time.Duration) string {
	return fmt.Sprintf("%.0f s", math.Max(1, math.Ceil(d.Seconds())))
}
