package fleet

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

const (
	maxWas  = 4  // earlier amounts of a resource that are kept apart for a process; more are added up as one that holds longer
	maxPast = 64 // versions that are remembered; an Ack of an older one acknowledges nothing

	smallest = 1e-9 // a total that is less is nothing: it could not be rounded
)

// Divide returns the pool that follows p, which may be nil, at the time storeNow of the store. The reports are all
// that the store has. Length is that of a lease. Skew is by how much the clocks of two
// processes, or of the store's servers, may differ over that length; less than a sixty-fourth of it counts as that.
//
// Division is max–min fair by demand: no process is given more than it wants while another one
// wants more than it has (Bertsekas and Gallager, "Data Networks", 1992, section 6.5). What is left then is divided
// in the same way by the Room that they ask for. Of what is left over, three
// quarters are spread evenly as room to grow, and one quarter waits for a process whose demand rises. A process that
// is new counted nothing yet, and is taken to want an equal part. As long as none had a share, it is half of that, and the other half waits for those that come next. The same holds for a resource that is new. If a process that had shares
// before is the first to name one, the others are expected to do so within a quarter of a lease, and a part is kept for each.
//
// Of each process the larger is counted of its share and of what it may not have heard to be
// less. A share grows only by what is then left of the total. So a share that becomes smaller is
// given to others after its holder has reported that it goes by the new pool, or after its lease has ended.
//
// A wild report does no harm to others. Numbers that make no sense void a demand. A process is never given more
// than the level at which all that want as much have the same. An Ack or Holds that is not true takes only from what
// is counted for its own process. A Total counts for all, and the smallest does, because a limit that some
// process knows to be lower may be the true one; but one that is less than a tenth of the median does only
// if two processes say so. A process that reports resources that others do not
// know takes nothing of theirs. P is not changed.
func Divide(p *Pool, reports []Report, storeNow time.Time, length, skew time.Duration) *Pool {
	d := division{
		old:    p,
		now:    min(max(storeNow.UnixMicro(), 0), latest),
		length: min(max(length.Microseconds(), 1), maxLength),
	}
	d.skew = max(skew.Microseconds(), d.length/tolerance)
	d.gather(reports)
	d.name()
	d.claim()
	for i := range d.resources {
		d.resources[i] = d.share(d.resources[i], d.claims[i])
	}
	return d.pool()
}

// division is a Divide that goes on. Its times are absolute.
type division struct {
	old               *Pool
	now, length, skew int64
	pods              []member // by ID
	resources         []Resource
	index             map[string]int
	claims            [][]claim // by resource
}

// member is a process that is counted.
type member struct {
	id     string
	count  uint64
	until  int64
	report *Report // nil if the store has none
	old    *Pod    // nil if it is new
	force  []Was   // what may be in force in it, by the index of the new resources
	row    []float64
}

func (m *member) live(now int64) bool { return m.report != nil && !m.report.Leaves && m.until > now }

// claim is what one process wants and may have of one resource.
type claim struct {
	pod   int
	ask   *Demand // nil if the process wants nothing
	fresh bool    // it counted nothing yet
	comes bool    // it was in no pool yet
	mute  bool    // ask is another's: it has not named the resource yet
	force float64 // the most that may be in force in it now
	share float64 // what it is given
}

// gather brings the processes of the pool and the reports together.
func (d *division) gather(reports []Report) {
	if d.old != nil {
		d.pods = make([]member, 0, len(d.old.Pods)+8)
		for i := range d.old.Pods {
			pod := &d.old.Pods[i]
			until := min(d.old.At+pod.Until, d.now+d.length) // the store's clock may have stepped back
			d.pods = append(d.pods, member{id: pod.ID, count: pod.Count, until: until, old: pod})
		}
	}
	known := len(d.pods)
	sorted := make([]*Report, len(reports))
	for i := range reports {
		sorted[i] = &reports[i]
	}
	slices.SortFunc(sorted, func(a, b *Report) int {
		return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(b.Count, a.Count))
	})
	for i, r := range sorted {
		if i > 0 && sorted[i-1].ID == r.ID {
			continue
		}
		at, found := slices.BinarySearchFunc(d.pods[:known], r.ID, func(m member, id string) int { return strings.Compare(m.id, id) })
		switch {
		case found:
			m := &d.pods[at]
			m.report = r
			if r.Count > m.count {
				m.count, m.until = r.Count, d.now+d.length
			}
		case len(d.pods) < MaxPods && validName(r.ID):
			d.pods = append(d.pods, member{id: r.ID, count: r.Count, until: d.now + d.length, report: r})
		}
	}
	slices.SortFunc(d.pods, func(a, b member) int { return strings.Compare(a.id, b.id) })
}

