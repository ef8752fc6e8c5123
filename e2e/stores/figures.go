package stores

import (
	"os"
	"runtime"

	"github.com/gabion-go/gabion/internal/report"
)

// The environment of TestMeasure, which is what measures. MeasureEnv names the file that
// figures are written to; without it the test looks whether all works and writes nothing.
// PartEnv says which part, and QuickEnv shortens it.
const (
	MeasureEnv = "GABION_STORES"
	PartEnv    = "GABION_STORES_PART"
	QuickEnv   = "GABION_STORES_QUICK"
)

// The parts of a run, each a process of its own, so that none has the memory of another.
const (
	PartPairs      = "pairs"
	PartMiddleware = "middleware"
	PartMany       = "many"
)

// Parts are all of them.
var Parts = []string{PartPairs, PartMiddleware, PartMany}

// Figures are what a run comes to.
type Figures struct {
	Command, Took, Load string
	System, CPU, Go     string
	Processors          int
	Modules, Servers    []string
	Sync                float64 // milliseconds of a sync of 1 KiB
	Rounds              int
	Each                string
	Pairs               []Row
	Middleware          []Cost
	Many                *Crowd
}

// about notes what the figures were measured on.
func (f *Figures) about() {
	f.System, f.CPU, f.Go = runtime.GOOS+"/"+runtime.GOARCH, report.Processor(), runtime.Version()
	f.Processors = runtime.GOMAXPROCS(0)
	f.Rounds, f.Each = Full.Rounds, Full.Each.String()
	if os.Getenv(QuickEnv) != "" {
		f.Rounds, f.Each = Quick.Rounds, Quick.Each.String()
	}
	f.Servers = servers
}
