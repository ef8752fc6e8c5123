package record_test

import (
	"bytes"
	"context"
	"fmt"

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