// name lists the resources: those that most processes want first, so that others' rows are short, and those that
// one process made up are the first to be too many.
func (d *division) name() {
	wanted := map[string]int{}
	for i := range d.pods {
		m := &d.pods[i]
		if m.live(d.now) {
			for k := range m.report.Demands {
				wanted[m.report.Demands[k].Resource]++
			}
		}
		if m.old == nil {
			continue
		}
		for k, amount := range m.old.Shares {
			if amount > 0 {
				wanted[d.old.Resources[k].Name] += 0
			}
		}
		for _, w := range m.old.Was {
			wanted[d.old.Resources[w.Resource].Name] += 0
		}
	}
	names := make([]string, 0, len(wanted))
	for name := range wanted {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(wanted[b], wanted[a]), strings.Compare(a, b))
	})
	names = names[:min(len(names), MaxResources)]
	d.index = make(map[string]int, len(names))
	d.resources, d.claims = make([]Resource, len(names)), make([][]claim, len(names))
	for i, name := range names {
		d.index[name] = i
		d.resources[i].Name = name
	}
}

// claim lists for each resource which processes want some of it, and in which some may be in force.
func (d *division) claim() {
	at := make([]int, len(d.resources)) // 1 + the index of this process's claim
	touched := []int(nil)
	for i := range d.pods {
		m := &d.pods[i]
		m.force = d.inForce(m)
		of := func(resource int) *claim {
			if at[resource] == 0 {
				d.claims[resource] = append(d.claims[resource], claim{pod: i})
				at[resource] = len(d.claims[resource])
				touched = append(touched, resource)
			}
			return &d.claims[resource][at[resource]-1]
		}
		for _, w := range m.force {
			c := of(w.Resource)
			c.force = max(c.force, w.Amount)
		}
		if m.live(d.now) {
			for k := range m.report.Demands {
				ask := &m.report.Demands[k]
				if resource, ok := d.index[ask.Resource]; ok {
					c := of(resource)
					c.ask, c.comes = ask, (m.old == nil || m.old.Until <= 0) && ask.Holds == 0
					c.fresh = ask.New || c.comes
				}
			}
		}
		for _, resource := range touched {
			at[resource] = 0
		}
		touched = touched[:0]
	}
	d.expect()
}

// share divides one resource among its claims.
func (d *division) share(r Resource, claims []claim) Resource {
	var asking []*claim
	free := 0.0
	for i := range claims {
		c := &claims[i]
		free -= c.force
		if c.ask != nil {
			asking = append(asking, c)
			r.Whole = r.Whole || c.ask.Whole
		}
	}
	if len(asking) == 0 {
		return r
	}
	r.Total = total(asking)
	if r.Whole {
		r.Total = math.Floor(r.Total)
	}
	if r.Total < smallest {
		return r
	}
	free += r.Total
	targets, level, short := target(r, asking)
	r.Level, r.Short = level, short

	// Who has to give back is given its target at once. What is free raises those that have least.
	bases := make([]float64, len(asking))
	for i, c := range asking {
		bases[i] = c.force
	}
	grants, _ := fill(max(free, 0), targets, bases, asking, r.Whole)
	for i, c := range asking {
		c.share = round(min(targets[i], c.force+grants[i]), r.Total, r.Whole)
	}
	return r
}

