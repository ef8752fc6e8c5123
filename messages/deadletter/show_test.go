package deadletter_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/gabion-go/gabion/messages/deadletter"
	"github.com/gabion-go/gabion/messages/message"
)

// Whatever prints a letter prints neither its payload nor the value of a header.
func TestPrintedLettersShowNoPayload(t *testing.T) {
	l := deadletter.Letter{ID: "x", Group: "g", Reason: "failed", Payload: []byte("SECRET"), Headers: message.Headers{{Name: "Authorization", Value: "SECRET"}}}
	hex := fmt.Sprintf("%x", "SECRET")
	bytesOf := "83 69 67 82 69 84"
	record := deadletter.Stored{Letter: l}
	for _, v := range []any{
		l, &l, []deadletter.Letter{l}, map[string]deadletter.Letter{"a": l}, deadletter.Page{Letters: []deadletter.Letter{l}},
		deadletter.Lease{Letter: l}, &deadletter.Lease{Letter: l}, record, &record, struct{ L deadletter.Letter }{l},
	} {
		texts := []string{fmt.Sprint(v), fmt.Errorf("a %v", v).Error()}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, v))
		}
		var out bytes.Buffer
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		texts = append(texts, out.String())
		for _, text := range texts {
			if strings.Contains(text, "SECRET") || strings.Contains(strings.ToLower(text), hex) || strings.Contains(text, bytesOf) {
				t.Errorf("%T: %s", v, text)
			}
		}
	}
	var out bytes.Buffer
	slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "letter", l, "lease", deadletter.Lease{Letter: l})
	if text := out.String(); strings.Contains(text, "SECRET") || strings.Contains(text, "U0VDUkVU") || !strings.Contains(text, `"reason":"failed"`) {
		t.Error(text)
	}
	if text := fmt.Sprint(l); !strings.Contains(text, "letter x") || !strings.Contains(text, "6 bytes") {
		t.Error(text)
	}
}
