package overload

import (
	"context"
	"time"

	"github.com/gabion-go/gabion/internal/report"
)

// A Result is a case that was run in real time, and what the lab said of it.
type Result struct {
	Name      string
	Case      Case
	World     World
	Real, Lab Figures
	Ping      Ping
	Late      Lateness
	CPU, Took time.Duration // of the process, with server and clients
	Load      string        // of the machine when it began
}

// Replications is how often the lab plays a case.
const Replications = 10

// Measure runs a case over loopback and in the lab.
func (w *World) Measure(ctx context.Context, c Case) (Result, error) {
	m := Result{Case: c, World: *w, Load: report.LoadAverage()}
	cpu, start := report.CPUTime(), time.Now()
	r, err := w.Run(c, Loopback{})
	if err != nil {
		return m, err
	}
	m.CPU, m.Took = report.CPUTime()-cpu, time.Since(start)
	m.Ping, m.Late, m.Real = r.Ping, r.Late, r.Figures()
	m.Lab, err = w.Predict(ctx, c, r.Ping.Way(w.Work), Replications)
	return m, err
}