// target returns what each would be given if nothing were in force; the level up to which one that wants more
// could be given more; and whether they want more than there is.
func target(r Resource, asking []*claim) (targets []float64, level float64, short bool) {
	wants, rooms, sum := make([]float64, len(asking)), make([]float64, len(asking)), 0.0
	begins := !slices.ContainsFunc(asking, func(c *claim) bool { return !c.comes || c.ask.Long })
	equal := r.Total / float64(len(asking))
	if begins = begins && !(r.Whole && equal < 2); begins {
		equal /= 2
	}
	for i, c := range asking {
		least := min(c.ask.Least, equal)
		if c.fresh {
			least = equal
		}
		wants[i], rooms[i] = min(max(c.ask.Want, least), r.Total), c.ask.Room
		if r.Whole {
			wants[i], rooms[i] = min(math.Ceil(wants[i]), r.Total), math.Ceil(rooms[i])
		}
		sum += wants[i]
	}
	targets, level = fill(r.Total, wants, nil, asking, r.Whole)
	if sum > r.Total {
		return targets, level, true
	}
	if begins {
		return targets, r.Total, false
	}
	left := add(targets, r.Total-sum, rooms, asking, r.Whole)
	spread := left * 3 / 4
	if r.Whole {
		spread = math.Ceil(spread)
	}
	for i := range rooms {
		rooms[i] = r.Total
	}
	add(targets, spread, rooms, asking, r.Whole)
	return targets, r.Total, false
}

// add divides amount among the rooms, adds it to the targets, and returns what is left of it.
func add(targets []float64, amount float64, rooms []float64, asking []*claim, whole bool) float64 {
	more, _ := fill(max(amount, 0), rooms, nil, asking, whole)
	for i, m := range more {
		targets[i] += m
		amount -= m
	}
	return max(amount, 0)
}

// total returns the smallest total of those that ask, but not one that a single process reports and that is
// less than a tenth of the median.
func total(asking []*claim) float64 {
	all := make([]float64, 0, len(asking))
	for _, c := range asking {
		if !c.mute {
			all = append(all, c.ask.Total)
		}
	}
	slices.Sort(all)
	if len(all) > 2 && all[0] < all[len(all)/2]/10 {
		return all[1]
	}
	return all[0]
}

// round makes a share whole, or a multiple of between a millionth and a ten-millionth of the total,
// so that it is written with few digits. It rounds down.
func round(share, total float64, whole bool) float64 {
	const almost = 1 + 1e-12 // 0.3 is 2.9999999999999996 tenths
	if whole {
		return math.Floor(share * almost)
	}
	digits := 6 - math.Floor(math.Log10(total))
	unit := math.Pow(10, math.Abs(digits))
	if digits < 0 {
		return math.Floor(share/unit*almost) * unit
	}
	return math.Floor(share*unit*almost) / unit
}

// pool writes down what was divided.
func (d *division) pool() *Pool {
	next := &Pool{Format: format, Version: uint64(max(d.now, 1)), At: d.now, Length: d.length, Resources: d.resources}
	if d.old != nil {
		if next.Version <= d.old.Version {
			// The store's clock stepped back. One more would be the version of a pool that the store lost.
			next.Version = d.old.Version + 1 + next.Version%1_000_000
		}
		next.Past = d.past()
	}
	for i, claims := range d.claims {
		for _, c := range claims {
			if c.share > 0 {
				m := &d.pods[c.pod]
				m.row = append(m.row, make([]float64, i+1-len(m.row))...)
				m.row[i] = c.share
			}
		}
	}
	for i := range d.pods {
		m := &d.pods[i]
		was := d.was(m)
		// A process that is gone is remembered as long as the store has its report, so that it is not taken for
		// a new one.
		if len(was) == 0 && (m.report == nil || m.report.Leaves) {
			continue
		}
		until := max(m.until-d.now, -latest)
		next.Pods = append(next.Pods, Pod{ID: m.id, Count: m.count, Until: until, Shares: m.row, Was: was})
	}
	next.split(d.old)
	return next
}
