package classify_test

import (
	"errors"
	"fmt"
	"io"
	"net"

	"github.com/gabion-go/gabion/classify"
)

func Example() {
	_, err := net.Dial("tcp", "127.0.0.1:no-such-port")
	outcome := classify.Error(err)
	fmt.Println(outcome.Class.Transient(), outcome.NeverSent)

	outcome = classify.Error(errors.New("connection reset by peer")) // a text is nothing to go by
	fmt.Println(outcome.Class.Transient(), outcome.NeverSent)
	// Output:
	// false true
	// false false
}

func ExampleRules() {
	errStale := errors.New("stale replica")
	rules := classify.Rules{Transient: []error{errStale}}
	fmt.Println(rules.Error(fmt.Errorf("read: %w", errStale)).Class.Transient())
	// Output: true
}

func ExamplePermanent() {
	err := classify.Permanent(fmt.Errorf("card number: %w", io.ErrUnexpectedEOF))
	fmt.Println(err, classify.Error(err).Class.Transient())
	// Output: card number: unexpected EOF false
}
