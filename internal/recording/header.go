package recording

import (
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/gabion-go/gabion/policy"
)

// Version is the version of the lines that are written. Those before it are read, too.
const Version = 1

// The kinds of the lines that are no events.
const (
	kindHeader = "header"
	kindOrigin = "dependency"
)

// Header says who wrote a recording, or what follows of it: each run of a program that
// writes to a file begins with one. The zero Header says nothing.
type Header struct {
	Version    int       `json:"version"`               // of the lines that follow
	Time       time.Time `json:"time"`                  // when they began
	Program    Program   `json:"program"`               // what wrote them
	PolicyFile string    `json:"policy_file,omitempty"` // where the policies stand, if the program said so
	Note       string    `json:"note,omitempty"`        // whatever the program said of this recording
	Virtual    bool      `json:"virtual,omitempty"`     // times are those of a simulation, and no wall clock
}

// Program is what is known of a program. Fields that are not known are zero.
type Program struct {
	Name     string `json:"name,omitempty"`     // the last word of its package's path
	Version  string `json:"version,omitempty"`  // of its module
	Revision string `json:"revision,omitempty"` // the commit that it was built from
	Modified bool   `json:"modified,omitempty"` // with changes that are not committed
	Go       string `json:"go,omitempty"`       // the version of Go that built it
	PID      int    `json:"pid,omitempty"`      // the number of its process
	Host     string `json:"host,omitempty"`     // where it ran; never filled in by itself
}

// ThisProgram returns what is known of the running program, but for its host: a
// recording is often handed to others.
func ThisProgram() Program {
	p := Program{Name: filepath.Base(os.Args[0]), PID: os.Getpid()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return p
	}
	if info.Path != "" && info.Path != "command-line-arguments" {
		p.Name = filepath.Base(info.Path)
	}
	p.Version, p.Go = info.Main.Version, info.GoVersion
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			p.Revision = s.Value
		case "vcs.modified":
			p.Modified = s.Value == "true"
		}
	}
	return p
}

// Origin is what a recording says of one dependency: what its instants count from, and
// which policy is in force from here on. There is a new one after a reload, and when the
// clock turns out to be another: it was set, the machine slept, or another dependency of
// the same name was made.
type Origin struct {
	Dependency string    `json:"dependency"`
	Zero       time.Time `json:"zero"`             // the wall clock at instant zero, within a second
	Policy     string    `json:"policy,omitempty"` // record.PolicyHash of its policy; empty where it is not known

	// Settings are the effective values of its policy, if the program said them.
	Settings []policy.Setting `json:"settings,omitempty"`
}

// headerLine is a header as it is written. Its kind comes first: a reader finds by it a
// header that was appended to a line that was cut off.
type headerLine struct {
	Kind string `json:"kind"`
	Header
}

type originLine struct {
	Kind string `json:"kind"`
	Origin
}

// Options say of a recording what its writer can't know. The zero Options say nothing.
type Options struct {
	Header   Header
	Zero     time.Time // of a simulation: what all instants count from
	Policies func(dependency string) (policy.Policy, bool)
	Settings func(dependency string) []policy.Setting
}

// HeaderLine is a header as it is written.
func HeaderLine(h Header) any { return headerLine{kindHeader, h} }

// OriginLine is an origin as it is written.
func OriginLine(o Origin) any { return originLine{kindOrigin, o} }
