package testservers

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// In short mode no server starts, so there is nothing to test.
func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("long: real servers start here")
		return
	}
	os.Exit(m.Run())
}
