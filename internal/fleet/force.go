package fleet

import (
	"cmp"
	"slices"
)

// This file counts what may be in force in a process beside its shares.

// inForce returns what may be in force in m: what it was given by the old pool and by those before it, without
// what has ended and what its report says that it does not hold.
func (d *division) inForce(m *member) (all []Was) {
	if m.old == nil || m.report != nil && m.report.Leaves {
		return nil
	}
	// No process divided for half of a lease: the store was away, or its clock stepped. Then
	// what was held may be in force in those that did not hear anything, and is counted once more.
	away := d.now-d.old.At > d.length/2
	add := func(w Was) {
		w.Until = min(d.old.At+w.Until, d.now+d.length)
		if away {
			w.Until = d.now + d.length
		}
		name := d.old.Resources[w.Resource].Name
		resource, ok := d.index[name]
		if !ok || w.Until+d.skew <= d.now {
			return
		}
		w.Resource = resource
		if m.report != nil && d.heard(m.report.Ack) && w.Version <= m.report.Ack {
			held := 0.0
			if ask := m.report.demand(name); ask != nil {
				held = ask.Holds
			}
			w.Amount = min(w.Amount, held)
		}
		if w.Amount > 0 {
			all = append(all, w)
		}
	}
	for _, w := range m.old.Was {
		add(w)
	}
	for i, amount := range m.old.Shares {
		add(Was{Version: d.old.Version, Resource: i, Amount: amount, Until: m.old.Until})
	}
	return all
}

// heard reports whether ack is a division that this pool follows. One that the store lost is not.
func (d *division) heard(ack uint64) bool {
	return ack == d.old.Version || slices.Contains(d.old.Past, ack)
}

// past returns the versions that processes may go by still.
func (d *division) past() []uint64 {
	oldest := uint64(max(0, d.now-d.length-d.skew))
	past := append(slices.Clone(d.old.Past), d.old.Version)
	past = slices.DeleteFunc(past, func(v uint64) bool { return v < oldest && v != d.old.Version })
	return past[max(0, len(past)-maxPast):]
}

// was returns what may be in force in m beside its new shares.
func (d *division) was(m *member) []Was {
	share := func(resource int) float64 {
		if resource >= len(m.row) {
			return 0
		}
		return m.row[resource]
	}
	all := slices.DeleteFunc(m.force, func(w Was) bool {
		return w.Amount <= share(w.Resource) && w.Until <= m.until
	})
	slices.SortStableFunc(all, func(a, b Was) int {
		return cmp.Or(cmp.Compare(a.Resource, b.Resource), cmp.Compare(b.Version, a.Version))
	})
	// From the latest to the earliest: one that gave no more than a later one says nothing.
	kept := all[:0]
	of := 0 // how many of kept are of the resource
	for _, w := range all {
		if of == 0 || kept[len(kept)-1].Resource != w.Resource {
			of = 1
			kept = append(kept, w)
			continue
		}
		last := &kept[len(kept)-1]
		switch {
		case w.Amount <= last.Amount && w.Until <= last.Until:
		case of == maxWas:
			last.Amount, last.Until = max(last.Amount, w.Amount), max(last.Until, w.Until)
		default:
			of++
			kept = append(kept, w)
		}
	}
	for i := range kept {
		kept[i].Until -= d.now
	}
	return kept
}
