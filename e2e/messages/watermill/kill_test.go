package watermill

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/consumer"
	"github.com/gabion-go/gabion/messages/message"
)

// A rig is a broker, a bank, and consumers between them that are killed.
type rig struct {
	*testing.T
	name   string
	broker *testservers.Server
	dir    string
	bank   mortal.Bank
	line   *line
	holds  consumer.Guarantee
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	k := kinds[name]
	r := &rig{T: t, name: name, broker: k.start(t), dir: t.TempDir(), holds: consumer.Tx}
	db, _, err := mortal.OpenBank(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	r.bank = mortal.Bank{TB: t, DB: db}
	if r.line, err = k.open(urlOf(r.broker)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.line.end)
	sub, err := r.line.subscribe()
	if err != nil {
		t.Fatal(err)
	}
	if i, ok := sub.(wm.SubscribeInitializer); ok { // or two consumers would make the same table
		for _, topic := range []string{orders, dead} {
			if err := i.SubscribeInitialize(topic); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := sub.Close(); err != nil {
		t.Fatal(err)
	}
	return r
}

// publish publishes orders from one number to another, again where the broker is away.
func (r *rig) publish(from, to int) {
	r.Helper()
	for n := from; n < to; n++ {
		msg := wm.NewMessage(fmt.Sprint("order ", n), []byte(strconv.Itoa(n)))
		msg.Metadata.Set(message.Key, strconv.Itoa(n))
		for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
			err := r.line.Publish(orders, msg)
			if err == nil {
				break
			}
			if time.Now().After(end) {
				r.Fatal(err)
			}
		}
	}
}

func (r *rig) start(role, point string, after int) *mortal.Child {
	r.Helper()
	return mortal.Start(r, mortal.Birth{
		Role: role, Die: point, After: after,
		Env: []string{kindVar + "=" + r.name, urlVar + "=" + urlOf(r.broker), dirVar + "=" + r.dir, holdsVar + "=" + strconv.Itoa(int(r.holds))},
	})
}

// consume runs two consumers until the bank has booked want messages. They die kills times at the
// points in turn, and one now and then at any moment. It kills the broker when half is booked, if it is
// to. It returns how many died at points.
func (r *rig) consume(role string, want, kills int, killBroker bool) (died int) {
	r.Helper()
	started := 0
	next := func() *mortal.Child {
		point := ""
		if started < kills {
			point = points[started%len(points)]
		}
		started++
		return r.start(role, point, 1+rand.IntN(3))
	}
	pair := [2]*mortal.Child{next(), next()}
	replace := func(n int) {
		if pair[n].ProcessState.Exited() {
			r.Fatalf("a consumer failed: %s", &pair[n].Trouble)
		}
		pair[n] = next()
	}
	end := time.Now().Add(patience())
	for booked := 0; booked < want; booked, _ = r.bank.Booked() {
		if time.Now().After(end) {
			r.Fatalf("%d of %d messages are booked\n%s\n%s", booked, want, &pair[0].Trouble, &pair[1].Trouble)
		}
		if killBroker && booked > want/2 {
			killBroker = false
			r.broker.Kill()
			r.broker.Restart()
		}
		select {
		case <-pair[0].Ended:
			died++
			replace(0)
		case <-pair[1].Ended:
			died++
			replace(1)
		case <-time.After(20 * time.Millisecond):
			if n := rand.IntN(100); n < 2 && started < kills {
				pair[n].Kill()
				replace(n)
			}
		}
	}
	pair[0].Kill()
	pair[1].Kill()
	return died
}

func sizes(name string) (messages, kills int) {
	if name == "redis streams" { // the others are slower than minutes
		return mortal.Size(150, 100_000), mortal.Size(5, 500)
	}
	return mortal.Size(150, 10_000), mortal.Size(5, 50)
}

// patience is how long a rig may take.
func patience() time.Duration { return time.Duration(mortal.Size(2, 60)) * mortal.Patience }

// The consumers die at each point, the broker once, and each order is booked once. What cannot be
// booked is among the dead letters.
func TestEachOrderIsBookedOnceWhateverIsKilled(t *testing.T) {
	for name := range kinds {
		t.Run(name, func(t *testing.T) {
			if name == "rabbitmq" && os.Getenv("GABION_SOAK") != "1" {
				t.Skip("its broker takes 20 s to start and restart: with GABION_SOAK=1")
			}
			r := newRig(t, name)
			messages, kills := sizes(name)
			published := make(chan struct{})
			go func() {
				defer close(published)
				r.publish(0, messages)
			}()
			letters := 0
			for n := range messages {
				if isPoison(strconv.Itoa(n)) {
					letters++
				}
			}
			died := r.consume("gabion", messages-letters, kills, true)
			<-published
			survivor := r.start("gabion", "", 0) // for what is left of dead letters
			defer survivor.Kill()
			after, err := kinds[name].open(urlOf(r.broker)) // the old connections may have died with the broker
			if err != nil {
				t.Fatal(err)
			}
			defer after.end()
			seen, err := after.drain(t.Context(), dead, letters)
			if err != nil || len(seen) != letters {
				t.Errorf("%d of %d dead letters are there: %v", len(seen), letters, err)
			}
			if distinct, all := r.bank.Booked(); distinct != messages-letters || all != distinct {
				t.Errorf("%d orders were booked %d times, and %d had to be", distinct, all, messages-letters)
			}
			if died == 0 {
				t.Error("no consumer died where it had to")
			}
			t.Logf("%d orders, %d dead letters, %d consumers killed at points", messages, letters, died)
		})
	}
}

// A message whose work ends its process becomes a letter after as many runs as the policy has
// attempts, under hold after one, and the others are booked.
func TestAnOrderThatEndsItsProcessIsGivenUp(t *testing.T) {
	if testing.Short() {
		t.Skip("long: the broker gives the message to another consumer after a while")
	}
	for name, c := range map[string]struct {
		broker string
		holds  consumer.Guarantee
		runs   int
	}{
		"redis streams, tx":        {"redis streams", consumer.Tx, exitRuns},
		"redis streams, reexecute": {"redis streams", consumer.Reexecute, exitRuns},
		"redis streams, hold":      {"redis streams", consumer.Hold, 1},
		"postgresql, tx":           {"postgresql", consumer.Tx, exitRuns},
		"postgresql, reexecute":    {"postgresql", consumer.Reexecute, exitRuns},
		"postgresql, hold":         {"postgresql", consumer.Hold, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, c.broker)
			r.holds = c.holds
			const orders = 6 // the first of which ends its process
			r.publish(0, orders)
			ended := 0
			running := r.start("gabion", exits, 0)
			defer func() { running.Kill() }()
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				select {
				case <-running.Ended:
					if code := running.ProcessState.ExitCode(); code != exitCode {
						t.Fatalf("a consumer failed with %d: %s", code, &running.Trouble)
					}
					if ended++; ended > c.runs+2 {
						t.Fatalf("%d processes have ended", ended)
					}
					running = r.start("gabion", exits, 0)
				case <-time.After(50 * time.Millisecond):
				}
				if distinct, _ := r.bank.Booked(); distinct >= orders-1 && ended >= c.runs {
					break
				}
			}
			seen, err := r.line.drain(t.Context(), dead, 1)
			if err != nil || len(seen) != 1 || seen["0"] == 0 {
				t.Errorf("dead letters: %v, %v", seen, err)
			}
			if distinct, all := r.bank.Booked(); distinct != orders-1 || all != distinct {
				t.Errorf("%d orders were booked %d times, and %d had to be", distinct, all, orders-1)
			}
			if ended != c.runs {
				t.Errorf("%d processes have ended, want %d", ended, c.runs)
			}
		})
	}
}

// The same rig finds double bookings where there is no inbox.
func TestTheRigSeesWhatWatermillAloneDoes(t *testing.T) {
	r := newRig(t, "redis streams")
	r.publish(0, 40)
	r.consume("plain", 39, 6, false)
	if distinct, all := r.bank.Booked(); all <= distinct {
		t.Errorf("%d orders were booked %d times", distinct, all)
	}
}
