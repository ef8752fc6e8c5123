package watermill

import (
	"bytes"
	"database/sql"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	wm "github.com/ThreeDotsLabs/watermill/message"

	"github.com/gabion-go/gabion/idempotency"
	"github.com/gabion-go/gabion/internal/testservers"
	"github.com/gabion-go/gabion/messages/message"
)

// A rig is a broker, a bank, and consumers between them that are killed.
type rig struct {
	*testing.T
	name   string
	broker *testservers.Server
	dir    string
	bank   *sql.DB
	line   *line
	holds  idempotency.Guarantee
}

func newRig(t *testing.T, name string) *rig {
	t.Helper()
	k := kinds[name]
	r := &rig{T: t, name: name, broker: k.start(t), dir: t.TempDir(), holds: idempotency.GuaranteeTx}
	var err error
	if r.bank, _, err = openBank(t.Context(), r.dir); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.bank.Close() })
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

// A child is a consumer in a process of its own.
type child struct {
	*exec.Cmd
	trouble bytes.Buffer
	ended   chan struct{} // closed when it has
	stdin   io.Closer
}

func (r *rig) start(role, point string, after int) *child {
	r.Helper()
	c := &child{Cmd: exec.CommandContext(r.Context(), os.Args[0]), ended: make(chan struct{})}
	c.Env = append(os.Environ(), roleVar+"="+role, kindVar+"="+r.name, urlVar+"="+urlOf(r.broker), dirVar+"="+r.dir, dieVar+"="+point, afterVar+"="+strconv.Itoa(after), holdsVar+"="+strconv.Itoa(int(r.holds)))
	c.Stderr = &c.trouble
	stdin, err := c.StdinPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		r.Fatal(err)
	}
	c.stdin = stdin
	go func() {
		defer close(c.ended)
		_ = c.Wait()
	}()
	return c
}

func (c *child) kill() {
	_ = c.Process.Kill()
	<-c.ended
}

// booked is how many messages the bank has booked, and how often in all.
func (r *rig) booked() (messages, bookings int) {
	r.Helper()
	if err := r.bank.QueryRowContext(r.Context(), "SELECT count(DISTINCT message), count(*) FROM bookings").Scan(&messages, &bookings); err != nil {
		r.Fatal(err)
	}
	return messages, bookings
}

// consume runs two consumers until the bank has booked want messages. They die kills times at the
// points in turn, and one now and then at any moment. It kills the broker when half is booked, if it is
// to. It returns how many died at points.
func (r *rig) consume(role string, want, kills int, killBroker bool) (died int) {
	r.Helper()
	started := 0
	next := func() *child {
		point := ""
		if started < kills {
			point = points[started%len(points)]
		}
		started++
		return r.start(role, point, 1+rand.IntN(3))
	}
	pair := [2]*child{next(), next()}
	replace := func(n int) {
		if pair[n].ProcessState.Exited() {
			r.Fatalf("a consumer failed: %s", &pair[n].trouble)
		}
		pair[n] = next()
	}
	end := time.Now().Add(patience())
	for booked := 0; booked < want; booked, _ = r.booked() {
		if time.Now().After(end) {
			r.Fatalf("%d of %d messages are booked\n%s\n%s", booked, want, &pair[0].trouble, &pair[1].trouble)
		}
		if killBroker && booked > want/2 {
			killBroker = false
			r.broker.Kill()
			r.broker.Restart()
		}
		select {
		case <-pair[0].ended:
			died++
			replace(0)
		case <-pair[1].ended:
			died++
			replace(1)
		case <-time.After(20 * time.Millisecond):
			if n := rand.IntN(100); n < 2 && started < kills {
				pair[n].kill()
				replace(n)
			}
		}
	}
	pair[0].kill()
	pair[1].kill()
	return died
}

func sizes(name string) (messages, kills int) {
	switch {
	case os.Getenv("GABION_SOAK") != "1":
		return 150, 5
	case name == "redis streams":
		return 100_000, 500 // in minutes; the others are slower
	}
	return 10_000, 50
}

// patience is how long a rig may take.
func patience() time.Duration {
	if os.Getenv("GABION_SOAK") == "1" {
		return time.Hour
	}
	return 2 * time.Minute
}

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
			defer survivor.kill()
			after, err := kinds[name].open(urlOf(r.broker)) // the old connections may have died with the broker
			if err != nil {
				t.Fatal(err)
			}
			defer after.end()
			seen, err := after.drain(t.Context(), dead, letters)
			if err != nil || len(seen) != letters {
				t.Errorf("%d of %d dead letters are there: %v", len(seen), letters, err)
			}
			if distinct, all := r.booked(); distinct != messages-letters || all != distinct {
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
		holds  idempotency.Guarantee
		runs   int
	}{
		"redis streams, tx":        {"redis streams", idempotency.GuaranteeTx, exitRuns},
		"redis streams, reexecute": {"redis streams", idempotency.GuaranteeReexecute, exitRuns},
		"redis streams, hold":      {"redis streams", idempotency.GuaranteeHold, 1},
		"postgresql, tx":           {"postgresql", idempotency.GuaranteeTx, exitRuns},
		"postgresql, reexecute":    {"postgresql", idempotency.GuaranteeReexecute, exitRuns},
		"postgresql, hold":         {"postgresql", idempotency.GuaranteeHold, 1},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, c.broker)
			r.holds = c.holds
			const orders = 6 // the first of which ends its process
			r.publish(0, orders)
			ended := 0
			running := r.start("gabion", exits, 0)
			defer func() { running.kill() }()
			for end := time.Now().Add(time.Minute); time.Now().Before(end); {
				select {
				case <-running.ended:
					if code := running.ProcessState.ExitCode(); code != exitCode {
						t.Fatalf("a consumer failed with %d: %s", code, &running.trouble)
					}
					if ended++; ended > c.runs+2 {
						t.Fatalf("%d processes have ended", ended)
					}
					running = r.start("gabion", exits, 0)
				case <-time.After(50 * time.Millisecond):
				}
				if distinct, _ := r.booked(); distinct >= orders-1 && ended >= c.runs {
					break
				}
			}
			seen, err := r.line.drain(t.Context(), dead, 1)
			if err != nil || len(seen) != 1 || seen["0"] == 0 {
				t.Errorf("dead letters: %v, %v", seen, err)
			}
			if distinct, all := r.booked(); distinct != orders-1 || all != distinct {
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
	if distinct, all := r.booked(); all <= distinct {
		t.Errorf("%d orders were booked %d times", distinct, all)
	}
}
