package recording_test

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion/internal/recording"
)

func ExampleEntries() {
	file := bytes.NewBufferString(`{"kind":"header","version":1,"time":"2026-11-22T12:00:00Z","program":{"name":"shop","pid":4711}}
{"kind":"dependency","dependency":"bank","zero":"2026-11-22T12:00:00Z"}
{"at":1500000000,"kind":"returned","dependency":"bank","call":17,"attempt":1,"effect":"none","took":10}
{"at":1600000000,"kind":"retu`)
	for e, err := range recording.Entries(file) {
		switch {
		case errors.Is(err, recording.ErrCut):
			fmt.Println("all that is whole was read:", err)
		case err != nil:
			fmt.Println(err)
		default:
			fmt.Println(e.Header.Program.Name, "call", e.ID(), e.Time(e.Event.At).Format(time.RFC3339Nano), e.Event.Kind)
		}
	}
	// Output:
	// shop call 1.17 2026-11-22T12:00:01.5Z returned
	// all that is whole was read: line 4: the recording was cut off here
}
