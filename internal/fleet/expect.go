package fleet

// expect adds what processes that had shares before may want of a resource that is new to all: an operator or a reload has moved them, and
// some have not reported since. Who makes up many resources has parts of few kept for the others.
func (d *division) expect() {
	for i, left := 0, MaxPods; i < len(d.resources); i++ {
		first := d.first(i)
		if first == nil {
			continue
		}
		claims := d.claims[i]
		d.claims[i] = nil
		for k := range d.pods {
			c := claim{pod: k}
			if len(claims) > 0 && claims[0].pod == k {
				c, claims = claims[0], claims[1:]
			}
			if m := &d.pods[k]; c.ask == nil && left > 0 && m.old != nil && m.live(d.now) {
				c.ask, c.fresh, c.mute = first, true, true
				left--
			}
			if c.ask != nil || c.force > 0 {
				d.claims[i] = append(d.claims[i], c)
			}
		}
	}
}

// first returns a demand for a resource that is new, or nil. New is for a quarter of a lease what a process names that had shares
// before, and no pool had.
func (d *division) first(resource int) (ask *Demand) {
	r := &d.resources[resource]
	known := false
	if d.old != nil {
		for i := range d.old.Resources {
			if old := &d.old.Resources[i]; old.Name == r.Name {
				known = true
				if since := d.now - old.Since; old.Since > 0 && since >= 0 && since < d.length/4 {
					r.Since = old.Since
				}
			}
		}
	}
	for _, c := range d.claims[resource] {
		if c.ask == nil {
			continue
		}
		ask = c.ask
		if !known && ask.New && d.pods[c.pod].old != nil {
			r.Since = d.now
			break
		}
	}
	if r.Since == 0 {
		return nil
	}
	return ask
}
