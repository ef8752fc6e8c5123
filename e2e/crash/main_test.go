package crash

import (
	"flag"
	"os"
	"testing"
)

// lanes is how many rigs run at once: they wait for leases more than they compute.
const lanes = "8"

func TestMain(m *testing.M) {
	serveIfChild()
	flag.Parse()
	if err := flag.Set("test.parallel", lanes); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
