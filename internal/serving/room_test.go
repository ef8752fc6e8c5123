package serving_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/serving"
)

// More callers than the limit, and five workers: with a limit of a hundred each request takes twenty
// times as long as its work.
func TestALearnedLimitComesDownToWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := serving.New(serving.Config{
			Rules:   admission.Rules{Limit: 100, Target: admission.DefaultTarget, Interval: admission.DefaultInterval},
			Learn:   &learned.Bounds{Min: 1, Max: 1000},
			QueueOf: admission.QueueFor,
		})
		if s := room.Stats(); s.Limit != 100 || s.QueueLimit != 200 {
			t.Errorf("at first: %+v", s)
		}
		workers := make(chan struct{}, 5)
		over := make(chan struct{})
		var callers sync.WaitGroup
		for range 150 {
			callers.Go(func() {
				for {
					select {
					case <-over:
						return
					default:
					}
					pass, result := room.Enter(context.Background(), serving.Request{})
					if result.Answer != admission.Admitted {
						time.Sleep(100 * time.Millisecond)
						continue
					}
					workers <- struct{}{}
					time.Sleep(10 * time.Millisecond)
					<-workers
					room.Leave(pass, learned.Worked)
				}
			})
		}
		time.Sleep(30 * time.Second)
		s := room.Stats()
		close(over)
		callers.Wait()
		if s.Limit > 20 || s.QueueLimit != admission.QueueFor(s.Limit) {
			t.Errorf("after half a minute: %+v", s)
		}
		if s := room.Stats(); s.InUse != 0 || s.Queued != 0 {
			t.Errorf("at the end: %+v", s)
		}
	})
}

func TestWhatARoomAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := serving.New(serving.Config{Rules: admission.Rules{Limit: 1, Queue: 4, Target: time.Millisecond, Interval: time.Second}})
		pass, _ := room.Enter(context.Background(), serving.Request{})
		canceled, cancel := context.WithCancel(context.Background())
		cancel()
		short, done := context.WithTimeout(context.Background(), 50*time.Millisecond)
		defer done()
		for _, c := range []struct {
			fact string
			ctx  context.Context
			r    serving.Request
			want admission.Answer
			took time.Duration
		}{
			{"a caller who has gone", canceled, serving.Request{}, admission.Gone, 0},
			{"a deadline that has passed", context.Background(), serving.Request{Deadline: time.Now()}, admission.Expired, 0},
			{"a deadline in the queue", context.Background(), serving.Request{Deadline: time.Now().Add(20 * time.Millisecond)}, admission.Expired, 20 * time.Millisecond},
			{"a context's deadline in the queue", short, serving.Request{}, admission.Expired, 30 * time.Millisecond},
			{"no slot is given back", context.Background(), serving.Request{}, admission.TooLong, time.Second},
		} {
			began := time.Now()
			_, result := room.Enter(c.ctx, c.r)
			if took := time.Since(began); result.Answer != c.want || took != c.took {
				t.Errorf("%s: answer %d after %v, want %d after %v", c.fact, result.Answer, took, c.want, c.took)
			}
		}
		room.Leave(pass, learned.Worked)
		if s := room.Stats(); s.InUse != 0 || s.Queued != 0 || s.Admitted != 1 || s.Answers[admission.Expired] != 3 {
			t.Errorf("%+v", s)
		}
	})
}
