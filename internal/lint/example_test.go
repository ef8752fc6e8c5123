package lint_test

import (
	"fmt"

	"github.com/gabion-go/gabion/config"
	"github.com/gabion-go/gabion/internal/lint"
)

func ExampleRun() {
	text := []byte("version: 1\ndependencies:\n  stock:\n    timeout: {call: 5s, attempt: 2s}\n")
	file, broken := config.Read("gabion.yaml", text)
	report := lint.Run([]*config.File{file}, lint.Options{Rules: []string{"G010"}, Broken: []config.Findings{broken}})
	for _, f := range report.Findings {
		fmt.Println(f.Error())
	}
	// Output:
	// gabion.yaml:3:3: note G010: stock: 3 attempts (default) × 2s + waits of up to 3s = 9s > call timeout 5s: if each runs into its timeout, only 2 of 3 are sure to get their time
	//   |   stock:
	//   |   ^ write timeout.call: 9s, or fewer attempts
}
