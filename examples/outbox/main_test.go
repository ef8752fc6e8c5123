package main

import (
	"context"
	"os"
	"strings"
	"testing"
)

// The test binary is also the relay.
func TestMain(m *testing.M) {
	if os.Getenv(relayVar) == "" {
		os.Exit(m.Run())
	}
	if role(context.Background(), os.Stdout) != nil {
		os.Exit(1)
	}
}

func TestTheStory(t *testing.T) {
	var out strings.Builder
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	const want = `The shop committed three orders and rolled a fourth back: true.
A relay died after it had published. 3 messages still wait in the table.
The next relay published them again. Charged: order-1 order-2 order-3. Dropped as duplicates: 3.
`
	if out.String() != want {
		t.Errorf("%s\nwant\n%s", &out, want)
	}
}
