package bulkhead

import (
	"cmp"
	"slices"
	"testing"
)

// unnamed is the model's tenant of slots and waits from times without fairness.
const unnamed = "unnamed"

// model is what a bulkhead should do, told as plainly as possible: it keeps
// lists, and works everything out anew from them each time.
type model struct {
	limit, queue int
	fair         bool
	slots        []string // the tenant of each slot in use
	stays        []*stay  // those in the queue, in the order of arrival
	turns        []turn   // every grant there ever was
	newest       bool
	strict       bool
	slotsMax     int // of a tenant; 0 = no bound
	queueMax     int // of a tenant; 0 = no bound
}

type stay struct {
	w      *Waiter
	seq    int
	tenant string
	class  int
	answer Answer
	left   bool // by itself, so that it must not be woken
	bell   bell
}

// turn is one grant: the class served, and the classes still waited in.
type turn struct {
	class   int
	waiting [numClasses]bool
}

type bell struct{ rung int }

func (b *bell) Wake() { b.rung++ }

func (m *model) name(tenant string) string {
	if m.fair {
		return tenant
	}
	return unnamed
}

func (m *model) held(tenant string) (n int) {
	for _, s := range m.slots {
		if s == tenant && s != unnamed {
			n++
		}
	}
	return n
}

func (m *model) waiting(tenant string) (n int) {
	for _, s := range m.stays {
		if s.tenant == tenant {
			n++
		}
	}
	return n
}

// may reports whether a tenant may have one more slot, as far as it is its own matter.
func (m *model) may(tenant string) bool {
	return m.slotsMax == 0 || tenant == unnamed || m.held(tenant) < m.slotsMax
}

func (m *model) waitsIn(class int) bool {
	return slices.ContainsFunc(m.stays, func(s *stay) bool { return s.class == class && m.may(s.tenant) })
}

func (m *model) anyWaits() bool { return m.waitsIn(0) || m.waitsIn(1) || m.waitsIn(2) }

func (m *model) try(tenant string) bool {
	if m.anyWaits() || len(m.slots) >= m.limit || !m.may(m.name(tenant)) {
		return false
	}
	m.slots = append(m.slots, m.name(tenant))
	return true
}

func (m *model) join(s *stay) bool {
	if m.try(s.tenant) {
		s.tenant, s.answer = m.name(s.tenant), Granted
		return true
	}
	crowds := m.queueMax > 0 && m.fair && m.waiting(s.tenant) >= m.queueMax
	if (crowds || len(m.stays) >= m.queue && !m.pushOut(s)) && !m.pushLower(s) {
		return false
	}
	s.tenant = m.name(s.tenant)
	m.stays = append(m.stays, s)
	m.pass()
	return true
}

func (m *model) pushOut(s *stay) bool {
	named := slices.DeleteFunc(slices.Clone(m.stays), func(s *stay) bool { return s.tenant == unnamed })
	if !m.fair || len(named) == 0 {
		return false
	}
	out := slices.MaxFunc(named, func(v, w *stay) int {
		return cmp.Or(cmp.Compare(m.waiting(v.tenant), m.waiting(w.tenant)), cmp.Compare(v.class, w.class), cmp.Compare(v.seq, w.seq))
	})
	if m.waiting(s.tenant) >= m.waiting(out.tenant) || out.class < s.class {
		return false
	}
	m.remove(out, PushedOut)
	return true
}

// pushLower pushes out the newest of the lowest class of the same tenant.
func (m *model) pushLower(s *stay) bool {
	own := slices.DeleteFunc(slices.Clone(m.stays), func(v *stay) bool { return v.tenant != m.name(s.tenant) || v.class <= s.class })
	if !m.strict || len(own) == 0 {
		return false
	}
	m.remove(slices.MaxFunc(own, func(v, w *stay) int { return cmp.Or(cmp.Compare(v.class, w.class), cmp.Compare(v.seq, w.seq)) }), PushedOut)
	return true
}

func (m *model) remove(s *stay, a Answer) {
	s.answer = a
	m.stays = slices.DeleteFunc(m.stays, func(t *stay) bool { return t == s })
}

