package gabionotel_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/contrib/gabionotel"
	"github.com/gabion-go/gabion/policy"
)

// carrying returns ctx with these members in its baggage, written as on the wire.
func carrying(ctx context.Context, members string) context.Context {
	return propagation.Baggage{}.Extract(ctx, propagation.MapCarrier{"baggage": members})
}

// carried is the baggage that a request with ctx would have.
func carried(ctx context.Context) string {
	wire := propagation.MapCarrier{}
	propagation.Baggage{}.Inject(ctx, wire)
	return wire["baggage"]
}

func TestTheTimeLeftIsSentOnRequest(t *testing.T) {
	ours := func(name string) bool { return name == "ours" }
	cases := map[string]struct {
		name   string
		c      gabionotel.Config
		p      policy.Policy
		before string
		want   string
	}{
		"an attempt sends its time left":      {"ours", gabionotel.Config{SendDeadline: ours}, once, "", "gabion.deadline_ms=4000"},
		"less the margin":                     {"ours", gabionotel.Config{SendDeadline: ours, DeadlineMargin: 50 * time.Millisecond}, once, "", "gabion.deadline_ms=3950"},
		"in place of an earlier hop's":        {"ours", gabionotel.Config{SendDeadline: ours}, once, "gabion.deadline_ms=99", "gabion.deadline_ms=4000"},
		"nothing is sent to others":           {"theirs", gabionotel.Config{SendDeadline: ours}, once, "", ""},
		"nor what an earlier hop wrote":       {"theirs", gabionotel.Config{SendDeadline: ours}, once, "gabion.deadline_ms=99,user=7", "user=7"},
		"nothing is touched without request":  {"ours", gabionotel.Config{}, once, "gabion.deadline_ms=99", "gabion.deadline_ms=99"},
		"a margin that leaves nothing is a 0": {"ours", gabionotel.Config{SendDeadline: ours, DeadlineMargin: time.Minute}, once, "", "gabion.deadline_ms=0"},
	}
	for name, c := range cases {
		for _, sampled := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c.c.NoMetrics, c.c.NoTraces = true, !sampled
					c.c.TracerProvider = newExporter().provider
					d := gabion.New(c.name, c.p, gabion.WithObserver(gabionotel.New(c.c)))
					gabion.Do(carrying(t.Context(), c.before), d, func(ctx context.Context) (int, error) {
						if got := carried(ctx); got != c.want {
							t.Errorf("the baggage is %q, want %q", got, c.want)
						}
						return 1, nil
					})
				})
			})
		}
	}
}

func TestAServerTakesTheTimeLeftFromTheBaggage(t *testing.T) {
	cases := map[string]struct {
		baggage string
		most    time.Duration
		want    time.Duration // 0 means none
		ended   bool
	}{
		"what the caller has left":       {"gabion.deadline_ms=1500", 0, 1500 * time.Millisecond, false},
		"but the server's most at most":  {"gabion.deadline_ms=999999999", time.Minute, time.Minute, false},
		"without a word the most":        {"user=7", time.Minute, time.Minute, false},
		"without either nothing":         {"", 0, 0, false},
		"no time left":                   {"gabion.deadline_ms=0", time.Minute, 0, true},
		"a negative number is no number": {"gabion.deadline_ms=-1", 0, 0, false},
		"nor is a fraction":              {"gabion.deadline_ms=1.5", 0, 0, false},
		"nor is a word":                  {"gabion.deadline_ms=soon", 0, 0, false},
		"nor is nothing":                 {"gabion.deadline_ms=", 0, 0, false},
		"nor are ten digits":             {"gabion.deadline_ms=1000000000", 0, 0, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := gabionotel.WithDeadline(carrying(t.Context(), c.baggage), c.most)
				defer cancel()
				at, has := ctx.Deadline()
				switch {
				case c.ended != (ctx.Err() != nil):
					t.Errorf("it has ended: %v", ctx.Err())
				case !c.ended && has != (c.want != 0):
					t.Errorf("it has a deadline: %v", has)
				case has && !c.ended && time.Until(at) != c.want:
					t.Errorf("%v are left, want %v", time.Until(at), c.want)
				}
				if baggage.FromContext(ctx).Member(gabionotel.DeadlineMember).Key() != "" {
					t.Error("the time would be passed on")
				}
				if c.baggage == "user=7" && carried(ctx) != "user=7" {
					t.Error("other members are gone")
				}
			})
		})
	}
}

// The earlier of two deadlines counts, wherever it comes from.
func TestTheBaggageProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		ctx, cancel = gabionotel.WithDeadline(carrying(ctx, "gabion.deadline_ms=60000"), 0)
		defer cancel()
		if at, _ := ctx.Deadline(); time.Until(at) != time.Second {
			t.Errorf("%v are left", time.Until(at))
		}
	})
}

func FuzzWithDeadline(f *testing.F) {
	f.Add("gabion.deadline_ms=1500")
	f.Add("gabion.deadline_ms=99999999999999999999")
	f.Fuzz(func(t *testing.T, members string) {
		ctx, cancel := gabionotel.WithDeadline(carrying(context.Background(), members), time.Minute)
		defer cancel()
		if at, ok := ctx.Deadline(); !ok || time.Until(at) > time.Minute {
			t.Errorf("%q: %v", members, at)
		}
	})
}
