package stream

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/gabion-go/gabion/e2e/messages/mortal"
	"github.com/gabion-go/gabion/internal/testproxy"
	"github.com/gabion-go/gabion/messages/message"
)

// every is how often a message can never be booked.
const every = 10

// A rig has a broker, a bank, and processes that consume.
type rig struct {
	testing.TB
	nodes []*node
	url   string
	dir   string
	exe   string   // the consumers' program; empty for this one
	env   []string // of its consumers, beside what start says
	js    jetstream.JetStream
	bank  mortal.Bank
	sent  int
	stop  bool        // consumers do not die but stop
	told  mortal.Told // what consumers said became of messages
}

func newRig(t *testing.T, servers int) *rig {
	t.Helper()
	t.Parallel()
	return openRig(t, servers)
}

func openRig(t *testing.T, servers int) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir()}
	r.nodes, r.url = startNodes(t, servers)
	nc, js, err := connect(r.url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	r.js = js
	r.eventually("the stream is made", func() error {
		_, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders", "letters"}, Replicas: servers})
		return err
	})
	r.eventually("the consumer is made", func() error {
		_, err := js.CreateOrUpdateConsumer(t.Context(), "ORDERS", jetstream.ConsumerConfig{Durable: "bank", FilterSubject: "orders", AckWait: ackWait, AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1})
		return err
	})
	db, _, err := mortal.OpenBank(t.Context(), r.dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	r.bank = mortal.Bank{TB: t, DB: db}
	return r
}

func (r *rig) eventually(what string, do func() error) {
	r.Helper()
	for end := time.Now().Add(2 * patience); ; <-time.After(20 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if time.Now().After(end) {
			r.Fatalf("%s: %v", what, err)
		}
	}
}

// publish publishes messages, each until the broker has it. Of every some, one can't be booked.
func (r *rig) publish(n int) {
	r.Helper()
	for range n {
		r.publishOne()
	}
}

// publishOne publishes one message with headers of its own.
func (r *rig) publishOne(headers ...message.Header) {
	r.Helper()
	r.sent++
	id, payload := strconv.Itoa(r.sent), strconv.Itoa(r.sent)
	if r.sent%every == 0 {
		payload = "no amount"
	}
	m := &nats.Msg{Subject: "orders", Header: nats.Header{message.Key: {id}}, Data: []byte(payload)}
	for _, h := range headers {
		m.Header.Set(h.Name, h.Value)
	}
	r.eventually("published", func() error {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		_, err := r.js.PublishMsg(ctx, m, jetstream.WithMsgID(id))
		return err
	})
}

// said returns how often consumers said a text.
func (r *rig) said(text string) int { return r.told.Count(text) }

func (r *rig) start(role, url, die string, after int) *mortal.Child {
	return mortal.Start(r, mortal.Birth{
		Program: r.exe, Role: role, Die: die, After: after, Stop: r.stop, Said: &r.told, Env: append([]string{urlVar + "=" + url, dirVar + "=" + r.dir}, r.env...),
	})
}

// settled waits until the broker has nothing left.
func (r *rig) settled() {
	r.Helper()
	r.eventually("the broker has nothing left", func() error {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		c, err := r.js.Consumer(ctx, "ORDERS", "bank")
		if err != nil {
			return err
		}
		if i := c.CachedInfo(); i.NumPending+uint64(i.NumAckPending) > 0 {
			return fmt.Errorf("%d pending, %d unacknowledged", i.NumPending, i.NumAckPending)
		}
		return nil
	})
}

func (r *rig) number(query string) (n int) {
	r.Helper()
	if err := r.bank.QueryRowContext(r.Context(), query).Scan(&n); err != nil {
		r.Fatal(err)
	}
	return n
}

// letters returns the ids of the dead letters.
func (r *rig) letters() map[string]int {
	r.Helper()
	all := map[string]int{}
	var s jetstream.Stream
	r.eventually("the stream answers", func() (err error) { s, err = r.js.Stream(r.Context(), "ORDERS"); return err })
	for seq := uint64(1); ; {
		var m *jetstream.RawStreamMsg
		r.eventually("a letter is read", func() (err error) {
			m, err = s.GetMsg(r.Context(), seq, jetstream.WithGetMsgSubject("letters"))
			if errors.Is(err, jetstream.ErrMsgNotFound) {
				return nil
			}
			return err
		})
		if m == nil {
			return all
		}
		all[string(m.Data)]++
		seq = m.Sequence + 1
	}
}

// wantEachOnce checks that every message was booked or became a letter, and none twice.
func (r *rig) wantEachOnce() {
	r.Helper()
	want := r.sent - r.sent/every
	r.bank.WantOnce(want)
	sum := 0
	for i := 1; i <= r.sent; i++ {
		if i%every != 0 {
			sum += i
		}
	}
	if got := r.number("SELECT coalesce(sum(amount), 0) FROM bookings"); got != sum {
		r.Errorf("the balance is %d, want %d", got, sum)
	}
	dead := r.letters()
	for i := every; i <= r.sent; i += every {
		if n := dead[strconv.Itoa(i)]; n != 1 {
			r.Errorf("%d letters of message %d", n, i)
		}
	}
	if len(dead) != r.sent/every {
		r.Errorf("%d letters, want %d", len(dead), r.sent/every)
	}
	r.Logf("%d messages: %d booked, %d letters, %d duplicates recognized, %d failures", r.sent, want, len(dead), r.said("ack/duplicate"), r.said("retry/failed"))
}

// Consumers are killed at each point of a message's way, and at any moment.
func TestConsumersAreKilledAtEveryPoint(t *testing.T) {
	r := newRig(t, 1)
	r.publish(mortal.Size(100, 100_000))
	places := []string{"fetch", "work", "commit", "letter", "term", ""}
	for n := range mortal.Size(len(places), 40*len(places)) {
		r.publish(20)
		if place := places[n%len(places)]; place != "" {
			after := 1
			if n%len(places) < 3 {
				after = 1 + rand.IntN(5)
			}
			r.start("consumer", r.url, place, after).End(r, patience)
			continue
		}
		other := r.start("consumer", r.url, "", 0)
		r.start("consumer", r.url, "", 0).End(r, 300*time.Millisecond+rand.N(300*time.Millisecond))
		other.End(r, 0)
	}
	last := r.start("consumer", r.url, "", 0)
	r.settled()
	last.End(r, 0)
	r.wantEachOnce()
	if r.said("ack/duplicate") == 0 {
		t.Error("nothing came twice: the rig proves nothing")
	}
}

// The same rig finds the consumer out that has no inbox.
func TestTheRigSeesAConsumerWithoutAnInbox(t *testing.T) {
	r := newRig(t, 1)
	r.publish(30)
	for range 2 {
		r.start("naive", r.url, "commit", 3).End(r, 5*time.Second)
	}
	last := r.start("naive", r.url, "", 0)
	r.settled()
	last.End(r, 0)
	if n := r.number("SELECT count(*) FROM bookings"); n <= 30-30/every {
		t.Errorf("%d bookings of 30 messages", n)
	}
}

func TestTheBrokerIsKilledAndStartedWithItsData(t *testing.T) {
	r := newRig(t, 1)
	consumers := []*mortal.Child{r.start("consumer", r.url, "", 0), r.start("consumer", r.url, "", 0)}
	for range mortal.Size(2, 100) {
		r.publish(60)
		r.nodes[0].kill()
		if err := r.nodes[0].start(); err != nil {
			t.Fatal(err)
		}
	}
	r.publish(20)
	r.settled()
	for _, c := range consumers {
		c.End(r, 0)
	}
	r.wantEachOnce()
}

func TestPartitionsBetweenConsumersAndBroker(t *testing.T) {
	r := newRig(t, 1)
	var consumers []*mortal.Child
	var proxies []*testproxy.Proxy
	for range 2 {
		p := testproxy.New(t, strings.TrimPrefix(r.url, "nats://"))
		proxies = append(proxies, p)
		consumers = append(consumers, r.start("consumer", "nats://"+p.Addr, "", 0))
	}
	faults := []testproxy.Fault{{Down: true}, {Requests: testproxy.Hold}, {Replies: testproxy.Hold}, {Replies: testproxy.Break}}
	for n := range mortal.Size(4, 200) {
		r.publish(30)
		p := proxies[n%2]
		p.Set(faults[n%len(faults)])
		r.publish(10)
		<-time.After(rand.N(2 * ackWait))
		p.Set(testproxy.Fault{})
	}
	r.settled()
	for _, c := range consumers {
		c.End(r, 0)
	}
	r.wantEachOnce()
}

// Of three replicas the leader is killed and started again, and moved.
func TestAClusterLosesAndMovesItsLeader(t *testing.T) {
	r := newRig(t, 3)
	consumers := []*mortal.Child{r.start("consumer", r.url, "", 0), r.start("consumer", r.url, "", 0)}
	for n := range mortal.Size(2, 60) {
		r.publish(30)
		if n%2 == 1 {
			r.eventually("the leader is moved", func() error {
				_, err := r.js.Conn().Request("$JS.API.CONSUMER.LEADER.STEPDOWN.ORDERS.bank", nil, 5*time.Second)
				return err
			})
			continue
		}
		lost := r.leader()
		lost.kill()
		r.publish(20)
		r.eventually("the node is back", lost.start)
	}
	r.publish(20)
	r.settled()
	for _, c := range consumers {
		c.End(r, 0)
	}
	r.wantEachOnce()
}

// leader returns the node that leads the consumer.
func (r *rig) leader() (n *node) {
	r.Helper()
	r.eventually("a node leads", func() error {
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		c, err := r.js.Consumer(ctx, "ORDERS", "bank")
		if err != nil {
			return err
		}
		for _, one := range r.nodes {
			if i := c.CachedInfo().Cluster; i != nil && i.Leader == one.Name {
				n = one
				return nil
			}
		}
		return errors.New("none leads")
	})
	return n
}
