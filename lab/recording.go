package lab

import "io"

// Recording says whose calls are recorded, and where to. What is written is a recording
// of package record, in virtual time: the dependencies in it are the services that are
// called. It has every event of the calls and of the state that decides about them, and
// nothing of other clients' calls.
type Recording struct {
	// Open returns where the recording of a side goes, by its number in Report.Sides and its
	// name. A nil Writer means that the side is not recorded. It is called when all
	// replications are done, from the first side to the last.
	Open func(side int, name string) (io.Writer, error)

	// Of is the fleet whose calls are recorded, or a service that calls others. Empty
	// means the first fleet.
	Of string

	// Client is which of the fleet's clients, from 0, together with all that share what
	// it knows, or which of the service's replicas.
	Client int

	// Max is the most events of a side. The last line of a recording says how many it left
	// out. Zero means 100,000.
	Max int
}

// Recorded is what a recording came to.
type Recorded struct {
	Side   string // the name of its side
	Of     string // whose calls
	Client int
	Events int // that were written
	Left   int // that were left out: Max were written before
}

// Recorded returns what the recordings came to, in the order of the sides.
func (r *Report) Recorded() []Recorded {
	all := make([]Recorded, 0, len(r.study.Recorded))
	for _, made := range r.study.Recorded {
		all = append(all, Recorded(made))
	}
	return all
}
