package record_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gabion-go/gabion"
	"github.com/gabion-go/gabion/policy"
	"github.com/gabion-go/gabion/record"
)

func ExampleNewWriter() {
	var file bytes.Buffer
	w := record.NewWriter(&file)
	d := gabion.New("bank", policy.Policy{}, gabion.WithObserver(w))
	d.Run(context.Background(), func(context.Context) error { return nil })
	// A header, a line about the dependency, and three events.
	fmt.Println(bytes.Count(file.Bytes(), []byte("\n")), "lines,", w.Err())
	// Output: 5 lines, <nil>
}

func ExampleRead() {
	file := bytes.NewBufferString(`{"at":10,"kind":"attempt_sent","dependency":"bank","attempt":1}
{"at":20,"kind":"returned","dependency":"bank","attempt":1,"effect":"none","took":10}
{"at":
`)
	for e, err := range record.Read(file) {
		if err != nil {
			fmt.Println(err)
			break
		}
		fmt.Println(e.At, e.Kind, e.Took)
	}
	// Output:
	// 10 attempt_sent 0s
	// 20 returned 10ns
	// line 3: unexpected end of JSON input
}

func ExampleEntries() {
	file := bytes.NewBufferString(`{"kind":"header","version":1,"time":"2026-11-22T12:00:00Z","program":{"name":"shop","pid":4711}}
{"kind":"dependency","dependency":"bank","zero":"2026-11-22T12:00:00Z"}
{"at":1500000000,"kind":"returned","dependency":"bank","call":17,"attempt":1,"effect":"none","took":10}
{"at":1600000000,"kind":"retu`)
	for e, err := range record.Entries(file) {
		switch {
		case errors.Is(err, record.ErrCut):
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
