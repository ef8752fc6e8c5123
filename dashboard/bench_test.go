package dashboard

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
)

// busy is a page of the given number of dependencies, all of which were called.
func busy(b *testing.B, dependencies int, fail bool) (*Page, []*gabion.Dependency) {
	var names []string
	for n := range dependencies {
		names = append(names, fmt.Sprintf("dependency-%d", n))
	}
	r := newRegistry(b, names...)
	p := New(Config{Registry: r})
	b.Cleanup(func() { p.Close() })
	all := r.All()
	for _, d := range all {
		callSome(d, fail)
	}
	return p, all
}

func callSome(d *gabion.Dependency, fail bool) {
	for n := range 5 {
		d.Run(context.Background(), func(context.Context) error {
			if n == 0 && fail {
				return fmt.Errorf("no")
			}
			return nil
		})
	}
}

// A frame of 1,000 dependencies, of which every one has changed, when all is well and when each fails.
// Once a second that must be no more than 2 % of a core, 20 ms.
func BenchmarkFrame(b *testing.B) {
	for _, c := range []struct {
		size int
		fail bool
	}{{10, false}, {1000, false}, {1000, true}} {
		b.Run(fmt.Sprintf("%d/failing=%v", c.size, c.fail), func(b *testing.B) {
			p, all := busy(b, c.size, c.fail)
			bytes := 0
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, d := range all {
					callSome(d, c.fail)
				}
				p.sampled = 0
				b.StartTimer()
				bytes = len(p.hub.next().text)
			}
			b.ReportMetric(float64(bytes), "bytes/frame")
		})
	}
}

// The first frame of a viewer, with every history.
func BenchmarkFullFrame(b *testing.B) {
	p, _ := busy(b, 1000, true)
	bytes := 0
	for b.Loop() {
		p.sampled = 0
		bytes = len(p.hub.full().text)
	}
	b.ReportMetric(float64(bytes), "bytes/frame")
}

// What a page costs a call: its three events.
func BenchmarkObserve(b *testing.B) {
	p := New(Config{})
	defer p.Close()
	sent := gabion.Event{Kind: policy.KindAttemptSent, Dependency: "bank", Attempt: 1, Until: policy.Instant(time.Second)}
	settled := gabion.Event{Kind: policy.KindAttemptSettled, Dependency: "bank", Attempt: 1, Class: policy.ClassSuccess, Took: time.Millisecond}
	returned := gabion.Event{Kind: policy.KindReturned, Dependency: "bank", Attempt: 1, Took: time.Millisecond}
	call := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		call++
		sent.Call, settled.Call, returned.Call = call, call, call
		p.Observe(context.Background(), sent)
		p.Observe(context.Background(), settled)
		p.Observe(context.Background(), returned)
	}
}

// The same, of a call as programs make it: what it costs alone, and with a page.
func BenchmarkCall(b *testing.B) {
	for _, watched := range []bool{false, true} {
		b.Run(fmt.Sprintf("page=%v", watched), func(b *testing.B) {
			d := gabion.New("bank", policy.Policy{})
			if watched {
				p := New(Config{Dependencies: []*gabion.Dependency{d}})
				defer p.Close()
			}
			b.ReportAllocs()
			for b.Loop() {
				d.Run(context.Background(), succeed)
			}
		})
	}
}
