package gabiongrpc

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/gabion-go/gabion/internal/adapter"
	"github.com/gabion-go/gabion/policy"
)

// An address that hangs fails nothing until the attempts' timeout, and by then has taken its
// share of all calls. It shows earlier: others answer what they got later. After unansweredRow
// attempts in a row without any answer, and as many answers of others that overtook them, the
// address counts as failing.
//
// An answer overtakes a row if its attempt was sent later and the row has waited much longer than
// it took. By order alone, at many calls a second, an address that is a little slower would look
// as if it hung. And a pause or a lost packet is no reason to leave an address out for seconds.
const (
	unansweredRow   = 8
	unansweredTimes = 4                      // as long as the answer took
	unansweredLeast = 250 * time.Millisecond // since the first of the row
)

// unanswered is what one dependency has sent to one address since that answered last.
type unanswered struct {
	mu       sync.Mutex
	sent     int
	first    time.Time
	since    time.Time // when the attempt was sent that made the row full
	answered int       // by others, of attempts after that
}

// goes notes that an attempt was sent, and reports whether the row is full.
func (u *unanswered) goes(at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent++
	switch u.sent {
	case 1:
		u.first = at
	case unansweredRow:
		u.since = at
	}
	return u.sent >= unansweredRow
}

// answers notes that the address has answered.
func (u *unanswered) answers() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.sent, u.answered = 0, 0
}

// overtaken notes that another address has answered at now what was sent then. It reports
// whether the row is full, and whether the address has to count as failing now.
func (u *unanswered) overtaken(sent, now time.Time) (full, failing bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.sent < unansweredRow {
		return false, false
	}
	if sent.After(u.since) && now.Sub(u.since) >= unansweredTimes*now.Sub(sent) {
		u.answered++
	}
	if u.answered < unansweredRow || now.Sub(u.first) < unansweredLeast {
		return true, false
	}
	u.sent, u.answered = 0, 0
	return false, true
}

// unansweredRows are those of a fleet.
type unansweredRows struct {
	full atomic.Bool // some row may be
}

// entered notes that an attempt goes to the address k.
func (f *fleet) entered(k *knowing, at time.Time) {
	if k.unanswered.goes(at) {
		f.rows.full.Store(true)
	}
}

// left notes how an attempt ended at v.at. One that was given up or ran into its timeout has no
// answer.
func (v *visit) left(a *attempt, class policy.Class) {
	if class == policy.ClassIgnored || class == policy.ClassTimeout {
		return
	}
	v.known.unanswered.answers()
	f, d := v.among.fleet, a.of.client.Dependency
	if !f.rows.full.Load() {
		return
	}
	some, now := false, time.Now()
	for _, b := range v.among.ready {
		if b == v.at {
			continue
		}
		k := b.of(d)
		full, failing := k.unanswered.overtaken(a.began, now)
		some = some || full
		if failing && v.among.spares(a) {
			fail(k.address)
		}
	}
	if !some {
		f.rows.full.Store(false)
	}
}

// spares reports whether one more address may be left out because it does not answer: at most
// half are, since where many are slow, those that are left would get the load of all.
func (p *picker) spares(a *attempt) bool {
	shut := 1
	for _, b := range p.ready {
		if b.of(a.of.client.Dependency).address.Shut() {
			shut++
		}
	}
	return shut <= len(p.ready)/2
}

// fail tells the address of as many failures as leave it out.
func fail(address adapter.Address) {
	for range unansweredRow {
		if permit, ok := address.Enter(); ok {
			address.Leave(permit, policy.ClassNetwork)
		}
	}
}
