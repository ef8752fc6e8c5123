package gabiongrpc

import (
	"slices"
	"strings"

	"github.com/gabion-go/gabion/internal/finding"
	"github.com/gabion-go/gabion/internal/grpcconfig"
	"github.com/gabion-go/gabion/policy"
)

// ServiceConfig is what a gRPC service config says, as policies: its retryPolicy,
// hedgingPolicy, retryThrottling and timeout. docs/grpc.md lists what means something else
// here. It never changes, and is safe for concurrent use. The zero ServiceConfig has no
// policies; [FromServiceConfig] makes others.
type ServiceConfig struct {
	// Notes say what means something else in a policy than in the config, where it stands.
	// Log them once, or read them with gabion import grpc-service-config.
	Notes []Finding

	text   []byte
	config *grpcconfig.Config
}

// Finding is a mistake in a service config, or a note on it.
type Finding struct {
	Line, Col int    // both from 1; columns count characters
	Reason    string // what is wrong
	Proposal  string // what to write instead; may be empty
	Snippet   string // the line that it is on
}

const configName = "service config"

// Error shows the finding's line, with a caret under its place.
func (f Finding) Error() string {
	return finding.Finding{File: configName, Line: f.Line, Col: f.Col, Reason: f.Reason, Proposal: f.Proposal, Snippet: f.Snippet}.Error()
}

// Findings are all mistakes of a service config, in the order of their places. It is the
// type of the error that [FromServiceConfig] returns.
type Findings []Finding

// Error returns all findings, one below the other.
func (fs Findings) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.Error()
	}
	return strings.Join(texts, "\n")
}

// FromServiceConfig reads a gRPC service config, which is JSON. All its mistakes are
// returned at once, the first hundred of them, as [Findings]. It refuses what grpc-go refuses, but for codes in small
// letters, and also keys that are there twice, timeouts of zero, and mistakes in what grpc-go
// does not read.
//
// gRPC repeats every method that a retryPolicy or hedgingPolicy names, so their policies say
// Safe: make sure that it is true of each. They have no timeout of attempts, whose end would be
// retried, unless DEADLINE_EXCEEDED is listed.
func FromServiceConfig(js []byte) (*ServiceConfig, error) {
	return read(slices.Clone(js), grpcconfig.Options{})
}

// Exact returns the same config without what gabion adds to it: breaker, bulkhead, pacing
// and timeouts of attempts are off, and so is the budget where the config has no
// retryThrottling.
func (s *ServiceConfig) Exact() *ServiceConfig {
	if s.config == nil {
		return s
	}
	exact, err := read(s.text, grpcconfig.Options{Exact: true})
	if err != nil { // it was read before
		panic(err)
	}
	return exact
}

func read(js []byte, o grpcconfig.Options) (*ServiceConfig, error) {
	c, wrong := grpcconfig.Parse(configName, js, o)
	if len(wrong) > 0 {
		return nil, Findings(findings(wrong))
	}
	return &ServiceConfig{Notes: findings(c.Notes), text: js, config: c}, nil
}

func findings(list []grpcconfig.Finding) []Finding {
	fs := make([]Finding, len(list))
	for i, f := range list {
		fs[i] = Finding{Line: f.Line, Col: f.Col, Reason: f.Reason, Proposal: f.Proposal, Snippet: f.Snippet}
	}
	return fs
}

// Policy returns the policy of a method, such as "/package.Service/Method": the one that
// names it, else its service's, else that of all methods. It reports false if no policy applies.
func (s *ServiceConfig) Policy(method string) (p policy.Policy, ok bool) {
	i, ok := s.find(method)
	if !ok {
		return p, false
	}
	return s.config.Methods[i].Policy.Clone(), true
}

// Dependency returns the name of the dependency whose policy a method has, made of the first
// name in its method config: "package.Service" or "package.Service.Method", and "all" for
// that of all methods. It reports false if no policy applies.
func (s *ServiceConfig) Dependency(method string) (name string, ok bool) {
	i, ok := s.find(method)
	if !ok {
		return "", false
	}
	return s.config.Methods[i].Dependency, true
}

func (s *ServiceConfig) find(method string) (i int, ok bool) {
	if s.config == nil {
		return 0, false
	}
	return s.config.Find(method)
}

// Policies returns the policies by the names of their dependencies, one for each method
// config, as [gabion.NewRegistry] takes them. Each dependency has a budget of its own, where
// gRPC has one for all methods of a connection.
//
// [gabion.NewRegistry]: https://pkg.go.dev/github.com/gabion-go/gabion#NewRegistry
func (s *ServiceConfig) Policies() map[string]policy.Policy {
	all := map[string]policy.Policy{}
	if s.config != nil {
		for _, m := range s.config.Methods {
			all[m.Dependency] = m.Policy.Clone()
		}
	}
	return all
}

// Rest returns what stays gRPC's as a service config of its own, for
// grpc.WithDefaultServiceConfig: load balancing, health checks, waitForReady and sizes of
// messages. It is empty if there is nothing of these.
func (s *ServiceConfig) Rest() string {
	if s.config == nil {
		return ""
	}
	return s.config.Rest
}
