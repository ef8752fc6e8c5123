package sqliteletters

import (
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

func letter(n int) deadletter.Letter {
	payload := fmt.Appendf(make([]byte, 0, 512), "%0512d", n)
	key := fmt.Sprint("key-", n)
	return deadletter.Letter{
		ID: deadletter.LetterID("g", key, payload), Group: "g", Key: key, Source: "orders", Position: fmt.Sprint(n),
		Headers: message.Headers{{Name: message.Key, Value: key}}, Payload: payload, Reason: "attempts_exhausted", Attempts: 3,
		Failures: []deadletter.Failure{{At: time.Unix(1, 0), Attempt: 3, Class: "transient", Message: "connection refused"}},
	}
}

// BenchmarkPut is letters of 512 bytes that 64 goroutines put away, each on the disk before
// it is acknowledged.
func BenchmarkPut(b *testing.B) {
	const writers = 64
	s := openFile(b, filepath.Join(b.TempDir(), "letters"), deadletter.Options{MaxLetters: -1, MaxBytes: -1})
	var next atomic.Int64
	var all sync.WaitGroup
	b.ResetTimer()
	for range writers {
		all.Go(func() {
			for n := int(next.Add(1)); n <= b.N; n = int(next.Add(1)) {
				if err := s.Put(b.Context(), letter(n)); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "letters/s")
}

// BenchmarkPage is a page of 100 of a million letters, from their middle.
func BenchmarkPage(b *testing.B) {
	s := openFile(b, filepath.Join(b.TempDir(), "letters"), deadletter.Options{})
	fill(b, s, 1)
	s.db.SetMaxOpenConns(1) // for a temporary table
	copies(b, s, 999_999)
	s.db.SetMaxOpenConns(connections)
	first, err := s.List(b.Context(), deadletter.Query{}, "", 1)
	if err != nil {
		b.Fatal(err)
	}
	middle := deadletter.Place{Kept: deadletter.Nanos(first.Letters[0].Kept) + 500_000, ID: first.Letters[0].ID}.String()
	for name, q := range map[string]deadletter.Query{"group": {Group: "g"}, "all": {}, "none": {Group: "g", Reason: "none"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, err := s.List(b.Context(), q, middle, 100); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRedrive is a letter that is taken and settled, by ones.
func BenchmarkRedrive(b *testing.B) {
	now := time.Now()
	s := openFile(b, filepath.Join(b.TempDir(), "letters"), deadletter.Options{Clock: func() time.Time { return now }})
	fill(b, s, 2000)
	if _, err := s.Order(b.Context(), deadletter.Query{Group: "g"}, deadletter.Drive{Rate: 1e6}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(time.Second)
		taken, _, err := s.Take(b.Context(), "g", 1, time.Minute)
		if err == nil && len(taken) == 1 {
			err = s.Settle(b.Context(), taken[0], deadletter.Verdict{State: deadletter.Waiting})
		}
		if err != nil || len(taken) != 1 {
			b.Fatal(len(taken), err)
		}
	}
}
