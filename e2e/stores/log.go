package stores

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/gabion-go/gabion/idempotency"
)

// A plainLog is the least that durable pairs can cost: lines that are appended, with one
// sync for all who wait.
type plainLog struct {
	f     *os.File
	queue chan *entry
}

type entry struct {
	text []byte
	done chan error
}

// lineSize is about what a record is without its body.
const lineSize = 128

func makeLog(t testing.TB) contestant {
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	l := &plainLog{f, make(chan *entry, Workers)}
	gone := make(chan struct{})
	go func() { l.write(); close(gone) }()
	t.Cleanup(func() { close(l.queue); <-gone; f.Close() })
	pair := func(_ context.Context, id idempotency.ID, body []byte) error {
		line := make([]byte, lineSize, lineSize+len(body))
		copy(line, id[:])
		if err := l.append(line); err != nil {
			return err
		}
		return l.append(append(line, body...))
	}
	return contestant{pair, sizeOf(filepath.Dir(f.Name()))}
}

func (l *plainLog) append(text []byte) error {
	e := &entry{text, make(chan error, 1)}
	l.queue <- e
	return <-e.done
}

func (l *plainLog) write() {
	var batch []*entry
	var text []byte
	for first := range l.queue {
		batch, text = append(batch[:0], first), append(text[:0], first.text...)
		for yielded := false; len(batch) < 2*Workers; {
			select {
			case e, open := <-l.queue:
				if open {
					batch, text, yielded = append(batch, e), append(text, e.text...), false
					continue
				}
			default:
			}
			if yielded {
				break
			}
			runtime.Gosched() // those who were answered just now may want to go on
			yielded = true
		}
		_, err := l.f.Write(text)
		if err == nil {
			err = syncData(l.f)
		}
		for _, e := range batch {
			e.done <- err
		}
	}
}

// SyncTime returns how long this disk takes to sync 1 KiB that was appended, in
// milliseconds: the median of many.
func SyncTime(t testing.TB, many int) float64 {
	f, err := os.Create(filepath.Join(t.TempDir(), "sync"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	took := make([]time.Duration, many)
	for i := range took {
		start := time.Now()
		if _, err = f.Write(someBody()); err == nil {
			err = syncData(f)
		}
		if err != nil {
			t.Fatal(err)
		}
		took[i] = time.Since(start)
	}
	slices.Sort(took)
	return quantile(took, 0.5)
}
