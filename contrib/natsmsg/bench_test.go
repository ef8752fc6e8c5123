package natsmsg

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/internal/report"
	"github.com/gabion-go/gabion/messages/message"
)

// atOnce is how many messages either side of the comparison works on at once, and asks for.
const atOnce = 100

// BenchmarkConsume consumes messages whose work is nothing, by a bare pull consumer with
// explicit acknowledgements and by Consume with an inbox in memory, in turns. The figure "of bare"
// is the median of the ratios of their rates. The processor's time is that of the whole process,
// with the broker, which is in it; it says more than the rates on a machine that has other work.
func BenchmarkConsume(b *testing.B) {
	for _, single := range []bool{false, true} {
		b.Run(map[bool]string{false: "double ack", true: "single ack"}[single], func(b *testing.B) {
			r := newRig(b)
			r.options.SingleAck = single
			r.policy.Bulkhead.Limit = atOnce
			const n = 10_000
			r.fill(n)
			var ratios []float64
			var bare, ours, bareCPU, oursCPU time.Duration
			for i := 0; b.Loop(); i++ {
				at := report.CPUTime()
				first := r.bareTime(n, single, 2*i)
				between := report.CPUTime()
				second := r.oursTime(n, 2*i+1)
				bareCPU, oursCPU = bareCPU+between-at, oursCPU+report.CPUTime()-between
				ratios = append(ratios, float64(first)/float64(second))
				bare, ours = bare+first, ours+second
			}
			slices.Sort(ratios)
			b.ReportMetric(ratios[len(ratios)/2], "of-bare")
			b.ReportMetric(n*float64(b.N)/bare.Seconds(), "bare-msg/s")
			b.ReportMetric(n*float64(b.N)/ours.Seconds(), "msg/s")
			b.ReportMetric(float64(bareCPU.Nanoseconds())/n/float64(b.N), "bare-cpu-ns/msg")
			b.ReportMetric(float64(oursCPU.Nanoseconds())/n/float64(b.N), "cpu-ns/msg")
		})
	}
}

// fill makes a stream of its own in memory: the less the broker does, the more our part shows.
func (r *rig) fill(n int) {
	_, err := r.js.CreateStream(r.Context(), jetstream.StreamConfig{Name: "MANY", Subjects: []string{"many"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		r.Fatal(err)
	}
	for i := range n {
		id := strconv.Itoa(i)
		if _, err := r.js.PublishMsgAsync(&nats.Msg{Subject: "many", Header: nats.Header{message.Key: {id}}, Data: []byte("an order of 10 € for " + id)}); err != nil {
			r.Fatal(err)
		}
	}
	<-r.js.PublishAsyncComplete()
}

func (r *rig) durable(i int) jetstream.Consumer {
	c, err := r.js.CreateConsumer(r.Context(), "MANY", jetstream.ConsumerConfig{Durable: fmt.Sprint("d", i), AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1, MaxAckPending: 10_000})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

// acked waits until the broker has all acknowledgements.
func (r *rig) acked(c jetstream.Consumer) {
	r.eventually("all is acknowledged", func() bool {
		i, err := c.Info(r.Context())
		return err == nil && i.NumAckPending == 0 && i.NumPending == 0
	})
	_ = r.js.DeleteConsumer(r.Context(), "MANY", c.CachedInfo().Name)
}

// bareTime is how long the bare consumer takes.
func (r *rig) bareTime(n int, single bool, i int) time.Duration {
	c := r.durable(i)
	begun := time.Now()
	all, err := c.Messages(jetstream.PullMaxMessages(atOnce))
	if err != nil {
		r.Fatal(err)
	}
	slots := make(chan struct{}, atOnce)
	var working sync.WaitGroup
	for range n {
		m, err := all.Next()
		for errors.Is(err, jetstream.ErrNoHeartbeat) { // on a machine that is too busy
			m, err = all.Next()
		}
		if err != nil {
			r.Fatal(err)
		}
		slots <- struct{}{}
		working.Go(func() {
			defer func() { <-slots }()
			if single {
				_ = m.Ack()
			} else if err := m.DoubleAck(r.Context()); err != nil {
				r.Error(err)
			}
		})
	}
	working.Wait()
	took := time.Since(begun)
	all.Stop()
	r.acked(c)
	return took
}

// oursTime is how long Consume takes.
func (r *rig) oursTime(n, i int) time.Duration {
	r.make()
	c := r.durable(i)
	ctx, end := context.WithCancel(r.Context())
	defer end()
	var runs atomic.Int64
	all, ended := make(chan time.Time, 1), make(chan error, 1)
	begun := time.Now()
	go func() {
		ended <- Consume(ctx, r.js, "MANY", c.CachedInfo().Name, r.c, func(context.Context) error {
			if runs.Add(1) == int64(n) {
				all <- time.Now()
			}
			return nil
		}, r.options)
	}()
	took := (<-all).Sub(begun)
	end()
	<-ended
	r.acked(c)
	return took
}
