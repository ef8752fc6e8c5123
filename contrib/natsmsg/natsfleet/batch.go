package natsfleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/fleet"
)

// most is how many requests of one batch are out at the same time: a list of a thousand is then sixteen round
// trips long, and no server's queue of requests is filled by one program.
const most = 64

// A work is a batch on its way.
type work struct {
	*Store
	ctx  context.Context
	all  sync.WaitGroup
	free chan struct{} // one for each request that is out

	mu    sync.Mutex // guards all below
	now   time.Time
	found map[string]entry // by key
	put   map[string]entry // what this batch put; deleted keys have none
	errs  []error
}

// Do implements [fleet.Store]. It is not atomic: see the package's documentation.
func (s *Store) Do(ctx context.Context, b fleet.Batch) (fleet.Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // of what is out when one has failed
	w := &work{Store: s, ctx: ctx, free: make(chan struct{}, most), found: map[string]entry{}, put: map[string]entry{}}
	swapped, err := w.swapFirst(b.Swap)
	if err != nil {
		return fleet.Result{}, fmt.Errorf("natsfleet: %w", err)
	}
	if swapped {
		w.puts(b.Puts)
	}
	w.gets(b.Get)
	w.clock(b.List)
	w.all.Wait()
	if err := errors.Join(w.errs...); err != nil {
		return fleet.Result{}, fmt.Errorf("natsfleet: %w", err)
	}
	return w.result(b, swapped), nil
}

func (w *work) swapFirst(p *fleet.Put) (bool, error) {
	if p == nil {
		return true, w.ctx.Err()
	}
	version, made, err := w.swap(w.ctx, p)
	if made {
		w.put[p.Key] = entry{value: bytes.Clone(p.Value), version: version}
	}
	return made, err
}

// out sends a request when there is room.
func (w *work) out(do func() error) {
	w.all.Go(func() {
		select {
		case w.free <- struct{}{}:
		case <-w.ctx.Done():
			w.failed(w.ctx.Err())
			return
		}
		err := do()
		<-w.free
		w.failed(err)
	})
}

func (w *work) failed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err != nil && len(w.errs) == 0 { // the others most often fail alike
		w.errs = append(w.errs, err)
	}
}

// puts are sent at the same time, but those of one key one after the other.
func (w *work) puts(all []fleet.Put) {
	byKey := map[string][]fleet.Put{}
	for i := range all {
		byKey[all[i].Key] = append(byKey[all[i].Key], all[i])
	}
	for key, puts := range byKey {
		w.out(func() error {
			for i := range puts {
				if err := w.putOne(key, &puts[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
}

func (w *work) putOne(key string, p *fleet.Put) (err error) {
	e := entry{value: bytes.Clone(p.Value)}
	if p.Value == nil {
		if err = w.stream.Purge(w.ctx, jetstream.WithPurgeSubject(w.subject+subjectOf(key))); err != nil {
			return fmt.Errorf("delete: %w", err)
		}
	} else if e.version, err = w.publish(w.ctx, p, unversioned); err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.put[key] = e
	return nil
}

func (w *work) gets(keys []string) {
	for _, key := range keys {
		w.get(key, w.subject+subjectOf(key))
	}
}

func (w *work) get(key, subject string) {
	w.out(func() error {
		e, err := w.load(w.ctx, subject)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err == nil && e.version >= w.found[key].version {
			w.found[key] = e
		}
		return err
	})
}

// clock asks for the time, and with it for the names of what is listed.
func (w *work) clock(prefix string) {
	var o []jetstream.StreamInfoOpt
	if prefix != "" {
		o = append(o, jetstream.WithSubjectFilter(w.subject+filterOf(prefix)))
	}
	w.out(func() error {
		i, err := w.stream.Info(w.ctx, o...)
		if err != nil {
			return fmt.Errorf("ask for the time: %w", err)
		}
		w.mu.Lock()
		w.now = i.TimeStamp
		w.mu.Unlock()
		for subject := range i.State.Subjects {
			key, is := keyOf(strings.TrimPrefix(subject, w.subject))
			if is && strings.HasPrefix(key, prefix) {
				w.get(key, subject)
			}
		}
		return nil
	})
}

// result puts together what was read and what was put. Both were on their way at the same time, so
// of two versions of a key the larger counts.
func (w *work) result(b fleet.Batch, swapped bool) fleet.Result {
	for key, e := range w.put {
		wanted := slices.Contains(b.Get, key) || b.List != "" && strings.HasPrefix(key, b.List)
		if wanted && (e.version == 0 || e.version > w.found[key].version) {
			w.found[key] = e
		}
	}
	r := fleet.Result{Now: w.now, Swapped: swapped, Items: make(map[string]fleet.Item, len(w.found))}
	for key, e := range w.found {
		switch {
		case e.alive(w.now):
			r.Items[key] = fleet.Item{Value: e.value, Version: e.version}
		case e.version != 0 && b.List != "":
			w.forget(e.version)
		}
	}
	w.all.Wait()
	return r
}

// forget deletes what has lasted its time. If it fails, the next list does it.
func (w *work) forget(version uint64) {
	w.out(func() error {
		_ = w.stream.DeleteMsg(w.ctx, version)
		return nil
	})
}
