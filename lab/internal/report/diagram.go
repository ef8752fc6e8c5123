package report

import "strconv"

// diagram is who calls whom, and what goes wrong where.
func (s *sheet) diagram() *node {
	box := el("div", "class", "panel side-by")
	box.add(s.boxes())
	if list := s.causes(); len(list) > 0 {
		const several = 8
		all := el("ul", "class", "troubles")
		for _, c := range list[:min(len(list), several)] {
			all.add(el("li", "class", map[bool]string{false: "fault", true: "spike"}[c.load]).add(words("b", "", c.when()), words("span", "", " "+c.name)))
		}
		if n := len(list) - several; n > 0 {
			all.add(words("li", "", "and "+counted(n, "more")))
		}
		box.add(words("h3", "", "What goes wrong"), all)
	}
	if len(box.kids) == 0 {
		return nil
	}
	return box
}

// The sizes of the diagram, in pixels.
const (
	boxWide   = 112
	boxHigh   = 34
	boxApartX = 40
	boxApartY = 14
)

// boxes draws the graph: who calls stands to the left of what is called.
func (s *sheet) boxes() *node {
	g := s.graph()
	if len(g.names) < 2 || len(g.names) > 40 {
		return nil
	}
	rows, place, columns := map[int]int{}, map[string][2]float64{}, 0
	for _, name := range g.names {
		d := g.depth[name]
		place[name] = [2]float64{float64(d * (boxWide + boxApartX)), float64(rows[d] * (boxHigh + boxApartY))}
		rows[d]++
		columns = max(columns, d+1)
	}
	most := 0
	for _, n := range rows {
		most = max(most, n)
	}
	troubled := map[string]bool{}
	for _, m := range s.Marks {
		troubled[m.Of] = true
	}
	width, height := columns*(boxWide+boxApartX)-boxApartX+2, most*(boxHigh+boxApartY)-boxApartY+2
	out := el("svg", "class", "calls", "width", strconv.Itoa(width), "height", strconv.Itoa(height), "viewBox", "-1 -1 "+strconv.Itoa(width)+" "+strconv.Itoa(height),
		"role", "img", "aria-labelledby", "calls-t calls-d").
		add(el("title", "id", "calls-t").say("Who calls whom"), el("desc", "id", "calls-d").say(g.String()))
	for _, from := range g.names {
		for _, to := range g.calls[from] {
			a, b := place[from], place[to]
			x, y, u, v := a[0]+boxWide, a[1]+boxHigh/2, b[0], b[1]+boxHigh/2
			out.add(el("path", "class", "arrow", "d", "M"+coordinate(x)+" "+coordinate(y)+"C"+coordinate(x+24)+" "+coordinate(y)+" "+coordinate(u-26)+" "+coordinate(v)+" "+coordinate(u-6)+" "+coordinate(v)),
				el("path", "class", "tip", "d", "M"+coordinate(u)+" "+coordinate(v)+"l-7 -3.5v7Z"))
		}
	}
	for _, name := range g.names {
		class := "box"
		if g.depth[name] == 0 {
			class = "box caller"
		}
		if troubled[name] {
			class += " troubled"
		}
		at := place[name]
		out.add(el("rect", "class", class, "x", coordinate(at[0]), "y", coordinate(at[1]), "width", strconv.Itoa(boxWide), "height", strconv.Itoa(boxHigh), "rx", "5"),
			el("text", "class", "boxname", "x", coordinate(at[0]+boxWide/2), "y", coordinate(at[1]+boxHigh/2+4), "text-anchor", "middle").say(cut(name, 16)).add(words("title", "", name)))
	}
	return scroll("Who calls whom", out)
}