// overtaken counts, from the last grant back, how often class let a higher one go
// first.
func (m *model) overtaken(class int) (n int) {
	for _, t := range slices.Backward(m.turns) {
		if t.class == class || !t.waiting[class] {
			return n
		}
		if t.class < class {
			n++
		}
	}
	return n
}

func (m *model) turn() int {
	best := -1
	for class := range numClasses {
		switch {
		case !m.waitsIn(class):
		case m.overtaken(class) >= patience && !m.strict:
			return class
		case best < 0:
			best = class
		}
	}
	return best
}

func (m *model) pass() {
	for m.anyWaits() && len(m.slots) < m.limit {
		t := turn{class: m.turn()}
		for c := range t.waiting {
			t.waiting[c] = m.waitsIn(c)
		}
		m.turns = append(m.turns, t)
		in := slices.DeleteFunc(slices.Clone(m.stays), func(s *stay) bool { return s.class != t.class || !m.may(s.tenant) })
		next := slices.MinFunc(in, func(v, w *stay) int {
			order := cmp.Compare(v.seq, w.seq)
			if m.newest {
				order = -order
			}
			return cmp.Or(cmp.Compare(m.held(v.tenant), m.held(w.tenant)), order)
		})
		m.remove(next, Granted)
		m.slots = append(m.slots, next.tenant)
	}
}

func (m *model) release(tenant string) {
	m.slots = slices.Delete(m.slots, slices.Index(m.slots, tenant), slices.Index(m.slots, tenant)+1)
	m.pass()
}

func (m *model) setFair(fair bool) {
	m.fair = fair
	for _, s := range m.stays {
		if !fair {
			s.tenant = unnamed
		}
	}
	m.pass()
}

// pair is a bulkhead and its model, driven by the same numbers.
type pair struct {
	t     *testing.T
	b     *Bulkhead
	m     *model
	stays []*stay // not known to be over
	slots []owned
	seq   int
}

type owned struct {
	slot   Slot
	tenant string
}

func newPair(t *testing.T, limit, queue int, fair bool) *pair {
	return &pair{t: t, b: New(limit, queue, fair), m: &model{limit: limit, queue: queue, fair: fair}}
}

var tenantNames = [...]string{"", "a", "b", "c", "d"}

// step calls one method, which verb and arg choose.
func (p *pair) step(verb, arg byte) {
	tenant := tenantNames[int(arg)%len(tenantNames)]
	switch verb % 20 {
	case 0, 1, 2:
		p.try(tenant)
	case 3, 4, 5, 6, 7:
		p.join(tenant, Priority(int(arg/8)%3-1))
	case 8:
		p.leave(int(arg))
	case 9, 10, 11, 12, 13:
		p.release(int(arg))
	case 14:
		p.resize(int(arg%16)-1, int(arg/16)-1)
	case 15:
		p.setFair(arg)
	case 16:
		p.b.mu.Lock()
		p.b.spread.open(word(p.b.word.Load()), 1+int(arg%3))
		p.b.mu.Unlock()
	case 17:
		p.m.newest, p.m.strict = arg%2 == 0, arg%4 < 2
		p.b.SetNewestFirst(arg%2 == 0)
		p.b.SetStrict(arg%4 < 2)
	case 18:
		p.m.slotsMax, p.m.queueMax = int(arg%4), int(arg/4%4)
		p.m.pass()
		p.b.SetTenantMax(int(arg%4), int(arg/4%4))
	case 19:
		held, waiting, n := p.b.Tenants(tenant)
		if fair := p.m.fair; fair && (held != p.m.held(tenant) || waiting != p.m.waiting(tenant)) || n > len(tenantNames) {
			p.t.Fatalf("Tenants(%q) = %d, %d, %d", tenant, held, waiting, n)
		}
	}
	p.check()
}

func (p *pair) try(tenant string) {
	name := p.m.name(tenant)
	want := p.m.try(tenant)
	s, ok := p.b.TryAcquire(tenant, uint32(len(p.slots)))
	if ok != want || s.Held() != ok {
		p.t.Fatalf("TryAcquire(%q) = %v, %v, want %v", tenant, s, ok, want)
	}
	if ok {
		p.slots = append(p.slots, owned{s, name})
	}
}

