package main

import (
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed gabion.rb.tmpl
var formulaText string

// downloads is where the files of a version are.
func downloads(version string) string { return "https://" + prefix + "/releases/download/" + version }

// formula writes Homebrew's formula for the archives that were made. A rehearsal of fewer targets has fewer in it.
func (a assets) formula(chosen []target) error {
	type source struct{ Condition, URL, Sum string }
	data := struct {
		Version, Home string
		Sources       []source
	}{strings.TrimPrefix(a.version, "v"), "https://" + prefix, nil}
	for _, t := range chosen {
		if t.system == "windows" {
			continue
		}
		name := archiveName(t, a.version)
		packed, err := os.ReadFile(filepath.Join(a.out, name))
		if err != nil {
			return err
		}
		data.Sources = append(data.Sources, source{condition(t), downloads(a.version) + "/" + name, fmt.Sprintf("%x", sha256.Sum256(packed))})
	}
	var text strings.Builder
	if err := template.Must(template.New("formula").Parse(formulaText)).Execute(&text, data); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(a.out, "gabion.rb"), []byte(text.String()), 0o644)
}

// condition asks in Homebrew's words whether a machine is the target.
func condition(t target) string {
	system, processor := "OS.linux?", "Hardware::CPU.intel?"
	if t.system == "darwin" {
		system = "OS.mac?"
	}
	if t.processor == "arm64" {
		processor = "Hardware::CPU.arm?"
	}
	return system + " && " + processor
}
