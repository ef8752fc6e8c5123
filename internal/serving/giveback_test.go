package serving_test

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gabion-go/gabion/internal/admission"
	"github.com/gabion-go/gabion/internal/learned"
	"github.com/gabion-go/gabion/internal/serving"
)

func free(t *testing.T, room *serving.Room) {
	t.Helper()
	if s := room.Stats(); s.InUse != 0 || s.Queued != 0 {
		t.Fatalf("%d in use, %d queued", s.InUse, s.Queued)
	}
	pass, result := room.Enter(context.Background(), serving.Request{})
	if result.Answer != admission.Admitted || result.Waited {
		t.Fatalf("the next one: %+v", result)
	}
	room.Leave(pass, learned.Worked)
}

func single() *serving.Room { return serving.Options{Limit: 1}.Open() }

// Who leaves when the slot comes hears of either first, so it is tried often.
func TestASlotThatComesAsTheCallerLeavesIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room, let := single(), 0
		for range 100 {
			first, _ := room.Enter(context.Background(), serving.Request{})
			ctx, leave := context.WithCancel(context.Background())
			over := make(chan struct{})
			go func() {
				defer close(over)
				if pass, result := room.Enter(ctx, serving.Request{}); result.Answer == admission.Admitted {
					let++
					room.Leave(pass, learned.Worked)
				}
			}()
			synctest.Wait()
			leave()
			room.Leave(first, learned.Worked)
			<-over
			free(t, room)
		}
		if gone := room.Stats().Answers[admission.Gone]; int(gone) != 100-let || gone == 0 {
			t.Errorf("%d were let in and %d had gone, of 100", let, gone)
		}
	})
}

// strange is a context of a user's own.
type strange struct {
	context.Context
	done func() <-chan struct{}
	err  func() error
}

func (s strange) Done() <-chan struct{} { return s.done() }
func (s strange) Err() error            { return s.err() }

// A context may be anybody's: what it panics with costs no slot and no place.
func TestAContextThatPanicsCostsNoSlot(t *testing.T) {
	fine := func() error { return nil }
	for _, c := range []struct {
		fact string
		ends func()
	}{
		{"it panics", func() { panic("a context") }},
		{"it leaves", runtime.Goexit},
	} {
		t.Run(c.fact, func(t *testing.T) {
			room := single()
			alone := func(work func()) {
				over := make(chan struct{})
				go func() {
					defer close(over)
					defer func() { _ = recover() }()
					work()
				}()
				<-over
			}
			first, _ := room.Enter(context.Background(), serving.Request{})
			alone(func() { // while it waits
				room.Enter(strange{context.Background(), func() <-chan struct{} { c.ends(); return nil }, fine}, serving.Request{})
			})
			if s := room.Stats(); s.Queued != 0 || s.Answers[admission.Gone] != 1 {
				t.Errorf("after one who waited: %+v", s)
			}
			alone(func() { // when it has been handed a slot
				room.Enter(strange{context.Background(), func() <-chan struct{} { room.Leave(first, learned.Worked); c.ends(); return nil }, fine}, serving.Request{})
			})
			free(t, room)
			for _, early := range []bool{false, true} {
				alone(func() { // when the work has ended
					pass, _ := room.Enter(context.Background(), serving.Request{})
					ctx, done := strange{context.Background(), nil, func() error { c.ends(); return nil }}, true
					if early {
						room.Hold(pass).End(ctx, &done)
					} else {
						room.End(ctx, pass, &done)
					}
				})
				free(t, room)
			}
		})
	}
}

func TestAPassIsGivenBackOnce(t *testing.T) {
	room := serving.Options{Limit: 2}.Open()
	other, _ := room.Enter(context.Background(), serving.Request{})
	pass, _ := room.Enter(context.Background(), serving.Request{})
	h, done := room.Hold(pass), true
	ctx := h.In(context.Background())
	if !serving.Release(ctx) || serving.Release(ctx) || h.Release(learned.Worked) {
		t.Error("it was not given back once")
	}
	h.End(ctx, &done)
	if s := room.Stats(); s.InUse != 1 {
		t.Errorf("%d in use, and one works", s.InUse)
	}
	room.End(context.Background(), other, &done)
	free(t, room)
	other, _ = room.Enter(context.Background(), serving.Request{})
	pass, _ = room.Enter(context.Background(), serving.Request{})
	h = room.Hold(pass)
	h.End(context.Background(), &done)
	if serving.Release(h.In(context.Background())) || room.Stats().InUse != 1 {
		t.Error("one who comes after the end gave it back again")
	}
	room.End(context.Background(), other, &done)
	free(t, room)
}

// A trickle of callers whose deadlines are too short for the work is refused. When the work gets
// quicker that is seen, though there are no other callers.
func TestWorkThatGetsQuickerIsBegunAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		room := serving.Options{}.Open()
		ask := func(took time.Duration, n int) (begun int) {
			for range n {
				time.Sleep(10 * time.Millisecond)
				pass, result := room.Enter(context.Background(), serving.Request{Deadline: time.Now().Add(25 * time.Millisecond)})
				if result.Answer == admission.Admitted {
					begun++
					time.Sleep(took)
					room.Leave(pass, learned.Worked)
				} else if result.Answer != admission.Short || result.Waited || result.Whole {
					t.Fatalf("%+v", result)
				}
			}
			return begun
		}
		if n := ask(30*time.Millisecond, 100); n > 45 {
			t.Errorf("of the first hundred %d were begun in vain", n)
		}
		if n := ask(30*time.Millisecond, 3000); n > 60 || n < 20 {
			t.Errorf("of 3000 more %d were begun in vain", n)
		}
		ask(5*time.Millisecond, 150)
		if n := ask(5*time.Millisecond, 1000); n != 1000 {
			t.Errorf("of 1000 when the work was quick, %d were begun", n)
		}
		if n := ask(30*time.Millisecond, 1000); n > 80 {
			t.Errorf("of 1000 when it was slow again, %d were begun", n)
		}
	})
}
