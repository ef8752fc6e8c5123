package pgxstore

import (
	"flag"
	"os"
	"testing"
)

// What runs in parallel waits for leases: more of it than there are processors.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
