package boltstore

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/gabion-go/gabion/idempotency"
)

// BenchmarkPairs measures durable claims with their completions, 1 KiB of random
// bytes each, by 64 goroutines: in this store, and in what no store can beat, a file
// that one goroutine appends to, with one sync for all that is queued.
//
//	go test -run '^$' -bench Pairs -benchtime 3s
func BenchmarkPairs(b *testing.B) {
	b.Run("append", func(b *testing.B) {
		l := openLog(b)
		pairs(b, l.file, func(c idempotency.Claim, body []byte) error {
			if err := l.append(make([]byte, 128)); err != nil {
				return err
			}
			return l.append(append(make([]byte, 0, 128+len(body)), body...))
		})
	})
	b.Run("bolt", func(b *testing.B) {
		file := filepath.Join(b.TempDir(), "records")
		s := openStore(b, file)
		pairs(b, file, func(c idempotency.Claim, body []byte) error { return pair(s, c, body) })
	})
}

func pair(s idempotency.Store, c idempotency.Claim, body []byte) error {
	ctx := context.Background()
	a, err := s.Begin(ctx, c)
	if err != nil {
		return err
	}
	return s.Apply(ctx, idempotency.Ref{ID: c.ID, Token: a.Record.Token},
		idempotency.Change{State: idempotency.StateDone, Result: idempotency.Result{Status: 201, Body: body}})
}

var random = func() []byte {
	source := rand.NewChaCha8([32]byte{})
	b := make([]byte, 1<<20)
	source.Read(b)
	return b
}()

func someBody() []byte {
	n := rand.IntN(len(random) - 1024)
	return random[n : n+1024]
}

func someClaim() (c idempotency.Claim) {
	for i := range c.ID {
		c.ID[i] = byte(rand.Uint32())
	}
	c.Owner[0], c.Lease, c.Retention = 1, time.Minute, time.Hour
	return c
}

func pairs(b *testing.B, file string, do func(idempotency.Claim, []byte) error) {
	const clients = 64
	var left atomic.Int64
	left.Store(int64(b.N))
	took := make([][]time.Duration, clients)
	before := size(b, file)
	b.ResetTimer()
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				start := time.Now()
				if err := do(someClaim(), someBody()); err != nil {
					b.Error(err)
					return
				}
				took[n] = append(took[n], time.Since(start))
			}
		})
	}
	all.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
	b.ReportMetric(float64(size(b, file)-before)/float64(b.N), "B/pair")
	quantiles(b, "", slices.Concat(took...))
}

func quantiles(b *testing.B, name string, d []time.Duration) {
	slices.Sort(d)
	b.ReportMetric(float64(d[len(d)/2].Microseconds()), name+"p50-µs")
	b.ReportMetric(float64(d[len(d)*99/100].Microseconds()), name+"p99-µs")
}

func size(b *testing.B, file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		b.Fatal(err)
	}
	return info.Size()
}

// BenchmarkMillion fills a file with a million records of 1 KiB, opens it again, and
// sweeps the expired third of them while 16 goroutines claim keys. It takes a minute and
// 2 GB of disk.
//
//	GABION_SOAK=1 go test -run '^$' -bench Million -benchtime 1x
func BenchmarkMillion(b *testing.B) {
	if os.Getenv("GABION_SOAK") != "1" {
		b.Skip("GABION_SOAK is not 1")
	}
	const records, expired = 1_000_000, 300_000
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "records")
		fill(b, file, records, expired)
		start := time.Now()
		s := openStore(b, file)
		b.ReportMetric(time.Since(start).Seconds(), "open-s")
		b.ReportMetric(float64(size(b, file))/records, "B/record")
		debug.FreeOSMemory()
		b.ReportMetric(resident(b), "anon-MiB")

		stop := load(s)
		time.Sleep(5 * time.Second)
		before := stop()
		quantiles(b, "before-", before)
		stop = load(s)
		start = time.Now()
		if n, err := s.Sweep(context.Background(), records); n != expired || err != nil {
			b.Errorf("swept %d: %v", n, err)
		}
		b.ReportMetric(expired/time.Since(start).Seconds(), "swept/s")
		quantiles(b, "sweep-", stop())
		b.ReportMetric(float64(size(b, file))/records, "swept-B/record")
		closeStore(b, s)
	}
}

// fill writes finished records, of which some have expired.
func fill(b *testing.B, file string, records, expired int) {
	const batch = 20_000
	s, err := Open(file, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer closeStore(b, s)
	for n := 0; n < records; n += batch {
		err := s.db.Update(func(tx *bbolt.Tx) error {
			t, now := s.tables(tx), s.now()
			for i := range batch {
				r := idempotency.Record{State: idempotency.StateDone, Token: 1, Attempt: 1, Expires: now.Add(time.Hour)}
				if n+i < expired {
					r.Expires = now
				}
				r.Result = idempotency.Result{Status: 201, Body: someBody()}
				if err := t.replace(someClaim().ID, &idempotency.Record{}, &r); err != nil {
					return err
				}
			}
			return t.failed
		})
		if err != nil {
			b.Fatal(err)
		}
	}
}

// load keeps claiming keys until stop, which returns how long each claim took.
func load(s *Store) (stop func() []time.Duration) {
	const clients = 16
	var over atomic.Bool
	took := make([][]time.Duration, clients)
	var all sync.WaitGroup
	for n := range clients {
		all.Go(func() {
			for !over.Load() {
				start := time.Now()
				if err := pair(s, someClaim(), someBody()); err != nil {
					panic(err)
				}
				took[n] = append(took[n], time.Since(start))
			}
		})
	}
	return func() []time.Duration {
		over.Store(true)
		all.Wait()
		return slices.Concat(took...)
	}
}

// resident returns the memory of this process in MiB, without the pages of files.
func resident(b *testing.B) float64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		b.Skip("no /proc: ", err)
	}
	_, after, _ := strings.Cut(string(text), "RssAnon:")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	if err != nil {
		b.Fatal(err)
	}
	return float64(kib) / 1024
}

// A log is a file with a writer that groups what is queued.
type log struct {
	file  string
	queue chan *entry
}

type entry struct {
	text []byte
	done chan error
}

func openLog(b *testing.B) *log {
	file := filepath.Join(b.TempDir(), "log")
	f, err := os.Create(file)
	if err != nil {
		b.Fatal(err)
	}
	l := &log{file: file, queue: make(chan *entry, queueLength)}
	var writer sync.WaitGroup
	writer.Go(func() { l.write(f) })
	b.Cleanup(func() {
		close(l.queue)
		writer.Wait()
		f.Close()
	})
	return l
}

func (l *log) append(text []byte) error {
	e := &entry{text, make(chan error, 1)}
	l.queue <- e
	return <-e.done
}

func (l *log) write(f *os.File) {
	var text []byte
	for e := range l.queue {
		batch := []*entry{e}
		for n := 0; n < len(batch); runtime.Gosched() { // as the store does
			n = len(batch)
			for len(l.queue) > 0 {
				batch = append(batch, <-l.queue)
			}
		}
		text = text[:0]
		for _, e := range batch {
			text = append(text, e.text...)
		}
		_, err := f.Write(text)
		if err == nil {
			err = datasync(f)
		}
		for _, e := range batch {
			e.done <- err
		}
	}
}
