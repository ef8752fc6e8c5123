package gabionmsg_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	wm "github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/message/router/middleware"

	"github.com/gabion-go/gabion/contrib/gabionmsg"
	"github.com/gabion-go/gabion/messages/inbox"
)

// Brokers refuse metadata that is no UTF-8.
func TestTheErrorOfADeadLetterIsCutAfterAWholeLetter(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	for fact, c := range map[string]struct{ text, want string }{
		"1024 bytes are whole":           {a(1024), a(1024)},
		"more are cut":                   {a(1025), a(1024)},
		"a letter that ends there stays": {a(1021) + "€b", a(1021) + "€"},
		"a letter over the end goes":     {a(1022) + "€", a(1022)},
		"so does most of a long one":     {a(1023) + "😀", a(1023)},
		"what is no letter goes":         {"a\xffb", "ab"},
	} {
		t.Run(fact, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				out := new(outlet)
				k := newDesk(t, patient(), gabionmsg.Options{Poison: out, PoisonTopic: "dead"})
				k.handler = func(*wm.Message) ([]*wm.Message, error) { return nil, inbox.Reject(errors.New(c.text)) }
				if _, err := k.deliver(order("1")); err != nil {
					t.Fatal(err)
				}
				if got := out.sent["dead"][0].Metadata.Get(middleware.ReasonForPoisonedKey); got != c.want {
					t.Errorf("%d bytes, ending with %q", len(got), got[max(0, len(got)-4):])
				}
			})
		})
	}
}