func (p *pair) join(tenant string, prio Priority) {
	p.seq++
	s := &stay{seq: p.seq, tenant: tenant, class: class(prio)}
	want := p.m.join(s)
	w, ok := p.b.Join(&s.bell, prio, tenant)
	if ok != want || (w != nil) != ok {
		p.t.Fatalf("Join(%d, %q) = %v, want %v", prio, tenant, ok, want)
	}
	if s.w = w; ok {
		p.stays = append(p.stays, s)
	}
}

// leave ends a stay, however it stands.
func (p *pair) leave(i int) {
	if len(p.stays) == 0 {
		return
	}
	s := p.stays[i%len(p.stays)]
	slot, ok := p.b.Leave(s.w)
	if ok != (s.answer == Granted) || ok != slot.Held() {
		p.t.Fatalf("Leave of a stay that is %d = %v", s.answer, ok)
	}
	if ok {
		p.slots = append(p.slots, owned{slot, s.tenant})
		s.answer = Gone
	} else if s.answer == Waiting {
		p.m.remove(s, Gone)
		s.left = true
		p.m.pass()
	}
}

// release gives back a slot, and now and then a zero one.
func (p *pair) release(i int) {
	p.b.Release(Slot{}, 0)
	if len(p.slots) == 0 {
		return
	}
	i %= len(p.slots)
	o := p.slots[i]
	p.slots = slices.Delete(p.slots, i, i+1)
	p.m.release(o.tenant)
	p.b.Release(o.slot, uint32(i))
}

func (p *pair) resize(limit, queue int) {
	p.m.limit, p.m.queue = max(limit, 0), max(queue, 0)
	p.m.pass()
	p.b.Resize(limit, queue)
}

func (p *pair) setFair(arg byte) {
	if arg%4 == 0 { // seldom, or nothing else is ever tried
		p.m.setFair(arg%8 == 0)
		p.b.SetFair(arg%8 == 0)
	}
}

func (p *pair) stats() {
	want := Stats{InUse: len(p.m.slots), Queued: len(p.m.stays), Limit: p.m.limit, QueueLimit: p.m.queue}
	if got := p.b.Stats(); got != want {
		p.t.Fatalf("Stats = %+v, want %+v", got, want)
	}
}

// check compares all that can be seen, and the table of tenants.
func (p *pair) check() {
	p.stats()
	for _, s := range p.stays {
		p.checkStay(s)
	}
	p.stays = slices.DeleteFunc(p.stays, func(s *stay) bool { return s.answer == Gone || s.answer == PushedOut })
	names := map[string]bool{}
	for _, s := range p.m.slots {
		names[s] = true
	}
	for _, s := range p.m.stays {
		names[s.tenant] = true
	}
	delete(names, unnamed)
	if len(p.b.tenants) != len(names) {
		p.t.Fatalf("%d tenants in the table, want %v", len(p.b.tenants), names)
	}
}

// checkStay compares the answer, and collects every other slot by Granted; the
// rest waits for leave.
func (p *pair) checkStay(s *stay) {
	if got := Answer(s.w.state.Load()); got != s.answer {
		p.t.Fatalf("stay %d is %d, want %d", s.seq, got, s.answer)
	}
	if woken := s.answer != Waiting && !s.left; woken != (s.bell.rung == 1) || s.bell.rung > 1 {
		p.t.Fatalf("stay %d is %d and was woken %d times", s.seq, s.answer, s.bell.rung)
	}
	if s.answer == Granted && s.seq%2 == 0 {
		return
	}
	slot, got := p.b.Granted(s.w)
	if got != s.answer || slot.Held() != (got == Granted) {
		p.t.Fatalf("Granted of stay %d = %v, %d, want %d", s.seq, slot, got, s.answer)
	}
	if got == Granted {
		p.slots = append(p.slots, owned{slot, s.tenant})
		s.answer = Gone
	}
}
